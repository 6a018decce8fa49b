"""The NUMA nodes, as the kernel tells them."""

import re
from pathlib import Path

from appliance.core.facts import NumaNode
from appliance.host.memory import line_bytes
from appliance.host.notebook import Notebook
from appliance.host.source import bytes_of, names_of, text_of

FOLDER = "/sys/devices/system/node"

CPUS = re.compile(r"(?:[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?\Z")


def numa_nodes(root: Path, notebook: Notebook) -> tuple[NumaNode, ...]:
    """Return the nodes in their order. Raises LookupError with the reason where the kernel names none."""
    names = (re.fullmatch(r"node([0-9]{1,9})", name) for name in names_of(root, FOLDER))
    indexes = sorted(int(name[1]) for name in names if name)
    if not indexes:
        raise LookupError(f"{FOLDER} holds no node")
    return tuple(_node(root, index, notebook) for index in indexes)


def _node(root: Path, index: int, notebook: Notebook) -> NumaNode:
    meminfo = f"{FOLDER}/node{index}/meminfo"
    total = notebook.ask(f"numa {index} memory_total", lambda: line_bytes(text_of(root, meminfo), "MemTotal", meminfo))
    return NumaNode(index=index, cpus=_cpus(root, f"{FOLDER}/node{index}/cpulist"), memory_total=total)


def _cpus(root: Path, file: str) -> str:
    """Return the kernel's list of processors; empty for a node that is memory only."""
    cpus = bytes_of(root, file).decode(errors="replace").strip()
    if not CPUS.match(cpus):
        raise LookupError(f"{file} is no list of processors: {cpus[:40]}")
    return cpus


def numa_node(root: Path, pci_address: str) -> int | None:
    """Return the node of a PCI device; None where the kernel says -1. Raises LookupError where it does not say."""
    file = f"/sys/bus/pci/devices/{pci_address}/numa_node"
    text = text_of(root, file).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", text):
        raise LookupError(f"{file} is no number: {text[:40]}")
    return int(text) if text != "-1" else None
