"""An engine in time: what it does, and what a reading shows of it."""

import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any

from appliance.core.pulse import Ask, Canary, Patience, Pulse, Reading, Stalled, Strike, Verdict, felt
from appliance.core.work import Work

PATIENCE = Patience()


def work(count: float, running: float = 0.0, waiting: float = 0.0, engine: str = "0", asleep: bool = False) -> Work:
    """Return what /metrics says of an engine that has generated so many tokens."""
    done = (("vllm:generation_tokens_total", count),)
    return Work(engine=engine, running=running, waiting=waiting, done=done, asleep=asleep)


def lived(readings: Iterable[Reading], patience: Patience = PATIENCE) -> list[tuple[float, Verdict]]:
    """Return the verdict on each reading, with its time."""
    pulse, found = Pulse(), []
    for reading in readings:
        pulse, verdict = felt(pulse, reading, patience)
        found.append((reading.now, verdict))
    return found


def strikes(found: list[tuple[float, Verdict]]) -> list[int]:
    return [verdict.number for _, verdict in found if isinstance(verdict, Strike)]


def stalled(found: list[tuple[float, Verdict]]) -> float | None:
    """Return when it was given up."""
    return next((now for now, verdict in found if isinstance(verdict, Stalled)), None)


@dataclasses.dataclass
class Heart:
    """An engine with a server before it. Whoever drives it says how it goes on; the judge sends the canaries."""

    draw: random.Random
    names: tuple[str, ...] = ("0",)
    counted: bool = True
    """Whether the server tells its counters."""
    now: float = 1000.0
    pulse: Pulse = dataclasses.field(default_factory=Pulse)
    verdicts: list[tuple[float, Verdict]] = dataclasses.field(default_factory=list)
    counts: dict[str, float] = dataclasses.field(default_factory=dict)
    running: dict[str, float] = dataclasses.field(default_factory=dict)
    sent: float | None = None
    """When the canary was sent that is out."""

    def look(self, seconds: float, **seen: Any) -> Verdict:
        """Let time pass, take a reading, and send a canary when the judge asks for one."""
        self.now += seconds
        told = tuple(work(self.counts.get(n, 0.0), self.running.get(n, 0.0), engine=n) for n in self.names)
        out = self.sent is not None
        reading = Reading(
            now=self.now,
            work=told if self.counted and seen.get("metrics", True) else (),
            canary=Canary.OUT if out else Canary.NONE,
            out=self.now - self.sent if self.sent is not None else 0.0,
        )
        reading = dataclasses.replace(reading, **seen)
        if reading.canary is not Canary.OUT:
            self.sent = None
        self.pulse, verdict = felt(self.pulse, reading, PATIENCE)
        self.verdicts.append((self.now, verdict))
        if isinstance(verdict, Ask):
            assert self.sent is None, "a second canary"
            self.sent = self.now
        return verdict

    def pause(self) -> float:
        """Return the seconds to the next reading; /metrics may take its time."""
        return self.draw.uniform(0.5, 5.0)


def idle(heart: Heart, seconds: float) -> None:
    """Have no requests, and answer each canary soon."""
    end, delay = heart.now + seconds, heart.draw.uniform(0.01, 4.0)
    while heart.now < end:
        pause = heart.pause()
        answered = heart.sent is not None and heart.now + pause - heart.sent >= delay
        moved = {name: heart.counts.get(name, 0.0) + 1 for name in heart.names[:1]} if answered else {}
        heart.counts |= moved
        canary = {"canary": Canary.ANSWERED} if answered else {}
        heart.look(pause, computing=heart.draw.random() < 0.1, serving=True, **canary)


def busy(heart: Heart, seconds: float) -> None:
    """Have requests, of which every step takes so long, up to minutes; then answer the canary that waited."""
    step = heart.draw.choice([0.05, 1.0, 20.0, 200.0, 280.0])
    heart.running = dict.fromkeys(heart.names, 3.0)
    begun, made, end = heart.now, 0, heart.now + max(seconds, step)
    while heart.now < end:
        pause = heart.pause()
        steps = int((heart.now + pause - begun) / step)
        if steps > made:
            heart.counts = {name: heart.counts.get(name, 0.0) + steps - made for name in heart.names}
        made = steps
        heart.look(pause, computing=True, serving=heart.draw.random() < 0.9)
    heart.running = {}
    heart.counts = {name: heart.counts.get(name, 0.0) + 1 for name in heart.names}
    heart.look(heart.pause(), computing=True, **({"canary": Canary.ANSWERED} if heart.sent is not None else {}))


def overloaded(heart: Heart, seconds: float) -> None:
    """Answer /metrics too late again and again, for the server has too much to do; it computes all the time."""
    end = heart.now + min(seconds, 200.0)
    while heart.now < end:
        heart.look(heart.pause(), metrics=False, computing=heart.draw.random() < 0.5, serving=True)
    heart.counts = {name: heart.counts.get(name, 0.0) + 50 for name in heart.names}
    answered = {"canary": Canary.ANSWERED} if heart.sent is not None else {}
    heart.look(heart.pause(), computing=True, serving=True, **answered)


def refused(heart: Heart, seconds: float) -> None:
    """Have no requests, and refuse each canary."""
    end = heart.now + seconds
    while heart.now < end:
        canary = {"canary": Canary.REFUSED, "said": "HTTP 404"} if heart.sent is not None else {}
        heart.look(heart.pause(), computing=False, serving=True, **canary)


def absent(heart: Heart, seconds: float) -> None:
    """Let the whole machine sleep, canary and clock included."""
    heart.look(seconds * 50, computing=False, serving=False)


SOUND: tuple[Callable[[Heart, float], None], ...] = (idle, busy, overloaded, refused, absent)
