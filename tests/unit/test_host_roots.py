"""Whole machines as roots: four GX10 and two machines with H200, and what damage does to a snapshot."""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from appliance.core.codec import json_of, record_of
from appliance.core.facts import Address, Facts, FileSystem, Gid, GpuFacts, NumaNode, RdmaPort
from appliance.core.inquiry import Inquiry, plain_inquiry
from appliance.host.gather import gather

ROOTS = Path(__file__).parents[1] / "roots"
GIB = 2**30
MODEL = "/models/glm-5.3-flash-nvfp4"

INQUIRY = Inquiry(
    engines="/var/lib/vllm-serve/engines",
    engine=None,
    model=MODEL,
    host="127.0.0.1",
    port=8000,
    held=False,
    files=(f"{MODEL}/config.json", f"{MODEL}/qsa_kv_scales.json"),
    cache="/var/cache/vllm-serve/engine",
)


def port(device: str, address: str, index: int, gid: str, interface: str) -> RdmaPort:
    entry = Gid(index=index, kind="RoCE v2", gid=f"0000:0000:0000:0000:0000:ffff:{gid}", interface=interface)
    return RdmaPort(
        device=device,
        port=1,
        state="ACTIVE",
        physical_state="LinkUp",
        rate=200.0,
        pci_address=address,
        gids=(entry,),
    )


@pytest.mark.parametrize(
    ("root", "ports"),
    [
        ("gx10-none", ()),
        ("gx10-one", (("rocep1s0f0", "0000:01:00.0", 3, "0a0a:010b", "enp1s0f0np0"),)),
        (
            "gx10-two",
            (
                ("roceP2p1s0f0", "0002:01:00.0", 5, "0a0a:020b", "enP2p1s0f0np0"),
                ("rocep1s0f0", "0000:01:00.0", 5, "0a0a:010b", "enp1s0f0np0"),
            ),
        ),
        (
            "gx10-mismatch",
            (
                ("roceP2p1s0f0", "0002:01:00.0", 6, "0a0a:020b", "enP2p1s0f0np0"),
                ("rocep1s0f0", "0000:01:00.0", 5, "0a0a:010b", "enp1s0f0np0"),
            ),
        ),
    ],
)
def test_a_gx10_is_seen_with_its_ports(root: str, ports: tuple[tuple[str, str, int, str, str], ...]) -> None:
    facts = gather(ROOTS / root, INQUIRY)
    assert facts.rdma == tuple(port(*entry) for entry in ports)
    assert facts.gpus == (GpuFacts(index=0, name="NVIDIA GB10", compute_capability="12.1"),)
    assert facts.memory_total == 127506432 * 1024
    assert facts.memory_available == 120000000 * 1024
    assert facts.addresses == (
        Address(interface="lo", address="127.0.0.1", prefix=8, scope="host"),
        Address(interface="enP7s7", address="192.168.7.11", prefix=24, scope="global"),
        Address(interface="enp1s0f0np0", address="10.10.1.11", prefix=24, scope="global"),
        Address(interface="enP2p1s0f0np0", address="10.10.2.11", prefix=24, scope="global"),
    )
    assert record_of(Facts, json_of(facts)) == facts


def test_of_a_gx10_every_file_is_known() -> None:
    facts = gather(ROOTS / "gx10-two", INQUIRY)
    assert facts.searched == ("/",)
    assert facts.has_file(f"{MODEL}/config.json") is True
    assert facts.has_file(f"{MODEL}/qsa_kv_scales.json") is False
    assert facts.has_file("/etc/resolv.conf") is True
    assert facts.has_file("/usr/local/share/template.jinja") is False
    assert [file.path for file in facts.files if not file.exists] == [f"{MODEL}/qsa_kv_scales.json"]
    assert not any(file.path.startswith(("/proc/", "/sys/", "/commands/")) for file in facts.files)


def test_of_a_gx10_the_drafter_is_found_beside_the_model() -> None:
    facts = gather(ROOTS / "gx10-two", INQUIRY)
    assert facts.checkpoint is not None
    assert (facts.checkpoint.folder, facts.checkpoint.config) == (MODEL, "{}")
    assert [(entry.folder, entry.config) for entry in facts.checkpoints] == [("/models/glm-5.3-flash-dflash2", "{}")]
    assert facts.about("/models/glm-5.3-flash-dflash2") == facts.checkpoints[0]
    without = gather(ROOTS / "gx10-two", plain_inquiry())
    assert without.checkpoint is None
    assert [entry.folder for entry in without.checkpoints] == ["/models/glm-5.3-flash-dflash2", MODEL]


def test_of_a_gx10_what_its_root_does_not_tell_is_unknown_with_the_reason() -> None:
    facts = gather(ROOTS / "gx10-none", INQUIRY)
    assert (facts.engine, facts.port, facts.driver_cuda, facts.nvcc_cuda) == (None, None, None, None)
    assert (facts.numa, facts.file_systems) == (None, None)
    reasons = {entry.what: entry.reason for entry in facts.unread}
    assert reasons == {
        "driver_cuda": "there is none of commands/nvidia-smi.txt, commands/nvidia-smi-q.txt, "
        "commands/nvidia-smi-version.txt",
        "gpu 0": "the driver did not tell memory_total, pci_address",
        "engine": "no engine is installed",
        "port": "only the machine itself can tell",
        "nvcc_cuda": "there is none of commands/nvcc-version.txt, commands/nvcc.txt, commands/nvcc--version.txt",
        "numa": "there is no /sys/devices/system/node",
        "file_systems": "there is none of /proc/self/mountinfo, /proc/self/mounts, /proc/mounts, commands/df.txt",
    }


