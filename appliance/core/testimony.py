"""Of what an engine said, the part that tells something about a failure, and the error at its root."""

import re
from collections.abc import Iterator, Sequence

from appliance.core.record import record
from appliance.core.utterance import Utterance

NOISE = re.compile(
    r"^Found ulimit of|^Dumping (?:input data|scheduler)|^nanobind: |^- (?:leaked|\.\.\. skipped)"
    r"|resource_tracker|^warnings\.warn\(|^See https://nanobind|destroy_process_group\(\) was not called"
    r"|(?:Future|Syntax|Deprecation)Warning: |UserWarning: (?!CUDA|.*sm_)|Guessing device ID based on global rank"
    r"|^During handling of the above|^The above exception was|^\[Previous line repeated"
    r"|(?<!\d)\d+%(?:\||\s*Completed)|^Process \S+:$|^\[\S+ \S+ [IW] \d+ \d+\]| logging\.cc:\d+: "
    r"|^(?:PC: )?@ +0x|^#\d+ |^frame #\d+"
)
"""What is printed when nothing is wrong, or by everything that ends."""

GENERIC = re.compile(
    r"[Ss]ee (?:root cause|stack trace)|EngineDeadError|^EngineCore (?:failed to start|encountered a fatal error)"
    r"|^Worker(?:Proc)? (?:failed to start|hit an exception)|^AsyncLLM output_handler failed|RuntimeError: cancelled"
    r"|^Error in \w+ stream generator|RuntimeError: Executor failed|validation errors? for|^SystemExit|CancelledError"
    r"|^KeyboardInterrupt|^TimeoutError$|^For further information|^Exception in worker|terminate children"
)
"""Errors that only say that there was one."""

ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Exit|Interrupt|Warning_)\b(?::|$)|^\w+: error: |^vllm(?: \w+)?: error: "
    r"|^Value error, |(?:died|exited) unexpectedly"
)
"""What an error looks like: an exception's last line, argparse's, pydantic's, a lost process."""

LOSS = re.compile(r"\b(?:died|exited) unexpectedly")
"""What vLLM says of a process that is gone; of its engine core it says so as a warning."""

SUSPECT = re.compile(r"(?i)\b(?:error|fatal|failed|failure|abort(?:ed)?|fault|cannot|can't|unable|killed|panic)\b")
"""What an error looks like in the words of libraries that are not Python's."""

ENDING = re.compile(r"(?i)shut|terminat|exit|stopp|clean|destroy|abort|cancel|drain|clos|finish|kill|died|fail")
"""What a process says on its way out."""

DEPTHS = ((r"Worker|rank|Ray", 0), (r"EngineCore", 1), (r"DPCoordinator|ApiServer|APIServer|MainProcess", 2))
"""Which processes stand nearer to the GPU; a line without a name may be of any of them."""

MOST = 12
"""Lines that are kept of those that matter."""

PYDANTIC = re.compile(r"^Value error, | \[type=\w+, input_value=.*$")
"""What pydantic puts around a message."""

BARE = re.compile(r"[\w.]+")


@record
class Root:
    """The error that the others follow from."""

    utterance: Utterance
    shown: str
    """Its text; of an exception without a message, also the source line that raised it."""


def without_noise(said: Sequence[Utterance]) -> tuple[Utterance, ...]:
    """Return what was said without the noise."""
    return tuple(one for one in said if not NOISE.search(one.text))


def survived(said: Sequence[Utterance]) -> frozenset[int]:
    """Return the places of errors that a process logged and then went on from: vLLM does without many a thing."""
    last = {
        one.process: one.place for one in said if one.process and one.level == "INFO" and not ENDING.search(one.text)
    }
    return frozenset(one.place for one in said if one.level == "ERROR" and one.place < last.get(one.process, -1))


def errors_in(said: Sequence[Utterance]) -> tuple[Utterance, ...]:
    """Return the errors that say what happened, in the order in which they were printed, each text once."""
    found: dict[str, Utterance] = {}
    past = survived(said)
    for one in without_noise(said):
        if one.place in past or one.level in ("DEBUG", "INFO", "WARNING") or GENERIC.search(one.text):
            continue
        if one.frames or one.level or ERROR.search(one.text):
            found.setdefault(one.text, one)
    return tuple(found.values())


def root_of(said: Sequence[Utterance]) -> Root | None:
    """Return the first error of the process nearest to the GPU; an API server goes on after most, of it the last."""
    errors = [one for one in errors_in(said) if one.frames or ERROR.search(one.text)] or list(errors_in(said))
    if not errors:
        losses = [one for one in without_noise(said) if LOSS.search(one.text)]
        suspects = [
            one
            for one in without_noise(said)
            if not one.level and SUSPECT.search(one.text) and not GENERIC.search(one.text)
        ]
        return _root((losses[:1] or suspects[-1:])[0]) if losses or suspects else None
    deepest = min(_depth(one) for one in errors)
    nearest = [one for one in errors if _depth(one) == deepest]
    return _root(nearest[0] if deepest < 2 else nearest[-1])


def lines_that_matter(said: Sequence[Utterance]) -> tuple[str, ...]:
    """Return the last errors, each with the name of its process; where there are none, the last lines at all."""
    errors = errors_in(said)
    if not errors:
        quiet = [
            one
            for one in without_noise(said)
            if one.level in ("", "WARNING", "ERROR")
            and (SUSPECT.search(one.text) or LOSS.search(one.text))
            and not GENERIC.search(one.text)
        ]
        return tuple(signed(one.speaker, one.text) for one in quiet[-3:])
    return tuple(_shortened([signed(one.speaker, one.text) for one in errors]))


def _shortened(lines: list[str]) -> Iterator[str]:
    """Yield the first lines, where the root is, and the last."""
    if len(lines) <= MOST:
        yield from lines
        return
    yield from lines[: MOST - 4]
    yield f"... {len(lines) - MOST + 1} more ..."
    yield from lines[-3:]


def signed(speaker: str, text: str) -> str:
    """Return what was said, with the name of who said it, where that is known."""
    return f"{speaker}: {text}" if speaker else text


def _depth(one: Utterance) -> int:
    return next((depth for name, depth in DEPTHS if re.match(name, one.speaker)), 2)


def _root(one: Utterance) -> Root:
    if one.frames and BARE.fullmatch(one.text):
        return Root(utterance=one, shown=f"{one.text} at `{one.frames[-1]}`")
    return Root(utterance=one, shown=PYDANTIC.sub("", one.text))
