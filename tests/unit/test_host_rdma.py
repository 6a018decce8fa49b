"""RDMA ports and NUMA nodes below a root."""

from pathlib import Path

import pytest

from appliance.core.facts import Gid, NumaNode
from appliance.host.notebook import Notebook
from appliance.host.numa import numa_nodes
from appliance.host.rdma import EMPTY, gid_of, kind_of, rate_of, rdma_ports, word_of

MAPPED = "0000:0000:0000:0000:0000:ffff:0a0a:010b"
LOCAL = "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"


def port(root: Path, device: str = "mlx5_0", number: int = 1) -> Path:
    folder = root / f"sys/class/infiniband/{device}/ports/{number}"
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (folder / name).mkdir(parents=True)
    (folder / "state").write_text("4: ACTIVE\n")
    (folder / "phys_state").write_text("5: LinkUp\n")
    (folder / "rate").write_text("200 Gb/sec (4X NDR)\n")
    return folder


def slot(folder: Path, index: int, gid: str, kind: str = "RoCE v2", interface: str = "eth0") -> None:
    (folder / f"gids/{index}").write_text(f"{gid}\n")
    if gid != EMPTY:
        (folder / f"gid_attrs/types/{index}").write_text(f"{kind}\n")
        (folder / f"gid_attrs/ndevs/{index}").write_text(f"{interface}\n")


def test_a_port_tells_its_state_and_its_rate(tmp_path: Path) -> None:
    port(tmp_path)
    found = rdma_ports(tmp_path, Notebook())[0]
    assert (found.device, found.port, found.state, found.physical_state) == ("mlx5_0", 1, "ACTIVE", "LinkUp")
    assert found.rate == 200.0


def test_every_slot_is_read_in_the_order_of_numbers_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    folder = port(tmp_path)
    slot(folder, 0, LOCAL, "IB/RoCE v1")
    for index in (1, 2, 9, 10):
        slot(folder, index, EMPTY)
    slot(folder, 100, MAPPED)
    slot(folder, 17, MAPPED.upper(), interface="enp1s0f0np0")
    notebook = Notebook()
    assert rdma_ports(tmp_path, notebook)[0].gids == (
        Gid(index=0, kind="IB/RoCE v1", gid=LOCAL, interface="eth0"),
        Gid(index=17, kind="RoCE v2", gid=MAPPED, interface="enp1s0f0np0"),
        Gid(index=100, kind="RoCE v2", gid=MAPPED, interface="eth0"),
    )
    assert notebook.unread == []


def test_infiniband_has_no_interface(tmp_path: Path) -> None:
    folder = port(tmp_path)
    slot(folder, 0, LOCAL, "IB/RoCE v1")
    (folder / "gid_attrs/ndevs/0").unlink()
    assert rdma_ports(tmp_path, Notebook())[0].gids == (Gid(index=0, kind="IB/RoCE v1", gid=LOCAL, interface=None),)


def test_devices_and_ports_stand_in_order(tmp_path: Path) -> None:
    for device, number in (("b", 1), ("a", 10), ("a", 2)):
        port(tmp_path, device, number)
    found = rdma_ports(tmp_path, Notebook())
    assert [(entry.device, entry.port) for entry in found] == [("a", 2), ("a", 10), ("b", 1)]


def test_the_device_may_be_a_link_a_file_or_a_folder(tmp_path: Path) -> None:
    for device in ("link", "file", "folder", "soft", "bare"):
        port(tmp_path, device)
    devices = tmp_path / "sys/class/infiniband"
    (devices / "link/device").symlink_to("../../../0000:41:00.0")
    (devices / "file/device").write_text("../../../devices/pci0002:01/0002:01:00.0\n")
    (devices / "folder/device").mkdir()
    (devices / "folder/device/uevent").write_text("DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:C1:00.1\n")
    (devices / "bare/device").mkdir()
    notebook = Notebook()
    assert {entry.device: entry.pci_address for entry in rdma_ports(tmp_path, notebook)} == {
        "link": "0000:41:00.0",
        "file": "0002:01:00.0",
        "folder": "0000:c1:00.1",
        "soft": None,
        "bare": None,
    }
    assert [entry.what for entry in notebook.unread] == ["rdma bare/1 pci_address"]


def test_a_device_may_itself_be_a_link_or_a_file_that_stands_for_one(tmp_path: Path) -> None:
    slot(port(tmp_path, "real"), 3, MAPPED)
    real = tmp_path / "sys/devices/pci0/infiniband"
    real.mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/real").rename(real / "real")
    (tmp_path / "sys/class/infiniband/link").symlink_to("../../devices/pci0/infiniband/real")
    (tmp_path / "sys/class/infiniband/file").write_text("../../devices/pci0/infiniband/real\n")
    found = rdma_ports(tmp_path, Notebook())
    assert [(entry.device, [gid.index for gid in entry.gids]) for entry in found] == [("file", [3]), ("link", [3])]


