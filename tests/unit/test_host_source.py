"""Files below a root: links stay inside, and what can't be read says why."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.host.command import printed
from appliance.host.inventory import inventory
from appliance.host.memory import memory_bytes
from appliance.host.notebook import Notebook
from appliance.host.rdma import rdma_ports
from appliance.host.source import (
    LARGEST,
    AbsentError,
    files_of,
    first_text,
    is_there,
    is_this_machine,
    link_of,
    named,
    names_of,
    numbers_of,
    place,
    table_of,
    text_of,
)

HERE = Path("/")


@contextlib.contextmanager
def ordinary_user() -> Iterator[Path]:
    """Be a user whom permissions bind, in a folder that all can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        before = os.geteuid()
        if before == 0:
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(before)


def test_a_link_leads_where_it_would_lead_on_that_machine(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_text("inside")
    (tmp_path / "absolute").symlink_to("/data")
    (tmp_path / "relative").symlink_to("absolute/x")
    assert text_of(tmp_path, "/absolute/x") == "inside"
    assert text_of(tmp_path, "/relative") == "inside"
    assert place(tmp_path, "/absolute/../data//./x") == tmp_path / "data/x"


def test_no_link_leads_out_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    root.mkdir()
    (root / "up").symlink_to("../secret")
    (root / "far").symlink_to(tmp_path / "secret")
    (root / "proc").symlink_to("/proc")
    for path in ("/up", "/far", "/../secret", "/proc/meminfo", "/proc/self/mounts"):
        with pytest.raises(LookupError):
            text_of(root, path)
    assert is_there(root, "/up") is False
    assert inventory(root).files == ()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(LookupError, match="/a leads through more than 40 links"):
        text_of(tmp_path, "/a")


def test_a_file_that_holds_the_target_stands_for_a_link_of_sysfs(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/pci0/net/eth0").mkdir(parents=True)
    (tmp_path / "sys/devices/pci0/net/eth0/mtu").write_text("9000\n")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0").write_text("../../devices/pci0/net/eth0\n")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/x").write_text("../sys/devices/pci0/net")
    assert text_of(tmp_path, "/sys/class/net/eth0/mtu") == "9000\n"
    assert link_of(tmp_path, "/sys/class/net/eth0") == "../../devices/pci0/net/eth0"
    with pytest.raises(LookupError, match="Not a directory"):
        text_of(tmp_path, "/etc/x/eth0/mtu")


def test_of_a_link_its_own_word_is_told(tmp_path: Path) -> None:
    (tmp_path / "real").symlink_to("../0000:01:00.0")
    (tmp_path / "folder").mkdir()
    assert link_of(tmp_path, "/real") == "../0000:01:00.0"
    with pytest.raises(AbsentError, match="there is no /nothing"):
        link_of(tmp_path, "/nothing")
    with pytest.raises(LookupError, match="/folder can't be read: Invalid argument"):
        link_of(tmp_path, "/folder")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "/f is empty"),
        (b" \n", "/f is empty"),
        (b"\xff\xfe", "/f is not text: byte 0 is not UTF-8"),
        (b"x" * (LARGEST + 1), "/f is larger than 1048576 bytes"),
    ],
)
def test_what_is_no_text_says_why(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(LookupError) as caught:
        text_of(tmp_path, "/f")
    assert str(caught.value) == told


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfMemTotal")
    assert text_of(tmp_path, "/f") == "MemTotal"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in ("/pipe", "/folder"):
        with pytest.raises(LookupError, match=f"{path} is not a file"):
            text_of(tmp_path, path)
    assert files_of(tmp_path, "/") == {}


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 5000, "/\ud800"])
def test_what_can_be_no_path_is_told(tmp_path: Path, path: str) -> None:
    for root in (tmp_path, HERE):
        with pytest.raises(LookupError, match="can be no path"):
            is_there(root, path)


