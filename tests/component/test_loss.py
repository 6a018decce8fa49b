"""What becomes of an engine that fails, stands still or is lost, with the fake engine."""

import json
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.component.rig import FakeRig


def failure(rig: FakeRig) -> dict[str, object]:
    """Return what `vllm-serve explain --json` would show."""
    table: dict[str, object] = json.loads((rig.runtime / "last-failure.json").read_text())
    return table


def statuses(rig: FakeRig) -> list[str]:
    return [line.removeprefix("STATUS=") for line in rig.told if line.startswith("STATUS=")]


def test_a_start_that_fails_is_tried_again_with_the_file_as_it_is_then(rig: FakeRig) -> None:
    rig.tries = 3
    rig.write(EXIT=1)
    rig.start()
    rig.until(lambda: any(line.startswith("waiting 0.2 s before the next launch") for line in statuses(rig)), "a pause")
    rig.write()
    rig.until_ready()
    assert "the engine ended by itself (exit status 1)" in rig.log
    assert rig.status()["trouble"] == ""
    assert rig.stop() == 0


def test_a_start_that_never_becomes_ready_is_given_up_after_its_tries(rig: FakeRig) -> None:
    rig.tries = 3
    rig.write(EXIT=1)
    rig.start()
    assert rig.ended() == 69
    assert "none of 3 launches became ready" in statuses(rig)[-1]
    assert [rig.log.count(f"engine {number} started as pid") for number in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert (failure(rig)["launch"], failure(rig)["phase"], failure(rig)["status"]) == (3, "loading", 1)
    assert rig.family() == []


def test_what_no_second_try_can_mend_ends_at_once(rig: FakeRig) -> None:
    rig.tries = 3
    rig.write(USAGE=1)
    rig.start()
    assert rig.ended() == 78
    assert rig.log.count("started as pid") == 1


def test_a_stop_during_a_pause_ends_at_once(rig: FakeRig) -> None:
    rig.tries = 3
    rig.write(EXIT=1)
    rig.config.write_text(rig.config.read_text().replace('pause = "200ms"', 'pause = "1min"'))
    rig.start()
    rig.until(lambda: rig.status()["phase"] == "waiting" if rig.told else False, "the pause")
    assert rig.stop() == 0
    assert rig.family() == []


@pytest.mark.parametrize("title", ["VLLM::EngineCore", "VLLM::Worker", "bin/vllm"])
def test_a_process_that_is_stopped_is_found_within_30_seconds(rig: FakeRig, title: str) -> None:
    rig.patience = 60
    rig.start()
    rig.until_ready()
    began = time.monotonic()
    rig.engine(title).send_signal(signal.SIGSTOP)
    rig.until(lambda: "RELOADING=1" in rig.told, "the loss to be found")
    assert time.monotonic() - began < 30
    rig.until_ready(2)
    assert "the engine may stand still, sign 1 of 3: " in rig.log
    assert "stack: " in rig.log
    found = failure(rig)
    assert (found["phase"], found["launch"]) == ("serving", 1)
    assert rig.stop() == 0
    assert rig.family() == []


def test_a_load_that_stands_still_is_ended_with_its_stacks(rig: FakeRig) -> None:
    rig.patience = 40
    rig.write('[patience]\nstall = "4s"', LOAD_SECONDS=60)
    rig.start()
    rig.until(lambda: "STATUS=loading demo: arguments accepted" in rig.told, "the load to begin")
    for process in psutil.Process(rig.engine("bin/vllm").pid).children(recursive=True):
        process.send_signal(signal.SIGSTOP)
    rig.engine("bin/vllm").send_signal(signal.SIGSTOP)
    assert rig.ended() == 69
    assert "the engine printed nothing, computed nothing and read nothing for 4 s" in rig.log
    assert "stack: " in rig.log
    assert rig.family() == []


def test_an_engine_that_rests_between_two_requests_is_left_alone(rig: FakeRig) -> None:
    rig.write('[patience]\nstall = "5s"')
    rig.start()
    rig.until_ready()
    time.sleep(12)
    assert "may stand still" not in rig.log
    assert rig.told.count("READY=1") == 1


def test_the_service_leaves_its_shared_memory_to_nobody_when_it_is_killed(rig: FakeRig, tmp_path: Path) -> None:
    name = f"fake_{tmp_path.name}_{rig.port}"
    rig.write(SHM=name)
    rig.start()
    rig.until_ready()
    segment = Path("/dev/shm", f"psm_{name}")
    assert segment.exists()
    rig.engine("bin/vllm").kill()
    rig.until_ready(2)
    rig.stop()
    assert not segment.exists()