def test_no_folder_means_no_device(tmp_path: Path) -> None:
    assert rdma_ports(tmp_path, Notebook()) == ()
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    assert rdma_ports(tmp_path, Notebook()) == ()


def test_a_file_in_place_of_the_folder_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband").write_text("x")
    with pytest.raises(LookupError, match="/sys/class/infiniband can't be read: Not a directory"):
        rdma_ports(tmp_path, Notebook())


@pytest.mark.parametrize("garbage", [b"", b"\xff\xff", b"what?\n", b"4 ACTIVE", b"x" * 2**21])
def test_what_a_port_does_not_tell_is_unknown_and_noted(tmp_path: Path, garbage: bytes) -> None:
    folder = port(tmp_path)
    slot(folder, 5, MAPPED)
    slot(folder, 6, MAPPED)
    for name in ("state", "phys_state", "rate", "gids/5", "gid_attrs/ndevs/6"):
        (folder / name).write_bytes(garbage)
    (folder / "gid_attrs/types/6").write_bytes(garbage if garbage != b"what?\n" else b"\0")
    (folder / "gids/not-a-number").touch()
    notebook = Notebook()
    found = rdma_ports(tmp_path, notebook)[0]
    assert (found.state, found.physical_state, found.rate) == (None, None, None)
    assert [(gid.index, gid.gid) for gid in found.gids] == [(6, MAPPED)]
    noted = {entry.what.removeprefix("rdma mlx5_0/1 ") for entry in notebook.unread}
    assert {"state", "physical_state", "rate", "gid 5"} <= noted


def test_a_device_without_ports_is_noted_and_others_stay(tmp_path: Path) -> None:
    port(tmp_path, "whole")
    (tmp_path / "sys/class/infiniband/half").mkdir()
    notebook = Notebook()
    assert [entry.device for entry in rdma_ports(tmp_path, notebook)] == ["whole"]
    assert [(entry.what, entry.reason) for entry in notebook.unread] == [
        ("rdma half", "there is no /sys/class/infiniband/half/ports")
    ]


def test_words_of_the_kernel_are_read() -> None:
    assert [word_of(text) for text in ("1: DOWN", "5: ACTIVE_DEFER\n", "3: Disabled")] == [
        "DOWN",
        "ACTIVE_DEFER",
        "Disabled",
    ]
    assert [rate_of(text) for text in ("2.5 Gb/sec (1X SDR)", "400 Gb/sec (4X NDR)\n")] == [2.5, 400.0]
    assert (kind_of("RoCE v2\n"), gid_of(f"{MAPPED.upper()}\n")) == ("RoCE v2", MAPPED)


@pytest.mark.parametrize("text", ["inf Gb/sec", "nan", "1e9 Gb/sec", "-1 Gb/sec", "9999999 Gb/sec"])
def test_a_rate_is_a_plain_number(text: str) -> None:
    with pytest.raises(LookupError, match="not a rate"):
        rate_of(text)


def node(root: Path, index: int, cpus: str, total: str = "") -> Path:
    folder = root / f"sys/devices/system/node/node{index}"
    folder.mkdir(parents=True)
    (folder / "cpulist").write_text(f"{cpus}\n")
    if total:
        (folder / "meminfo").write_text(f"Node {index} MemTotal:       {total} kB\nNode {index} MemFree: 1 kB\n")
    return folder


def test_nodes_stand_in_the_order_of_numbers(tmp_path: Path) -> None:
    for index, cpus in ((10, ""), (0, "0-15,32-47"), (2, "16")):
        node(tmp_path, index, cpus, "100")
    (tmp_path / "sys/devices/system/node/possible").write_text("0-10\n")
    notebook = Notebook()
    assert numa_nodes(tmp_path, notebook) == (
        NumaNode(index=0, cpus="0-15,32-47", memory_total=102400),
        NumaNode(index=2, cpus="16", memory_total=102400),
        NumaNode(index=10, cpus="", memory_total=102400),
    )
    assert notebook.unread == []


def test_a_node_without_its_memory_is_noted(tmp_path: Path) -> None:
    node(tmp_path, 0, "0-3")
    notebook = Notebook()
    assert numa_nodes(tmp_path, notebook) == (NumaNode(index=0, cpus="0-3", memory_total=None),)
    assert [entry.what for entry in notebook.unread] == ["numa 0 memory_total"]


@pytest.mark.parametrize("cpus", ["0-", "all", "0-3 4", "\ud7ff", "-1"])
def test_processors_that_are_no_list_make_the_nodes_unknown(tmp_path: Path, cpus: str) -> None:
    node(tmp_path, 0, cpus, "1")
    with pytest.raises(LookupError, match="is no list of processors"):
        numa_nodes(tmp_path, Notebook())


def test_a_machine_that_names_no_node_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="there is no /sys/devices/system/node"):
        numa_nodes(tmp_path, Notebook())
    (tmp_path / "sys/devices/system/node").mkdir(parents=True)
    with pytest.raises(LookupError, match="holds no node"):
        numa_nodes(tmp_path, Notebook())