def test_permissions_that_are_missing_are_told() -> None:
    with ordinary_user() as root:
        for folder in ("proc", "sys/class/infiniband", "locked"):
            (root / folder).mkdir(parents=True)
        (root / "proc/meminfo").write_text("MemTotal: 1 kB\n")
        (root / "locked/x").touch()
        for place_ in ("proc/meminfo", "sys/class/infiniband", "locked"):
            (root / place_).chmod(0)
        with pytest.raises(LookupError, match="/proc/meminfo can't be read: Permission denied"):
            memory_bytes(root, "MemTotal")
        with pytest.raises(LookupError, match="/sys/class/infiniband can't be read: Permission denied"):
            rdma_ports(root, Notebook())
        with pytest.raises(LookupError, match="/locked/x can't be read: Permission denied"):
            is_there(root, "/locked/x")
        assert inventory(root).complete is False
        for place_ in ("sys/class/infiniband", "locked"):
            (root / place_).chmod(0o700)


def test_the_first_of_several_files_counts(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("2")
    assert first_text(tmp_path, ("a", "b", "c")) == "2"
    with pytest.raises(AbsentError, match="there is none of a, c"):
        first_text(tmp_path, ("a", "c"))


@pytest.mark.parametrize(("text", "told"), [("{", "is not JSON"), ("[1]", r"holds no table but \[1\]")])
def test_json_that_is_no_table_says_why(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(LookupError, match=told):
        table_of(tmp_path, "/f")


def test_numbers_come_in_the_order_of_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "100", "x", "1x", "9" * 30):
        (tmp_path / name).touch()
    assert numbers_of(tmp_path, "/") == (9, 10, 100)
    assert names_of(tmp_path, "/")[:2] == ("10", "100")


def test_places_are_named_as_that_machine_names_them(tmp_path: Path) -> None:
    assert named(tmp_path, tmp_path / "models/x") == "/models/x"
    assert named(HERE, Path("/models/x")) == "/models/x"
    assert [is_this_machine(root) for root in (HERE, Path("/.."), Path("/usr/.."), tmp_path)] == [True] * 3 + [False]


def test_a_walk_lists_files_and_leaves_out_what_is_no_disk(tmp_path: Path) -> None:
    for name in ("etc/a", "models/m/config.json", "proc/meminfo", "sys/x", "dev/null", "run/y", "commands/z", "top"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "etc/mtab").symlink_to("/proc/meminfo")
    (tmp_path / "etc/gone").symlink_to("/nowhere")
    (tmp_path / "lib").symlink_to("models")
    (tmp_path / "kernel").symlink_to("/sys")
    found = inventory(tmp_path)
    files = ("/etc/a", "/etc/mtab", "/lib/m/config.json", "/models/m/config.json", "/top")
    assert (found.files, found.complete) == (files, True)


def test_a_walk_that_is_not_whole_says_so(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}").touch()
    assert (len(inventory(tmp_path, most=10).files), inventory(tmp_path, most=10).complete) == (10, True)
    assert (len(inventory(tmp_path, most=9).files), inventory(tmp_path, most=9).complete) == (9, False)
    (tmp_path / "circle").symlink_to("/")
    assert (len(inventory(tmp_path).files), inventory(tmp_path).complete) == (10, False)


def test_a_name_that_is_no_text_is_spelled_out(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    assert inventory(tmp_path).files == ("/caf\\udce9",)


def test_this_machine_is_not_walked() -> None:
    assert (inventory(HERE).files, inventory(HERE).complete) == ((), False)


def test_programs_answer_or_say_why_not() -> None:
    assert printed("sh", "-c", "echo $LC_ALL; echo oh >&2", seconds=10) == "C\noh\n"
    for command, told in (
        (("no-such-program",), "no-such-program is not installed"),
        (("/etc/passwd",), "passwd can't be run: Permission denied"),
        (("sh", "-c", "echo no  GPU; exit 9"), "sh exited with 9: no GPU"),
        (("sleep", "30"), "sleep did not answer within 0.1 s"),
    ):
        with pytest.raises(LookupError, match=told):
            printed(*command, seconds=0.1 if command[0] == "sleep" else 10)