def h200(index: int, address: str, uuid: str) -> GpuFacts:
    return GpuFacts(
        index=index,
        name="NVIDIA H200",
        uuid=uuid,
        memory_total=143771 * 2**20,
        memory_free=143156 * 2**20,
        compute_capability="9.0",
        pci_address=address,
    )


@pytest.mark.parametrize(
    ("root", "gpus", "memory", "node", "free"),
    [
        (
            "h200",
            (h200(0, "0000:00:06.0", "GPU-00000000-1111-2222-3333-444444444444"),),
            131981020,
            NumaNode(index=0, cpus="0-15", memory_total=5336560 * 1024),
            64 * GIB,
        ),
        (
            "h200x2",
            (
                h200(0, "0000:00:06.0", "GPU-00000000-0000-4000-8000-000000000001"),
                h200(1, "0000:00:07.0", "GPU-00000000-0000-4000-8000-000000000002"),
            ),
            263998500,
            NumaNode(index=0, cpus="0-31", memory_total=4812272 * 1024),
            128 * GIB,
        ),
    ],
)
def test_an_h200_is_seen_as_it_was_read(
    root: str, gpus: tuple[GpuFacts, ...], memory: int, node: NumaNode, free: int
) -> None:
    facts = gather(ROOTS / root, plain_inquiry())
    assert facts.gpus == gpus
    assert facts.driver_cuda == "13.0"
    assert facts.memory_total == memory * 1024
    assert facts.numa == (node,)
    assert facts.rdma == ()
    assert facts.file_systems == (FileSystem(mount="/", kind="ext4", total=252 * GIB, free=free),)
    assert facts.addresses is None
    assert facts.why_unread("addresses") == "there is no commands/ip-j-addr.json"


@pytest.mark.parametrize("root", ["h200", "h200x2"])
def test_the_log_of_an_h200_tells_the_same_as_its_list(root: str, tmp_path: Path) -> None:
    copy = shutil.copytree(ROOTS / root, tmp_path / "root")
    (copy / "commands/nvidia-smi-query-gpu.csv").unlink()
    (copy / "commands/nvidia-smi.txt").unlink()
    listed, logged = gather(ROOTS / root, plain_inquiry()), gather(copy, plain_inquiry())
    assert logged.driver_cuda == listed.driver_cuda
    assert listed.gpus is not None
    assert logged.gpus is not None
    for one, other in zip(listed.gpus, logged.gpus, strict=True):
        assert (one.name, one.uuid, one.memory_total) == (other.name, other.uuid, other.memory_total)
        assert (one.memory_free, one.pci_address) == (other.memory_free, other.pci_address)
        assert other.compute_capability is None


def test_an_empty_root_is_unknown_through_and_through(tmp_path: Path) -> None:
    facts = gather(tmp_path, INQUIRY)
    known = (facts.engine, facts.checkpoint, facts.gpus, facts.memory_total, facts.memory_available, facts.numa)
    assert known == (None,) * 6
    assert (facts.addresses, facts.file_systems, facts.rdma, facts.checkpoints) == (None, None, (), ())
    assert facts.searched == ("/",)
    assert all(entry.reason for entry in facts.unread)
    assert {"gpus", "memory_total", "memory_available", "addresses", "numa", "file_systems", "checkpoint"} <= {
        entry.what for entry in facts.unread
    }


DAMAGE = {
    "empty": b"",
    "blank": b"\n\n",
    "binary": bytes(range(256)) * 8,
    "words": b"this is not what you look for\n",
    "numbers": b"9" * 5000,
    "brackets": b"[" * 50_000,
    "huge": b"0: ACTIVE, " * 200_000,
}


@pytest.mark.parametrize("damage", [*DAMAGE, "folder", "circle", "pipe"])
@pytest.mark.parametrize("root", ["gx10-two", "h200x2"])
def test_damage_makes_a_reading_unknown_and_nothing_else(root: str, damage: str, tmp_path: Path) -> None:
    copy = shutil.copytree(ROOTS / root, tmp_path / "root")
    whole = gather(copy, INQUIRY)
    for file in sorted(path for path in copy.rglob("*") if path.is_file()):
        kept = file.read_bytes()
        spoil(file, damage)
        facts = gather(copy, INQUIRY)
        assert record_of(Facts, json_of(facts)) == facts, file
        changed = {name for name in NAMES if getattr(facts, name) != getattr(whole, name)}
        assert len(changed - {"unread", "files", "searched"}) <= 2, (file, changed)
        for name in ("memory_total", "addresses", "numa", "file_systems", "driver_cuda", "rdma"):
            assert getattr(facts, name) is not None or facts.why_unread(name), (file, name)
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
        file.write_bytes(kept)
    assert gather(copy, INQUIRY) == whole


NAMES = [field.name for field in dataclasses.fields(Facts)]


def spoil(file: Path, damage: str) -> None:
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage == "circle":
        file.symlink_to(file.name)
    elif damage == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(DAMAGE[damage])
