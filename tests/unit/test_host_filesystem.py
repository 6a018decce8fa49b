"""File systems that folders lie on."""

import os
from pathlib import Path

import pytest

from appliance.core.facts import FileSystem
from appliance.host.filesystem import Mount, Room, file_systems, mount_of, mounts_of, mounts_of_mountinfo, rooms_of
from appliance.host.notebook import Notebook

GIB = 2**30

MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 27 254:1 /sub /data rw,relatime shared:2 master:3 - xfs /dev/vdb rw
31 30 0:30 / /data/my\040models rw - nfs4 server:/models rw,addr=192.0.2.1
32 30 0:31 / /data/hidden rw - tmpfs tmpfs rw
33 30 0:32 / /data/hidden rw - fuse.sshfs x rw
"""

MOUNTS = """proc /proc proc rw 0 0
/dev/vda / ext4 rw 0 0
/dev/vdb /data xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/", Mount(place="/", kind="ext4")),
        ("/database", Mount(place="/", kind="ext4")),
        ("/data", Mount(place="/data", kind="xfs")),
        ("/data/x/y", Mount(place="/data", kind="xfs")),
        ("/data/my models/m", Mount(place="/data/my models", kind="nfs4")),
        ("/data/hidden", Mount(place="/data/hidden", kind="fuse.sshfs")),
    ],
)
def test_a_folder_lies_on_the_nearest_mount_above_it(folder: str, expected: Mount) -> None:
    assert mount_of(folder, mounts_of_mountinfo(MOUNTINFO)) == expected


def test_the_shorter_table_tells_the_same() -> None:
    assert mount_of("/data/x", mounts_of(MOUNTS)) == Mount(place="/data", kind="xfs")


@pytest.mark.parametrize("text", ["", "garbage", "1 2 3", "a b c d e f", "\0" * 50])
def test_a_table_without_mounts_says_so(text: str) -> None:
    for meaning in (mounts_of, mounts_of_mountinfo):
        with pytest.raises(LookupError, match="the table of mounts names none"):
            meaning(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Filesystem      Size  Used Avail Use% Mounted on\n/dev/vda        252G   32G   70G  32% /\n",
            Room(mount="/", kind="", total=252 * GIB, free=70 * GIB),
        ),
        (
            "Filesystem     Type 1K-blocks     Used Available Use% Mounted on\n/dev/vda ext4 100 30 60 32% /a b\n",
            Room(mount="/a b", kind="ext4", total=102400, free=61440),
        ),
        (
            "Filesystem        1B-blocks        Used   Available Use% Mounted on\n/dev/v 270553174017 3 7 32% /x\n",
            Room(mount="/x", kind="", total=270553174017, free=7),
        ),
        (
            "Filesystem     1024-blocks     Used Available Capacity Mounted on\nx 1 0 1 0% /x\n",
            Room(mount="/x", kind="", total=1024, free=1024),
        ),
        (
            "Filesystem Size Used Avail Use% Mounted on\ntmpfs 4.0K 0 1.5M 0% /t\n",
            Room(mount="/t", kind="", total=4096, free=3 * 2**19),
        ),
        (
            "Filesystem Size Used Avail Use% Mounted on\nproc - - - - /proc\n",
            Room(mount="/proc", kind="", total=None, free=None),
        ),
    ],
)
def test_df_is_read_by_its_header(text: str, expected: Room) -> None:
    assert list(rooms_of(text)) == [expected]


@pytest.mark.parametrize("text", ["", "Filesystem\n", "Filesystem Size\nx\n1 2 3 4% /\n", "\0\n\0 1 2 3 4% x"])
def test_lines_that_are_none_of_df_are_left_out(text: str) -> None:
    assert list(rooms_of(text)) == []


def root(folder: Path, mounts: str = "", mountinfo: str = "", df: str = "") -> Path:
    for name in ("proc/self", "commands"):
        (folder / name).mkdir(parents=True)
    if mounts:
        (folder / "proc/mounts").write_text(mounts)
    if mountinfo:
        (folder / "proc/self/mountinfo").write_text(mountinfo)
    if df:
        (folder / "commands/df.txt").write_text(df)
    return folder


DF = """Filesystem Size Used Avail Use% Mounted on
/dev/vda 100G 50G 50G 50% /
/dev/vdb 2.0T 1T 1.0T 50% /data
"""


def test_each_file_system_is_told_once_in_the_order_of_the_folders(tmp_path: Path) -> None:
    notebook = Notebook()
    found = file_systems(root(tmp_path, mounts=MOUNTS, df=DF), ("/data/m", "/var/cache", "/var/lib/e"), notebook)
    assert found == (
        FileSystem(mount="/data", kind="xfs", total=2048 * GIB, free=1024 * GIB),
        FileSystem(mount="/", kind="ext4", total=100 * GIB, free=50 * GIB),
    )
    assert notebook.unread == []


def test_a_folder_behind_a_link_lies_where_the_link_leads(tmp_path: Path) -> None:
    (root(tmp_path, mountinfo=MOUNTINFO, df=DF) / "models").symlink_to("/data/models")
    assert [system.mount for system in file_systems(tmp_path, ("/models/m",), Notebook())] == ["/data"]


def test_room_that_df_does_not_tell_is_unknown_and_noted(tmp_path: Path) -> None:
    notebook = Notebook()
    found = file_systems(root(tmp_path, mounts=MOUNTS), ("/data",), notebook)
    assert found == (FileSystem(mount="/data", kind="xfs", total=None, free=None),)
    assert [(entry.what, entry.reason) for entry in notebook.unread] == [
        ("file system /data", "commands/df.txt does not tell its room")
    ]


def test_df_alone_tells_the_mounts_but_not_their_kind(tmp_path: Path) -> None:
    found = file_systems(root(tmp_path, df=DF), ("/data/m",), Notebook())
    assert found == (FileSystem(mount="/data", kind="", total=2048 * GIB, free=1024 * GIB),)


def test_nothing_of_this_machine_stands_in_for_what_a_root_does_not_tell(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"there is none of /proc/self/mountinfo, .*, commands/df\.txt"):
        file_systems(tmp_path, ("/",), Notebook())


def test_a_folder_above_which_nothing_is_mounted_is_noted(tmp_path: Path) -> None:
    notebook = Notebook()
    assert file_systems(root(tmp_path, mounts="x /data xfs rw 0 0\n"), ("/srv",), notebook) == ()
    assert [entry.reason for entry in notebook.unread] == ["nothing is mounted above /srv"]


def test_of_this_machine_the_kernel_tells_the_room(tmp_path: Path) -> None:
    notebook = Notebook()
    found = file_systems(Path("/"), (str(tmp_path / "not/yet/there"), "/proc/self"), notebook)
    room = os.statvfs(tmp_path)
    assert found[0].total == room.f_blocks * room.f_frsize
    assert f"{tmp_path}/".startswith(found[0].mount)
    assert (found[1].mount, found[1].kind) == ("/proc", "proc")
    assert notebook.unread == []
