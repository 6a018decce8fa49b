"""A model that is wrong, with a fake engine: held for probing, asked again while it serves, restarted once."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.component.rig import FakeRig
from tests.rig import ROOT

QUESTION = """
[selftest]
recipe_questions = false
{choices}
[[question]]
name = "france"
judge = "answer"
ask = "What is the capital of France?"
equals = "The capital of France is Paris."
light = true
"""

HOLD = 'on_failure = "hold"'
REASON = "STATUS=self-test: france: "
WAYS = ("`vllm-serve selftest --record`", "`systemctl restart vllm-serve`")


class Turned:
    """A rig whose engine's answers can be turned while it runs."""

    def __init__(self, rig: FakeRig) -> None:
        self.rig = rig
        self.file = rig.folder / "answers"

    def answer(self, how: str) -> None:
        draft = self.file.with_suffix(".new")
        draft.write_text(how)
        draft.replace(self.file)

    def write(self, *choices: str, more: str = "", **knobs: str | int | Path) -> None:
        text = more + QUESTION.format(choices="\n".join(choices))
        self.rig.write(text, ANSWERS_FILE=self.file, **knobs)

    @property
    def statuses(self) -> list[str]:
        return [line for line in self.rig.told if line.startswith("STATUS=")]

    def until_held(self) -> None:
        def held() -> bool:
            told = self.statuses[-1:] and self.statuses[-1].startswith(REASON)
            return bool(told) and self.phase == "self-test-failed"

        self.rig.until(held, "the engine to be held")

    def until_phase(self, phase: str) -> None:
        self.rig.until(lambda: self.phase == phase, phase)

    @property
    def phase(self) -> object:
        return self.rig.status()["phase"]

    @property
    def engine(self) -> int:
        return self.rig.engine("bin/vllm").pid


@pytest.fixture
def turned(rig: FakeRig) -> Turned:
    return Turned(rig)


def command(rig: FakeRig, verb: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "appliance.cli.main", verb, "--runtime", str(rig.runtime)]
    words += ["--config", str(rig.config)] if verb == "reload" else []
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


def test_a_held_engine_shows_the_reason_and_both_ways_out_and_survives(turned: Turned) -> None:
    rig = turned.rig
    turned.write(HOLD)
    turned.answer("wrong")
    rig.start()
    turned.until_held()
    line = turned.statuses[-1]
    assert line.startswith(REASON)
    assert all(way in line for way in WAYS)
    assert len(line) <= len("STATUS=") + 400
    engine, extended = turned.engine, rig.told.count("EXTEND_TIMEOUT_USEC=60000000")
    rig.until(
        lambda: rig.told.count("EXTEND_TIMEOUT_USEC=60000000") >= extended + 2, "systemd to be asked for patience"
    )
    assert (turned.phase, turned.engine) == ("self-test-failed", engine)
    shown = command(rig, "status")
    assert (shown.returncode, shown.stdout.startswith("self-test: france: ")) == (3, True)
    assert rig.stop() == 0
    assert "READY=1" not in rig.told
    assert rig.family() == []


def test_a_held_engine_that_is_right_when_asked_again_becomes_ready_without_a_restart(turned: Turned) -> None:
    rig = turned.rig
    turned.write(HOLD)
    turned.answer("wrong")
    rig.start()
    turned.until_held()
    engine = turned.engine
    rig.signal(signal.SIGUSR1)
    rig.until(lambda: rig.log.count("POST /v1/chat/completions") >= 2, "the question to be asked again")
    rig.until(lambda: not turned.statuses[-1].startswith("STATUS=asking again"), "the second verdict")
    assert "READY=1" not in rig.told
    turned.answer("right")
    rig.signal(signal.SIGUSR1)
    rig.until_ready()
    assert (turned.phase, turned.engine) == ("serving", engine)
    assert rig.stop() == 0


def test_a_reload_of_a_held_engine_starts_one_with_the_mended_file(turned: Turned) -> None:
    rig = turned.rig
    turned.write(HOLD)
    turned.answer("wrong")
    rig.start()
    turned.until_held()
    engine = turned.engine
    done = command(rig, "reload")
    assert done.returncode == 1
    assert "reload failed: self-test: france: " in done.stderr
    assert turned.phase == "self-test-failed"
    assert turned.engine != engine
    turned.write(HOLD, ANSWERS="right")
    turned.file.unlink()
    done = command(rig, "reload")
    assert (done.returncode, done.stderr) == (0, "")
    assert rig.told.count("READY=1") == 1
    assert "RELOADING=1" not in rig.told, "systemd waits for the end of a start"
    assert rig.stop() == 0


def test_a_file_that_is_refused_leaves_a_held_engine_as_it_is(turned: Turned) -> None:
    rig = turned.rig
    turned.write(HOLD)
    turned.answer("wrong")
    rig.start()
    turned.until_held()
    engine = turned.engine
    rig.config.write_text("recpie = 3\n")
    rig.signal(signal.SIGHUP)
    rig.until(lambda: "reload refused" in rig.log and turned.phase == "self-test-failed", "the refusal")
    assert turned.engine == engine
    assert turned.statuses[-1].startswith(REASON)
    assert "READY=1" not in rig.told


