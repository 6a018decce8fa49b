"""Lines of the engine's output."""

import pytest

from appliance.engine.journal import JOURNALED
from appliance.engine.line import LONGEST, line_of, split_lines


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        ("(APIServer pid=5) WARNING 11-30 21:24:36 [system_utils.py:255] Found ulimit", 4),
        ("(EngineCore pid=5) ERROR 11-30 21:24:36 [core.py:1512] EngineCore encountered a fatal error.", 3),
        ("INFO:     Application startup complete.", 6),
        ("Traceback (most recent call last):", 4),
        ("RuntimeError: Engine core initialization failed.", 4),
        ("Loading safetensors checkpoint shards: 100% Completed | 1/1", 6),
        ("INFORMATION about something", 6),
    ],
)
def test_a_line_has_the_priority_of_its_level(text: str, priority: int) -> None:
    assert line_of(text.encode()).priority == priority


def test_a_marked_line_is_known_to_be_in_the_journal_and_loses_its_mark() -> None:
    line = line_of(f"{JOURNALED}(Worker pid=1) INFO x".encode())
    assert line.journaled
    assert line.text == "(Worker pid=1) INFO x"


def test_colours_and_broken_utf8_do_no_harm() -> None:
    assert line_of(b"\x1b[36m(RayWorkerProc pid=1)\x1b[0m ok \xff").text == "(RayWorkerProc pid=1) ok �"


def test_an_endless_line_is_cut_and_not_kept() -> None:
    lines, rest = split_lines(b"x" * (LONGEST + 1))
    assert rest == b""
    assert len(line_of(lines[0]).text) == LONGEST
