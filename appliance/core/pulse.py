"""Whether an engine that serves is alive, judged from readings that are taken every few seconds; no clock inside.

What moves is never given up, however long a step takes: as long as the engine's processes compute, only `stall`
seconds in which no counter moves end it. An engine that should move and neither moves nor computes is doubted; three
strikes end it, and one sign of life takes all of them back.
"""

import dataclasses
import enum
import math
from collections.abc import Iterator

from appliance.core.record import record
from appliance.core.work import Work

STRIKES = 3

LONGEST_STEP = 5.0
"""Seconds that count of the time between two readings: when the machine slept, the engine did too."""


class Canary(enum.StrEnum):
    """What has become of the one short request that is asked of an engine without other work."""

    NONE = "none"
    """Nothing new."""
    OUT = "out"
    """It waits for its answer."""
    ANSWERED = "answered"
    BUSY = "busy"
    """The server asked to come again later, or gave no reply."""
    REFUSED = "refused"
    """The server will not take it, so it tells nothing about the engine behind."""
    FAILED = "failed"
    """The server says that it failed."""


@record
class Patience:
    """How long each doubt may last, in seconds."""

    canary: float = 10.0
    """From the last sign of life of an engine without work to the next canary."""
    answer: float = 5.0
    """For the answer to a canary, which takes 0.01 s on a CPU."""
    stopped: float = 5.0
    """Between two strikes against an engine of which a process is stopped."""
    quiet: float = 10.0
    """Between two strikes against one that has work and does not compute."""
    stall: float = 300.0
    """Without any counter that moves, while processes compute: a step of a long prefill may take minutes."""


@record
class Reading:
    """What was seen at one moment."""

    now: float
    """Seconds of a clock that only goes forward."""
    metrics: bool = True
    """Whether /metrics answered, whatever it said."""
    work: tuple[Work, ...] = ()
    """What it said of each engine; nothing where the counters are switched off."""
    canary: Canary = Canary.NONE
    out: float = 0.0
    """Seconds for which the canary has been out."""
    said: str = ""
    """What came in place of an answer."""
    computing: bool | None = None
    """Whether a process that computes for the model took CPU time, or moved bytes of storage, since the last reading,
    or a GPU computes; None where that can't be told."""
    serving: bool | None = None
    """The same of any process of the engine, the API server included."""
    stopped: tuple[str, ...] = ()
    """Processes that a signal holds."""


@record
class Doubt:
    """One reason to think that the engine stands still, and for how long it has lasted."""

    about: str
    """What it is about: the same thing at the next reading is the same doubt."""
    why: str = ""
    apart: float = 0.0
    """Seconds between two strikes."""
    quiet: bool = False
    """Whether nothing computes either."""
    still: float = 0.0
    """Seconds since it arose."""
    silence: float = 0.0
    """Those of them in which it was quiet without a break."""

    @property
    def strikes(self) -> int:
        """How many strikes it comes to."""
        return int(self.silence / self.apart) if self.apart > 0 else 0


@record
class Pulse:
    """What is remembered from one reading to the next."""

    now: float = -math.inf
    work: tuple[Work, ...] = ()
    proven: float = -math.inf
    """When the engine last showed that it lives."""
    asked: float = -math.inf
    """When the last canary was sent."""
    answer: Canary = Canary.NONE
    """What the last canary brought, as long as nothing has moved since."""
    said: str = ""
    doubts: tuple[Doubt, ...] = ()


@record
class Fine:
    """Nothing to do."""


@record
class Ask:
    """Send a canary."""


@record
class Strike:
    """It stands still, once more; number so many of three."""

    number: int
    why: str


@record
class Stalled:
    """It stands still and will not come back."""

    why: str


Verdict = Fine | Ask | Strike | Stalled


def felt(pulse: Pulse, reading: Reading, patience: Patience) -> tuple[Pulse, Verdict]:
    """Take one reading; return what to remember, and what it means."""
    if pulse.now == -math.inf:
        return Pulse(now=reading.now, work=reading.work, proven=reading.now, asked=reading.now), Fine()
    stuck, alive = _compared(pulse.work, reading.work)
    now = _with_answer(pulse, reading, alive)
    passed = min(max(reading.now - pulse.now, 0.0), LONGEST_STEP)
    found = tuple(_doubts(now, reading, stuck, patience, alive))
    doubts = tuple(_aged(doubt, pulse.doubts, passed) for doubt in found)
    now = dataclasses.replace(now, now=reading.now, work=reading.work or pulse.work, doubts=doubts)
    verdict = _verdict(pulse.doubts, doubts, patience)
    if isinstance(verdict, Fine) and _due(now, reading, patience):
        return dataclasses.replace(now, asked=reading.now), Ask()
    return now, verdict


