"""The engine's last lines as what its processes said: who, how loud, and what, with the traceback that led there."""

import re
from collections.abc import Iterable, Iterator

from appliance.core.record import record

LONGEST = 1000
"""Characters of a line that are read; what tells something stands before that."""

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

SPEAKER = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]: ?|\((?P<name>[\w.-]+)(?: [\w=]+)?(?:, | )pid=\d+(?:, ip=[\w.:]+)?\) ?)"
    r"|(?P<node>[\w.-]+:\d+:\d+ \[\d+\] )(?:[\w/]+\.(?:cc|h):\d+ )?(?=NCCL )"
)
"""Who speaks: `(Worker_TP1 pid=7) `, Ray's `(RayWorkerProc pid=7, ip=10.0.0.2) `, torchrun's `[rank1]: `, NCCL's."""

LOUDNESS = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)"

STAMP = re.compile(
    rf"{LOUDNESS} \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] ?"  # vLLM's own, in brackets since 0.7
    rf"|{LOUDNESS.replace('level', 'uvicorn')}: +(?=\S)"
    rf"|\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\s{LOUDNESS.replace('level', 'ray')} [\w.]+:\d+ -- "
    r"|(?=NCCL (?P<nccl>INFO) )"
    r"|\[?(?P<letter>[IWEF])(?:\d{3,4} \d\d:\d\d:\d\d[.\d]*)? (?:\d+ )?[\w./-]+:\d+\] ?"  # torch's
)
"""What stands before a logged text: its level, its time and the place in the source, which change with each version."""

LETTERS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}

TRACEBACK = re.compile(r"Traceback \(most recent call last\):|  File \"")
FRAME = re.compile(r"\s*File \"[^\"]*\", line \d+(?:, in (?P<function>.*))?")
UNDERLINE = re.compile(r"[\s~^.]*")
FIELD = re.compile(r"[a-z_][\w.,\[\]]*")
COMPLAINT = re.compile(r" +(?:Input|Field|Extra inputs|Unexpected keyword) ")
"""What pydantic says of a field, below its name."""


@record
class Utterance:
    """What one process said in one line."""

    place: int
    """Which of the lines it is, from 0."""
    speaker: str
    """The name of the process, as vLLM prints it; empty where the line names none."""
    process: str
    """Its name with its pid and what else tells it from others of that name."""
    level: str
    """DEBUG to CRITICAL; empty where the line was not logged: tracebacks, argparse, libraries in C."""
    text: str
    """Without prefix and without blanks around it."""
    frames: tuple[str, ...] = ()
    """Where the text is an exception's: functions and source lines of its traceback, outermost first, no paths."""


def utterances(lines: Iterable[str]) -> tuple[Utterance, ...]:
    """Return what was said, without the frames of tracebacks: those belong to the exception that follows them.

    Processes speak at the same time, so that frames are told apart by the prefix of their lines.

    >>> said = utterances([
    ...     "(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9] Traceback (most recent call last):",
    ...     "INFO:     127.0.0.1:1 - 200 OK",
    ...     '(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9]   File "/x/a.py", line 9, in load',
    ...     "(Worker pid=7) ERROR 11-30 21:00:00 [a.py:9] ValueError: no",
    ... ])
    >>> [(one.speaker, one.level, one.text, one.frames) for one in said]
    [('', 'INFO', '127.0.0.1:1 - 200 OK', ()), ('Worker', 'ERROR', 'ValueError: no', ('load',))]
    """
    return tuple(_spoken(lines))


def _spoken(lines: Iterable[str]) -> Iterator[Utterance]:
    tracebacks: dict[tuple[str, str], list[str]] = {}
    before: dict[str, str] = {}
    for place, line in enumerate(lines):
        process, speaker, level, text = parts_of(line)
        key = (process, level)
        if TRACEBACK.match(text):
            tracebacks.setdefault(key, [])
        if key in tracebacks and (text[:1].isspace() or TRACEBACK.match(text) or not text):
            tracebacks[key] += _frame(text)
            continue
        if text.strip():
            frames = tuple(tracebacks.pop(key, ()))
            said = _with_field(before.get(process, ""), text)
            before[process] = text
            yield Utterance(place=place, speaker=speaker, process=process, level=level, text=said, frames=frames)


def _with_field(before: str, text: str) -> str:
    """Return what was said; of a complaint about a field, with the name that stands in the line before."""
    return f"{before}: {text.strip()}" if COMPLAINT.match(text) and FIELD.fullmatch(before) else text.strip()


def parts_of(line: str) -> tuple[str, str, str, str]:
    """Return the process, its speaker's name, the level and the rest of a line; the rest keeps its indentation.

    >>> parts_of("(EngineCore_DP0 pid=42) ERROR 07-31 10:00:00 [core.py:632] EngineCore failed to start.")
    ('(EngineCore_DP0 pid=42)', 'EngineCore_DP0', 'ERROR', 'EngineCore failed to start.')
    >>> parts_of("[rank1]:[E731 10:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught a timeout")
    ('[rank1]:', 'rank1', 'ERROR', '[Rank 1] Watchdog caught a timeout')
    """
    text, process, speaker, level = ESCAPE.sub("", line[:LONGEST]).replace("\x1e", ""), "", "", ""
    while found := SPEAKER.match(text):
        process = found[0].strip()
        speaker = found["name"] or (f"rank{found['rank']}" if found["rank"] else speaker)
        text = text[found.end() :]
    if stamp := STAMP.match(text):
        level = (
            stamp["level"]
            or stamp["uvicorn"]
            or stamp["ray"]
            or stamp["nccl"]
            or LETTERS.get(stamp["letter"] or "", "")
        )
        text = text[stamp.end() :]
    return process, speaker, level, text


def _frame(text: str) -> Iterator[str]:
    """Yield what a line of a traceback says beside its path."""
    if found := FRAME.match(text):
        if found["function"]:
            yield found["function"]
    elif text[:1].isspace() and not UNDERLINE.fullmatch(text):
        yield text.strip()
