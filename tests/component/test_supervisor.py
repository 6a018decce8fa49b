"""The supervisor with a fake engine: every way to start, to fail, to reload and to stop."""

import http.server
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.component.rig import FakeRig
from tests.rig import ROOT, reserved_port


def test_ready_comes_after_the_self_test_and_status_tells_each_phase(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    statuses = [line.removeprefix("STATUS=") for line in rig.told if line.startswith("STATUS=")]
    for phase in ("checking the machine", "loading demo", "asking the self-test of demo", "serving demo on"):
        assert any(status.startswith(phase) for status in statuses), phase
    assert 'self-test: counting: "5 6 7' in rig.log
    assert "loading demo: loading weights" in rig.log
    before = rig.told[: rig.told.index("READY=1")]
    assert any(line.startswith("STATUS=asking the self-test") for line in before)
    assert rig.status()["phase"] == "serving"
    assert rig.stop() == 0
    assert "STOPPING=1" in rig.told
    assert rig.family() == []


def test_a_wrong_answer_ends_with_69_and_says_which_question_got_what(rig: FakeRig) -> None:
    rig.write(ANSWERS="wrong")
    rig.start()
    assert rig.ended() == 69
    assert "READY=1" not in rig.told
    last = [line for line in rig.told if line.startswith("STATUS=")][-1]
    assert last.startswith('STATUS=failed: self-test: france: ".siraP si ecnarF')
    assert 'instead of "The capital of France is Paris."' in last
    assert rig.family() == []


@pytest.mark.parametrize("answers", ["empty", "error"])
def test_an_engine_that_is_healthy_but_can_not_answer_is_not_ready(rig: FakeRig, answers: str) -> None:
    rig.write(ANSWERS=answers)
    rig.start()
    assert rig.ended() == 69
    assert "READY=1" not in rig.told


@pytest.mark.parametrize(
    ("knobs", "status", "told"),
    [
        ({"EXIT": 1}, 69, "the engine ended by itself (exit status 1)"),
        ({"EXIT": 0}, 69, "the engine ended by itself (exit status 0)"),
        ({"USAGE": 1}, 78, "vllm: error: unrecognized arguments: --bogus-flag 1"),
    ],
)
def test_an_engine_that_leaves_before_it_is_ready_fails_the_start(
    rig: FakeRig, knobs: dict[str, str | int], status: int, told: str
) -> None:
    rig.write(**knobs)
    rig.start()
    assert rig.ended() == status
    assert told in rig.log
    assert rig.family() == []


def test_an_engine_that_says_nothing_while_loading_is_given_up(rig: FakeRig) -> None:
    rig.write('[patience]\nloading = "1s"\nstopping = "1s"', SILENT=1)
    rig.start()
    assert rig.ended() == 69
    assert "the engine printed nothing for 1 s while loading" in rig.log
    assert rig.family() == []


@pytest.mark.parametrize("title", ["VLLM::EngineCore", "VLLM::Worker", "bin/vllm"])
@pytest.mark.parametrize("escape", ["", "1"])
def test_an_engine_that_loses_a_process_is_started_again_and_leaves_no_orphan(
    rig: FakeRig, title: str, escape: str
) -> None:
    rig.write(ESCAPE=escape)
    rig.start()
    rig.until_ready()
    others = psutil.Process(rig.process.pid if rig.process else 0).children(recursive=True)
    rig.engine(title).kill()
    rig.until_ready(2)
    assert not [process for process in others if process.is_running()]
    assert "RELOADING=1" in rig.told[rig.told.index("READY=1") :]
    assert "the engine is lost, starting it again: " in rig.log
    assert not rig.status()["trouble"]
    rig.engine(title).kill()
    assert rig.ended() == 69
    assert "2 engines in a row were ready and got lost" in [line for line in rig.told if line.startswith("STATUS=")][-1]
    assert rig.family() == []


def test_a_stop_while_loading_ends_at_once_though_vllm_swallows_the_first_sigterm(rig: FakeRig) -> None:
    rig.write(LOAD_SECONDS=60)
    rig.start()
    rig.until(lambda: "STATUS=loading demo: arguments accepted" in rig.told, "the load to begin")
    assert rig.stop() == 0
    assert "READY=1" not in rig.told
    assert rig.family() == []


def test_a_stubborn_engine_is_killed(rig: FakeRig) -> None:
    rig.write('[patience]\nstopping = "1s"', STUBBORN=1, ESCAPE=1)
    rig.start()
    rig.until_ready()
    assert rig.stop() == 0
    assert "the engine did not stop within 1 s; killing it" in rig.log
    assert rig.family() == []


def test_shared_memory_that_an_engine_leaves_is_removed(rig: FakeRig, tmp_path: Path) -> None:
    name = f"fake_{tmp_path.name}_{rig.port}"
    rig.write(SHM=name)
    rig.start()
    rig.until_ready()
    segment = Path("/dev/shm", f"psm_{name}")
    assert segment.exists()
    rig.stop()
    assert not segment.exists()


def test_sighup_restarts_the_engine_with_the_new_file(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    first = rig.engine("bin/vllm").pid
    rig.write("[vllm]\nmax_num_seqs = 3")
    rig.signal(signal.SIGHUP)
    rig.until_ready(2)
    second = rig.engine("bin/vllm")
    assert second.pid != first
    assert "--max-num-seqs 3" in " ".join(second.cmdline())
    reloading = rig.told.index("RELOADING=1")
    assert rig.told[reloading + 1].startswith("MONOTONIC_USEC=")
    assert rig.told.index("READY=1") < reloading
    assert rig.status()["reload_result"] == "applied"


def test_a_broken_file_is_refused_and_the_engine_stays_untouched(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    engine = rig.engine("bin/vllm").pid
    rig.config.write_text('recipe = "demo"\nrecpie = 3\n')
    rig.signal(signal.SIGHUP)
    rig.until_ready(2)
    assert rig.engine("bin/vllm").pid == engine
    assert f"{rig.config}:2: recpie: unknown key; did you mean recipe?" in rig.log
    assert "last reload refused" in [line for line in rig.told if line.startswith("STATUS=")][-1]


@pytest.mark.parametrize("knobs", [{"ANSWERS": "wrong"}, {"EXIT": 1}, {"USAGE": 1}])
def test_settings_that_do_not_serve_are_rolled_back(rig: FakeRig, knobs: dict[str, str | int]) -> None:
    rig.start()
    rig.until_ready()
    rig.write(**knobs)
    rig.signal(signal.SIGHUP)
    rig.until_ready(2)
    assert rig.status()["reload_result"] == "rolled-back"
    assert rig.status()["phase"] == "serving"
    assert len([p for p in rig.family() if "bin/vllm" in " ".join(p.cmdline())]) == 1


def reload(rig: FakeRig) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "appliance.cli.main", "reload", "--config", str(rig.config)]
    command += ["--runtime", str(rig.runtime)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


def test_the_reload_command_waits_for_the_outcome_and_tells_it(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    done = reload(rig)
    assert (done.returncode, done.stdout.startswith("serving demo on")) == (0, True)
    rig.write(ANSWERS="wrong")
    done = reload(rig)
    assert done.returncode == 1
    assert 'reload rolled-back: self-test: france: "' in done.stderr
    rig.config.write_text("[api]\nport = 0\n")
    done = reload(rig)
    assert done.returncode == 78
    assert "[api] port: found 0, wants a port from 1 to 65535" in done.stderr
    assert rig.told.count("RELOADING=1") == 2, "a file that is wrong never reaches the service"


def test_a_port_that_is_taken_is_told_with_75(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    other = Path(rig.folder / "other")
    other.mkdir()
    second = FakeRig(other)
    second.port = rig.port
    second.write()
    second.start()
    assert second.ended() == 75
    assert f"network.port: can't listen on 127.0.0.1 port {rig.port}: Address already in use" in second.log
    second.close()


@pytest.mark.parametrize(
    ("break_it", "status", "told"),
    [
        (lambda rig: rig.config.unlink(), 78, "vllm-serve.toml: can't be read: No such file or directory"),
        (lambda rig: rig.config.write_bytes(b"\xff"), 78, "vllm-serve.toml:1: byte 0 is not UTF-8"),
        (lambda rig: rig.config.write_text('recipe = "dmeo"'), 78, 'there is no recipe "dmeo"; did you mean demo?'),
        (lambda rig: (rig.folder / "model").rename(rig.folder / "m"), 78, "checkpoint.folder: there is no folder"),
        (lambda rig: (rig.folder / "model/config.json").unlink(), 78, "lacks config.json"),
        (lambda rig: (rig.folder / "engines/current").unlink(), 75, "build.engine: no usable vLLM under"),
    ],
)
def test_what_stands_against_a_start_is_told_at_once(rig: FakeRig, break_it: object, status: int, told: str) -> None:
    assert callable(break_it)
    break_it(rig)
    rig.start()
    assert rig.ended() == status
    assert told in rig.log
    assert any(told in line for line in rig.told), "and in the status line"


def test_systemd_hears_signs_of_life_while_the_engine_loads(rig: FakeRig) -> None:
    rig.write(LOAD_SECONDS=4)
    rig.start()
    rig.until_ready()
    before = rig.told[: rig.told.index("READY=1")]
    assert sum(line.startswith("EXTEND_TIMEOUT_USEC=") for line in before) >= 3


def test_the_engine_never_hears_of_the_notify_socket(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    environment = rig.engine("bin/vllm").environ()
    assert "NOTIFY_SOCKET" not in environment
    assert environment["VLLM_NO_USAGE_STATS"] == "1"


def test_the_log_file_gets_the_engines_lines_and_is_appended_to(rig: FakeRig, tmp_path: Path) -> None:
    file = tmp_path / "engine.log"
    file.write_text("before\n")
    rig.write(f'[log]\nfile = "{file}"')
    rig.start()
    rig.until_ready()
    file.write_text("")  # what logrotate's copytruncate does
    rig.stop()
    text = file.read_text()
    assert "[shutdown] API server: shutdown triggered" in text
    assert not text.startswith("\0")


def test_a_full_disk_costs_the_log_file_and_not_the_service(rig: FakeRig) -> None:
    rig.write('[log]\nfile = "/dev/full"')
    rig.start()
    rig.until_ready()
    told = "[log] file can't be written any more, the journal has everything: No space left on device"
    assert rig.log.count(told) == 1
    assert rig.stop() == 0


class Stranger(http.server.BaseHTTPRequestHandler):
    """A sound server that is not our engine."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


def test_only_the_engine_itself_can_answer_for_itself(rig: FakeRig) -> None:
    with reserved_port() as other:
        rig.write(PORT=other.getsockname()[1])
        rig.start()
        rig.until(lambda: "engine 1 started" in rig.log, "the engine")
        with http.server.ThreadingHTTPServer(("127.0.0.1", rig.port), Stranger) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            rig.until(lambda: "something else than this engine answers" in rig.log, "the stranger to be noticed")
            assert "READY=1" not in rig.told
            assert rig.stop() == 0
            server.shutdown()


def test_a_question_that_the_engine_refuses_is_not_asked_again_by_a_restart(rig: FakeRig) -> None:
    rig.write(ANSWERS="refuse")
    rig.start()
    assert rig.ended() == 69
    assert "HTTP 400" in rig.log


def test_a_second_supervisor_does_not_disturb_the_first(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    before = rig.status()
    command = [sys.executable, "-m", "appliance.cli.main", "serve", "--config", str(rig.config)]
    command += ["--runtime", str(rig.runtime)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "another vllm-serve runs with" in done.stderr
    assert rig.status() == before


def test_a_reload_of_a_service_that_is_gone_signals_nobody(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    rig.stop()
    status = json.loads((rig.runtime / "status.json").read_text())
    bystander = subprocess.Popen(["sleep", "60"])
    status["supervisor"]["pid"] = bystander.pid
    (rig.runtime / "status.json").write_text(json.dumps(status))
    assert reload(rig).returncode == 1
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_stop_while_the_machine_is_looked_at_leaves_no_process(rig: FakeRig) -> None:
    rig.start()
    rig.until(lambda: "STATUS=checking the machine" in rig.told, "the check")
    assert rig.stop() == 0
    assert rig.family() == []


def test_a_reload_may_open_the_same_port_to_others(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    text = rig.config.read_text().replace("[api]", '[api]\nhost = "0.0.0.0"\nallow_unauthenticated = true')
    rig.config.write_text(text)
    rig.signal(signal.SIGHUP)
    rig.until_ready(2)
    assert rig.status()["reload_result"] == "applied"


def test_a_reload_that_ends_the_service_says_why(rig: FakeRig) -> None:
    rig.start()
    rig.until_ready()
    rig.write("[reload]\nrollback = false", ANSWERS="wrong")
    done = reload(rig)
    assert done.returncode == 1
    assert 'reload failed: self-test: france: ".siraP' in done.stderr
    assert rig.ended() == 69
