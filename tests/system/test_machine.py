"""The test machine keeps its own promises."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.bind import Bind
from tests.system.cgroup import machine_cgroup
from tests.system.command import CommandError
from tests.system.host import host_binds
from tests.system.machine import BootError, Machine

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the host for the machine to write to; its name needs escaping."""
    return tmp_path_factory.mktemp("shared:folder")


@pytest.fixture(scope="module")
def machine(debian: Path, cache: Path, shared_folder: Path) -> Iterator[Machine]:
    """Return a machine with a network of its own."""
    binds = [
        Bind(source=shared_folder, target=Path("/mnt/shared"), writable=True),
        Bind(source=REPOSITORY, target=Path("/mnt/repository")),
    ]
    with Machine.boot(debian, "private", binds=binds, cache=cache) as booted:
        yield booted


def test_systemd_runs_without_a_failed_unit(machine: Machine) -> None:
    assert machine.run(["systemctl", "is-system-running"]).stdout == "running\n"
    assert machine.run("ps -o comm= -p 1").stdout == "systemd\n"


def test_a_command_gets_its_input_and_none_of_the_hosts_variables(machine: Machine) -> None:
    result = machine.run("cat; env | cut -d= -f1 | sort", input="räksmörgås\n")
    assert result.stdout.split() == ["räksmörgås", "HOME", "LANG", "PATH", "PWD", "TERM"]


def test_a_failed_command_is_told_with_its_status_and_what_it_said(machine: Machine) -> None:
    with pytest.raises(CommandError) as caught:
        machine.run("seq 100; echo the reason >&2; exit 7")
    message = str(caught.value)
    assert "`seq 100; echo the reason >&2; exit 7` left with status 7" in message
    assert message.endswith("  | 100\n  | the reason")
    assert "  | 10\n" not in message


def test_a_failed_command_may_be_expected(machine: Machine) -> None:
    assert machine.run(["false"], check=False).returncode == 1


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(machine: Machine) -> None:
    with pytest.raises(CommandError, match=r"was ended after 0\.5 s(.|\n)*begun"):
        machine.run("echo begun; sleep 4711 & sleep 4711", timeout=0.5)
    assert machine.run(["pgrep", "-f", "sleep 4711"], check=False).stdout == ""


def test_a_started_command_streams_until_it_is_ended(machine: Machine) -> None:
    process = machine.start("echo one; echo two >&2; exec sleep 4712")
    assert process.stdout is not None
    with process.stdout:
        assert [process.stdout.readline(), process.stdout.readline()] == ["one\n", "two\n"]
        process.terminate()
        assert process.stdout.read() == ""
    assert machine.run(["pgrep", "-f", "sleep 4712"], check=False).stdout == ""


def test_files_are_written_with_their_mode_and_read(machine: Machine) -> None:
    machine.write("/etc/new folder/file", "text\n", mode=0o600)
    assert machine.read("/etc/new folder/file") == "text\n"
    assert machine.run(["stat", "-c", "%a", "/etc/new folder/file"]).stdout == "600\n"


def test_a_bind_is_writable_only_where_it_says_so(machine: Machine, shared_folder: Path) -> None:
    machine.write("/mnt/shared/file", "from inside\n")
    assert (shared_folder / "file").read_text() == "from inside\n"
    refused = machine.run(["touch", "/mnt/repository/file"], check=False)
    assert "Read-only file system" in refused.stderr


def test_a_private_network_has_a_loopback_alone(machine: Machine) -> None:
    links = machine.run("ip -brief link").stdout.splitlines()
    assert [link.split()[0] for link in links] == ["lo"]
    assert machine.run("ip route").stdout == ""
    port = "import socket; s = socket.create_server(('localhost', 8000)); print(s.getsockname())"
    assert "127.0.0.1" in machine.run(["python3", "-c", port]).stdout


def test_a_name_is_for_one_machine_at_a_time(machine: Machine, debian: Path, cache: Path) -> None:
    with pytest.raises(BootError, match=f"private runs already: process {os.getpid()} holds"):
        Machine.boot(debian, machine.name, cache=cache)
    assert machine.run(["true"]).returncode == 0


def test_a_second_machine_has_none_of_the_firsts_files_and_leaves_nothing(
    machine: Machine, debian: Path, cache: Path
) -> None:
    machine.write("/etc/left-behind", "text\n")
    with Machine.boot(debian, "second", cache=cache) as second:
        assert second.run(["test", "-e", "/etc/left-behind"], check=False).returncode == 1
        started = second.start(["sleep", "infinity"], output=subprocess.DEVNULL)
        group = machine_cgroup("second", cache)
        processes = group.processes()
        assert second.init in processes
    assert started.returncode is not None
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]
    assert not [folder for folder in group.folders if folder.exists()]
    assert not (debian / "etc/left-behind").exists()
    assert machine.run(["true"]).returncode == 0


def test_a_boot_that_fails_says_why_and_leaves_nothing(debian: Path, cache: Path) -> None:
    nowhere = Bind(source=Path("/nonexistent"), target=Path("/mnt"))
    with pytest.raises(BootError, match=r"nspawn left with status 1(.|\n)*/nonexistent"):
        Machine.boot(debian, "failing", binds=[nowhere], cache=cache)
    assert not [folder for folder in machine_cgroup("failing", cache).folders if folder.exists()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_machine_ends_with_the_process_that_booted_it(number: signal.Signals, debian: Path, cache: Path) -> None:
    program = f"""
        import pathlib, time
        from tests.system.machine import Machine
        machine = Machine.boot(
            pathlib.Path({str(debian)!r}), "orphan", cache=pathlib.Path({str(cache)!r})
        )
        print(machine.init, flush=True)
        time.sleep(60)
    """
    argv = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        init = Path("/proc") / owner.stdout.readline().strip()
        assert init.name.isdigit()
        owner.send_signal(number)
    end = time.monotonic() + 10
    while init.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not init.exists()


def test_a_dead_runs_machine_is_cleared_away_by_the_next(debian: Path, cache: Path) -> None:
    group = machine_cgroup("dead", cache)
    group.make()
    (cache / "machines/dead.pid").write_text("1\n")
    join = 'for group; do echo $$ >"$group/cgroup.procs"; done; exec sleep 4713'
    left = subprocess.Popen(["sh", "-c", join, "sh", *map(str, group.folders)])
    while left.pid not in group.processes():
        time.sleep(0.01)
    with Machine.boot(debian, "next", cache=cache):
        assert left.wait(5) == -signal.SIGKILL
        assert not [folder for folder in group.folders if folder.exists()]
        assert not (cache / "machines/dead.pid").exists()


def test_apt_and_pip_reach_on_the_hosts_network_what_the_host_reaches(debian: Path, cache: Path) -> None:
    with Machine.boot(debian, "host", binds=host_binds(cache), network="host", cache=cache) as host:
        update = host.run(["apt-get", "update"], timeout=180)
        assert "Err:" not in update.stdout
        assert "W:" not in update.stderr
        host.run("python3 -m venv /tmp/venv && /tmp/venv/bin/pip download -d /tmp six", timeout=300)
        assert host.run("ls /tmp/six-*.whl").stdout.count("\n") == 1