def _compared(before: tuple[Work, ...], after: tuple[Work, ...]) -> tuple[tuple[Work, ...], bool]:
    """Return the engines that have work and did not move, and whether any engine moved."""
    earlier = {work.engine: work for work in before}
    told = [work for work in after if work.done and not work.asleep]
    moved = [work.engine for work in told if work.engine in earlier and work.moved_since(earlier[work.engine])]
    return tuple(work for work in told if work.busy and work.engine not in moved), bool(moved)


def _with_answer(pulse: Pulse, reading: Reading, alive: bool) -> Pulse:
    """Remember what the canary brought, and any sign of life."""
    if alive or reading.canary is Canary.ANSWERED:
        return dataclasses.replace(pulse, proven=reading.now, answer=Canary.NONE, said="")
    if reading.canary in (Canary.BUSY, Canary.REFUSED, Canary.FAILED):
        return dataclasses.replace(pulse, answer=reading.canary, said=reading.said)
    return pulse


def _doubts(
    pulse: Pulse, reading: Reading, stuck: tuple[Work, ...], patience: Patience, alive: bool
) -> Iterator[Doubt]:
    """Yield every reason to think that it stands still now."""
    resting = reading.computing is False and (reading.metrics or reading.serving is False)
    besides = ", and its processes take no CPU time" if resting else ""
    if reading.stopped:
        why = f"{', '.join(reading.stopped)} {'is' if len(reading.stopped) == 1 else 'are'} stopped"
        yield Doubt(about="stopped", why=why, apart=patience.stopped, quiet=True)
    for work in stuck:
        why = _standing(work) + besides
        yield Doubt(about=f"engine {work.engine}", why=why, apart=patience.quiet, quiet=resting)
    if not reading.metrics and reading.now - pulse.proven > patience.canary + patience.answer:
        yield Doubt(about="metrics", why=f"/metrics does not answer{besides}", apart=patience.quiet, quiet=resting)
    if alive or _asleep(reading):
        return
    if reading.canary is Canary.OUT and reading.out > patience.answer:
        why = f"a request for one token has had no answer for {reading.out:.0f} s{besides}"
        yield Doubt(about="canary", why=why, apart=patience.quiet, quiet=resting)
    elif pulse.answer in (Canary.BUSY, Canary.FAILED):
        failed = pulse.answer is Canary.FAILED
        why = f"a request for one token got {pulse.said}{besides}"
        yield Doubt(about="canary", why=why, apart=patience.quiet, quiet=failed or resting)


def _standing(work: Work) -> str:
    """Tell of an engine that has work and does not move."""
    named = "" if work.engine in ("", "0") else f" of engine {work.engine}"
    return f"{work.running or 0:g} requests run and {work.waiting or 0:g} wait, and no counter{named} moves"


def _asleep(reading: Reading) -> bool:
    return bool(reading.work) and all(work.asleep for work in reading.work)


def _aged(doubt: Doubt, before: tuple[Doubt, ...], passed: float) -> Doubt:
    """Return a doubt with the time that it has lasted; one that is new begins now."""
    old = next((earlier for earlier in before if earlier.about == doubt.about), None)
    if old is None:
        return doubt
    silence = old.silence + passed if doubt.quiet else 0.0
    return dataclasses.replace(doubt, still=old.still + passed, silence=silence)


def _verdict(before: tuple[Doubt, ...], doubts: tuple[Doubt, ...], patience: Patience) -> Verdict:
    """Return what the doubts come to; the worst counts."""
    for doubt in doubts:
        if doubt.strikes >= STRIKES:
            return Stalled(why=f"{doubt.why}; so for {doubt.silence:.0f} s")
        if doubt.still >= patience.stall:
            return Stalled(why=f"{doubt.why}; so for {doubt.still:.0f} s")
    worst = max(doubts, key=lambda doubt: doubt.strikes, default=Doubt(about=""))
    if worst.strikes <= max((doubt.strikes for doubt in before), default=0):
        return Fine()
    return Strike(number=worst.strikes, why=worst.why)


def _due(pulse: Pulse, reading: Reading, patience: Patience) -> bool:
    """Tell whether it is time for a canary: there is none out, and nothing else shows whether the engine works."""
    if reading.canary is Canary.OUT or _asleep(reading) or any(work.busy and work.done for work in reading.work):
        return False
    doubted = pulse.answer in (Canary.BUSY, Canary.FAILED)
    return reading.now - max(pulse.asked, pulse.proven) >= (patience.answer if doubted else patience.canary)