def test_a_held_engine_that_dies_is_a_failed_launch_after_which_another_is_tried(turned: Turned) -> None:
    rig = turned.rig
    rig.tries = 2
    turned.write(HOLD)
    turned.answer("wrong")
    rig.start()
    turned.until_held()
    turned.answer("right")
    rig.engine("VLLM::EngineCore").kill()
    rig.until_ready()
    assert rig.log.count(" started as pid ") == 2
    assert rig.stop() == 0
    assert rig.family() == []


def test_answers_that_turn_wrong_cost_one_restart_and_then_the_service(turned: Turned) -> None:
    rig = turned.rig
    turned.write('repeat = "1s"')
    rig.start()
    rig.until_ready()
    turned.answer("wrong")
    assert rig.ended() == 69
    assert rig.log.count(" started as pid ") == 2
    assert (rig.told.count("RELOADING=1"), rig.told.count("READY=1")) == (1, 1)
    assert turned.statuses[-1].startswith("STATUS=failed: self-test: france: ")
    assert "the engine was restarted before" in rig.log
    assert rig.family() == []


def test_an_engine_that_is_right_again_after_its_restart_serves_on(turned: Turned) -> None:
    rig = turned.rig
    turned.write('repeat = "1s"', LOAD_SECONDS="1")
    rig.start()
    rig.until_ready()
    turned.answer("wrong")
    rig.until(lambda: "RELOADING=1" in rig.told, "the restart")
    turned.answer("right")
    rig.until_ready(2)
    asked = rig.log.count("POST /v1/chat/completions")
    rig.until(lambda: rig.log.count("POST /v1/chat/completions") >= asked + 2, "two more repetitions")
    assert (turned.phase, rig.log.count(" started as pid ")) == ("serving", 2)
    assert rig.stop() == 0


def test_where_a_warning_is_wanted_a_wrong_model_serves_on_and_the_status_says_so(turned: Turned) -> None:
    rig = turned.rig
    turned.write('repeat = "1s"', 'after_ready = "warn"')
    rig.start()
    rig.until_ready()
    engine = turned.engine
    turned.answer("wrong")
    rig.until(lambda: rig.log.count("answers wrongly and goes on serving") >= 2, "two warnings")
    assert ", WRONGLY: self-test: france: " in turned.statuses[-1]
    assert (turned.phase, turned.engine) == ("serving", engine)
    turned.answer("right")
    rig.until(lambda: "WRONGLY" not in turned.statuses[-1], "the status to be good again")
    assert (rig.told.count("READY=1"), "RELOADING=1" in rig.told) == (1, False)
    assert rig.stop() == 0


def test_sigusr1_has_a_serving_engine_examined_at_once(turned: Turned) -> None:
    rig = turned.rig
    turned.write('repeat = "0s"')
    rig.start()
    rig.until_ready()
    asked = rig.log.count("POST /v1/chat/completions")
    rig.signal(signal.SIGUSR1)
    rig.until(lambda: rig.log.count("POST /v1/chat/completions") > asked, "the question")
    assert (turned.phase, rig.told.count("READY=1")) == ("serving", 1)
    assert rig.stop() == 0


def test_a_busy_engine_is_asked_nothing_after_its_start(turned: Turned) -> None:
    rig = turned.rig
    turned.write('repeat = "1s"', RUNNING=1)
    rig.start()
    rig.until_ready()
    turned.answer("wrong")
    asked = rig.log.count("POST /v1/")
    time.sleep(3)  # in which it looks at the load three times
    assert (turned.phase, rig.log.count("POST /v1/")) == ("serving", asked)
    assert rig.stop() == 0


def test_a_reload_ends_an_examination_that_still_waits_for_an_answer(turned: Turned) -> None:
    rig = turned.rig
    turned.write()
    rig.start()
    rig.until_ready()
    turned.answer("hang")
    rig.signal(signal.SIGUSR1)
    time.sleep(1)  # in which the examination has begun
    turned.answer("right")
    rig.signal(signal.SIGHUP)
    rig.until_ready(2)
    assert (turned.phase, rig.status()["reload_result"]) == ("serving", "applied")
    assert rig.log.count(" started as pid ") == 2
    assert "Traceback" not in rig.log
    assert rig.stop() == 0


def test_sigusr1_ends_the_supervisor_in_no_phase(turned: Turned) -> None:
    rig = turned.rig
    turned.write(LOAD_SECONDS="1")
    rig.start()
    rig.until((rig.runtime / "status.json").exists, "the first status")
    for phase in ("checking", "loading", "serving"):
        turned.until_phase(phase)
        rig.signal(signal.SIGUSR1)
    rig.until_ready()
    rig.signal(signal.SIGTERM)
    rig.signal(signal.SIGUSR1)
    assert rig.ended() == 0


def test_every_status_is_ascii_though_the_model_answers_in_another_script(turned: Turned) -> None:
    rig = turned.rig
    turned.write(HOLD)
    turned.answer("mojibake")
    rig.write(
        QUESTION.format(choices=HOLD).replace("What is the capital of France?", "안녕하세요라고 말해 주세요."),
        ANSWERS_FILE=turned.file,
    )
    rig.start()
    turned.until_held()
    assert "\\u" in turned.statuses[-1]
    assert all(line.isascii() for line in rig.told)
    assert rig.stop() == 0
