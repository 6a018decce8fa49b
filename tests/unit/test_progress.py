"""What the logs of real runs of vLLM 0.32 say, sound and failed."""

from pathlib import Path

from appliance.core.progress import progress_of
from appliance.engine.line import line_of, split_lines

LOGS = Path(__file__).parents[1] / "fixtures/engine-logs"


def lines_of(name: str) -> tuple[str, ...]:
    lines, rest = split_lines((LOGS / f"{name}.log").read_bytes())
    return tuple(line_of(line).text for line in [*lines, rest])


def test_the_progress_of_a_start_is_told_in_its_order() -> None:
    told = [text for line in lines_of("progress_11shards") if (text := progress_of(line))]
    for earlier, later in zip(
        ("arguments accepted", "architecture Qwen3ForCausalLM", "loading weights: 9 %", "starting the API server"),
        ("starting the engine core", "loading weights", "loading weights: 100 %", "starting the API server"),
        strict=True,
    ):
        assert told.index(earlier) <= told.index(later)
    assert "loading weights: 45 %" in told
