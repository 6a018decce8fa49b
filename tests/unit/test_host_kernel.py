"""What the kernel did to the unit: its count of kills, and its words; what can't be read is not known, never no."""

from pathlib import Path
from typing import Any

import pytest

from appliance.core.cause import RULES
from appliance.core.cause.rule import Source
from appliance.host.kernel import LONGEST, MOST, TELLING, kernel_messages, oom_kills
from tests.unit.witness import WORDINGS

GROUP = "0::/system.slice/vllm-serve.service"
EVENTS = "low 0\nhigh 3\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n"


def root_with(folder: Path, group: str, events: str | None) -> Path:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(f"{group}\n")
    if events is not None:
        place = folder / "sys/fs/cgroup/system.slice/vllm-serve.service"
        place.mkdir(parents=True)
        (place / "memory.events").write_text(events)
    return folder


def test_the_kills_of_the_own_group_are_counted(tmp_path: Path) -> None:
    assert oom_kills(root_with(tmp_path, GROUP, EVENTS)) == 2


@pytest.mark.parametrize(
    ("group", "events"),
    [
        (GROUP, None),
        (GROUP, ""),
        (GROUP, "low 0\noom_group_kill 7\n"),
        (GROUP, "oom_kill many\n"),
        (GROUP, "oom_kill \n"),
        ("4:memory:/old", EVENTS),
        ("0::/../../outside", EVENTS),
    ],
)
def test_a_count_that_cant_be_read_is_not_known(tmp_path: Path, group: str, events: str | None) -> None:
    assert oom_kills(root_with(tmp_path, group, events)) is None


def test_without_control_groups_nothing_is_known(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None


class Reader:
    """A journal, as systemd's reader shows it."""

    def __init__(self, *entries: tuple[float, Any]) -> None:
        self.entries = entries
        self.asked: list[object] = []
        self.left = iter(entries)
        self.read = 0

    def this_boot(self) -> None:
        self.asked.append("this boot")

    def add_match(self, **fields: str) -> None:
        self.asked.append(fields)

    def seek_head(self) -> None:
        self.left = iter(self.entries)

    def seek_realtime(self, time: float) -> None:
        self.left = iter([entry for entry in self.entries if entry[0] >= time])

    def get_next(self) -> dict[str, Any]:
        self.read += 1
        entry = next(self.left, None)
        return {} if entry is None else {"MESSAGE": entry[1]}


class Refusing(Reader):
    def this_boot(self) -> None:
        raise PermissionError(13, "Permission denied")


XID = "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus"
KILL = "Out of memory: Killed process 4242 (python) total-vm:9kB"


def test_the_telling_words_since_a_time_are_handed_on() -> None:
    journal = Reader((1.0, KILL), (5.0, "usb 1-1: new device"), (6.0, XID), (7.0, b"\xff"))
    assert kernel_messages(5.0, journal) == (XID,)
    assert journal.asked == ["this boot", {"_TRANSPORT": "kernel"}]


def test_a_kernel_that_said_nothing_since_is_known_to_have_said_nothing() -> None:
    assert kernel_messages(5.0, Reader((1.0, KILL))) == ()


def test_a_journal_without_any_word_of_the_kernel_is_one_that_may_not_be_read() -> None:
    assert kernel_messages(5.0, Reader()) is None
    assert kernel_messages(5.0, Refusing((1.0, KILL))) is None


def test_an_endless_journal_is_not_read_to_its_end() -> None:
    journal = Reader(*((9.0, XID) for _ in range(MOST + 9)))
    assert kernel_messages(5.0, journal) == (XID,) * MOST
    silent = Reader(*((9.0, "usb 1-1: new device") for _ in range(LONGEST + 99)))
    assert kernel_messages(5.0, silent) == ()
    assert silent.read <= LONGEST + 1


def test_every_word_of_the_kernel_that_a_rule_reads_is_handed_on() -> None:
    for wording in WORDINGS:
        if wording.get("kernel"):
            assert any(TELLING.search(line) for line in wording["lines"]), wording["source"]
    assert any(rule.source is Source.KERNEL for rule in RULES)
