"""What processes do, read from trees of files, and told from one look to the next."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from appliance.core.activity import API_SERVER, SHARE, STORAGE, TRACKER, Activity, Member, moved, name_of
from appliance.host.activity import activity_of, member_of

TICKS = os.sysconf("SC_CLK_TCK")
MOST = STORAGE * 2
"""Bytes in the two seconds between two looks that are no work yet."""

CORE = "VLLM::EngineCore\0\0\0\0"


def write(root: Path, pid: int, cmdline: str = CORE, **more: object) -> Path:
    """Write what /proc has of a process: 1.5 s of user time, 0.5 s of system time."""
    told = {"short": "VLLM::EngineCor", "state": "S", "user": 1.5, "system": 0.5, "started": pid * 100, **more}
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True, exist_ok=True)
    user, system = (int(float(str(told[name])) * TICKS) for name in ("user", "system"))
    head = f"{pid} ({told['short']}) {told['state']} 1 {pid} {pid} 0 -1 4194560 201 0 0 0"
    (folder / "stat").write_text(f"{head} {user} {system} 77 88 20 0 48 0 {told['started']} 99 0\n")
    (folder / "cmdline").write_text(cmdline)
    (folder / "io").write_text("rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 7\n")
    (folder / "wchan").write_text("futex_do_wait")
    return folder


def member(pid: int = 1, cpu: float = 0.0, **more: Any) -> Member:
    told: dict[str, Any] = {"started": 100, "name": "VLLM::Worker", "state": "S", **more}
    return Member(pid=pid, cpu=cpu, **told)


def seen(*members: Member) -> Activity:
    return Activity(members=members)


def test_a_process_is_read_with_all_that_the_kernel_says(tmp_path: Path) -> None:
    write(tmp_path, 7)
    assert activity_of(tmp_path, [7]).members == (
        Member(
            pid=7,
            started=700,
            name="VLLM::EngineCore",
            state="S",
            cpu=2.0,
            read=4096,
            written=512,
            wchan="futex_do_wait",
        ),
    )


def test_what_can_not_be_read_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path, 7)
    for name in ("io", "wchan", "cmdline"):
        (folder / name).unlink()
    found = activity_of(tmp_path, [7]).members[0]
    assert (found.read, found.written, found.wchan, found.name) == (None, None, "", "VLLM::EngineCor")
    (folder / "io").write_text("")
    assert activity_of(tmp_path, [7]).members[0].read is None


@pytest.mark.parametrize("short", ["a b", "(x)", "a) S 1 (b", "new\nline", ")", ""])
def test_a_process_may_call_itself_anything(tmp_path: Path, short: str) -> None:
    write(tmp_path, 7, "", short=short)
    found = activity_of(tmp_path, [7]).members[0]
    assert (found.name, found.state, found.cpu) == (short, "S", 2.0)


@pytest.mark.parametrize("stat", ["", "7", "7 (x) S", "7 (x) S 1 2 3", "garbage", "7 (x) S " + "x " * 50])
def test_a_process_that_is_gone_or_makes_no_sense_is_left_out(tmp_path: Path, stat: str) -> None:
    write(tmp_path, 7)
    (write(tmp_path, 8) / "stat").write_text(stat)
    assert [found.pid for found in activity_of(tmp_path, [7, 8, 9]).members] == [7]


def test_they_stand_in_the_order_of_their_start(tmp_path: Path) -> None:
    write(tmp_path, 7, started=5)
    write(tmp_path, 8, started=4)
    assert [found.pid for found in activity_of(tmp_path, [7, 8, 7]).members] == [8, 7]


def test_a_process_that_waits_for_nothing_has_no_place_where_it_waits(tmp_path: Path) -> None:
    (write(tmp_path, 7, state="R") / "wchan").write_text("0")
    assert activity_of(tmp_path, [7]).members[0].wchan == ""


def test_this_process_is_read_from_the_kernel_itself() -> None:
    found = member_of(Path("/"), os.getpid())
    assert found
    assert found.state == "R"
    assert found.cpu > 0
    assert not found.titled
    assert found.started > 0


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("VLLM::Worker_TP0",), "VLLM::Worker_TP0"),
        (("/e/bin/python", "/e/bin/vllm", "serve", "m"), API_SERVER),
        (("vllm", "serve", "m"), API_SERVER),
        (("/e/bin/python", "/e/bin/vllm", "bench"), "python"),
        (("/e/bin/python", "-c", "from multiprocessing.resource_tracker import main;main(5)"), TRACKER),
        (("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"), "python"),
        (("python", "/e/torch/_inductor/compile_worker/__main__.py", "--kind=fork"), "compile worker"),
        (("python", "/e/bin/caddy", "serve"), "python"),
        (("ray::VLLM::x",), "python"),
        (("python", "VLLM::EngineCore"), "python"),
        ((), "python"),
    ],
)
def test_a_process_is_called_what_people_call_it(words: tuple[str, ...], name: str) -> None:
    assert name_of(words, "python") == name


@pytest.mark.parametrize(
    ("name", "titled", "computes", "essential"),
    [
        ("VLLM::EngineCore", True, True, True),
        ("VLLM::EngineCore_DP1", True, True, True),
        ("VLLM::Worker_TP0", True, True, True),
        ("VLLM::APIServer_0", True, False, True),
        ("VLLM::DPCoordinator", True, False, True),
        (API_SERVER, False, False, True),
        (TRACKER, False, False, False),
        ("compile worker", False, False, False),
        ("python", False, False, False),
    ],
)
def test_each_process_has_its_part(name: str, titled: bool, computes: bool, essential: bool) -> None:
    found = member(name=name)
    assert (found.titled, found.computes, found.essential) == (titled, computes, essential)


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", True), *((state, False) for state in "RSDZXI")])
def test_a_signal_or_a_debugger_stops_a_process(state: str, stopped: bool) -> None:
    activity = seen(member(7, state=state), member(8, state="T", name="compile worker"))
    assert member(state=state).stopped is stopped
    assert activity.stopped == (("VLLM::Worker (pid 7)",) if stopped else ())


@pytest.mark.parametrize(
    ("before", "after", "did"),
    [
        (seen(), seen(), False),
        (seen(member(cpu=1.0)), seen(member(cpu=1.0)), False),
        (seen(member(cpu=0.0)), seen(member(cpu=SHARE * 2)), False),
        (seen(member(cpu=0.0)), seen(member(cpu=SHARE * 2 + 0.01)), True),
        (seen(member(cpu=9.0), member(2, 1.0)), seen(member(2, 1.5)), True),
        (seen(member(cpu=9.0), member(2, 1.0)), seen(member(2, 1.0)), False),
        (seen(), seen(member(cpu=5.0)), True),
        (seen(), seen(member(cpu=SHARE * 2)), False),
        (seen(), seen(member(cpu=SHARE * 2 + 0.01, read=MOST)), True),
        (seen(), seen(member(read=MOST // 2, written=1 + MOST // 2)), True),
        (seen(member(cpu=5.0)), seen(member(cpu=4.0)), False),
        (seen(member(cpu=5.0)), seen(member(cpu=4.0, started=200)), True),
        (seen(member(read=1)), seen(member(read=1)), False),
        (seen(member(read=1)), seen(member(read=1 + MOST)), False),
        (seen(member(read=1)), seen(member(read=2 + MOST)), True),
        (seen(member(written=1)), seen(member(written=2 + MOST)), True),
        (seen(member(read=1, written=1)), seen(member(read=1 + MOST // 2, written=2 + MOST // 2)), True),
        (seen(member(read=None)), seen(member(read=9 * MOST)), False),
        (seen(member(read=9 * MOST)), seen(member(read=None)), False),
        (seen(), seen(member(read=2 * MOST)), True),
        (seen(member(read=9 * MOST, written=0)), seen(member(read=0, written=MOST + 1)), True),
        (seen(member(read=9 * MOST)), seen(member(read=0)), False),
    ],
)
def test_what_moved_is_a_process_that_worked_for_itself(before: Activity, after: Activity, did: bool) -> None:
    assert moved(before, after, 2.0) is did


def test_sixty_four_workers_that_idle_do_not_add_up_to_work() -> None:
    """Each of them wakes up by itself, for 0.015 of a core."""
    before, after = (seen(*(member(pid, cpu) for pid in range(64))) for cpu in (1.0, 1.03))
    assert after.cpu - before.cpu > 2 * SHARE
    assert not moved(before, after, 2.0)


def test_the_death_of_a_busy_process_never_hides_what_another_does() -> None:
    for seed in range(300):
        draw = random.Random(seed)
        before = [member(pid, draw.uniform(0, 1000)) for pid in range(draw.randint(1, 6))]
        works = draw.choice(before)
        alive = [one for one in before if one is works or draw.random() < 0.5]
        after = [member(one.pid, one.cpu + (1.0 if one is works else 0.0)) for one in alive]
        assert moved(seen(*before), seen(*after), 2.0), f"seed {seed}"
        assert not moved(seen(*before), seen(*(one for one in before if draw.random() < 0.5)), 2.0), f"seed {seed}"


def test_what_computes_is_the_model_and_where_nothing_says_so_everything() -> None:
    api, core, tracker = member(1, name=API_SERVER), member(2, name="VLLM::EngineCore"), member(3, name=TRACKER)
    assert seen(api, core, tracker).computing == seen(core)
    assert seen(api, tracker).computing == seen(api, tracker)
