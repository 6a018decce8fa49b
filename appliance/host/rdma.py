"""The RDMA ports and their addresses, as the kernel tells them."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from appliance.core.facts import Gid, RdmaPort
from appliance.host.notebook import Notebook
from appliance.host.pci import last_pci_address
from appliance.host.source import AbsentError, link_of, names_of, numbers_of, text_of

FOLDER = "/sys/class/infiniband"

EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def rdma_ports(root: Path, notebook: Notebook) -> tuple[RdmaPort, ...]:
    """Return every port, by device and number; empty where there is no RDMA device.

    Raises LookupError with the reason where the kernel's folder is there and can't be read.
    """
    try:
        devices = names_of(root, FOLDER)
    except AbsentError:
        return ()
    return tuple(port for device in devices for port in _ports(root, device, notebook))


def _ports(root: Path, device: str, notebook: Notebook) -> tuple[RdmaPort, ...]:
    numbers = notebook.ask(f"rdma {device}", lambda: numbers_of(root, f"{FOLDER}/{device}/ports"))
    return tuple(_port(root, device, number, notebook) for number in numbers or ())


def _port(root: Path, device: str, number: int, notebook: Notebook) -> RdmaPort:
    folder, what = f"{FOLDER}/{device}/ports/{number}", f"rdma {device}/{number}"
    return RdmaPort(
        device=device,
        port=number,
        state=notebook.ask(f"{what} state", lambda: word_of(text_of(root, f"{folder}/state"))),
        physical_state=notebook.ask(f"{what} physical_state", lambda: word_of(text_of(root, f"{folder}/phys_state"))),
        rate=notebook.ask(f"{what} rate", lambda: rate_of(text_of(root, f"{folder}/rate"))),
        pci_address=notebook.ask(f"{what} pci_address", lambda: _pci_address(root, device)),
        gids=_gids(root, folder, what, notebook),
    )


def word_of(text: str) -> str:
    """Return the name of a state. Raises LookupError where the text is none.

    >>> word_of("4: ACTIVE"), word_of("5: LinkUp")
    ('ACTIVE', 'LinkUp')
    """
    found = re.fullmatch(r"[0-9]{1,3}: ([A-Za-z_]{1,40})", text.strip())
    if not found:
        raise LookupError(f"not a state: {text.strip()[:40]}")
    return found[1]


def rate_of(text: str) -> float:
    """Return a rate in Gb/s. Raises LookupError where the text is none.

    >>> rate_of("200 Gb/sec (4X NDR)"), rate_of("2.5 Gb/sec (1X SDR)")
    (200.0, 2.5)
    """
    found = re.match(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec", text.strip())
    if not found:
        raise LookupError(f"not a rate: {text.strip()[:40]}")
    return float(found[1])


def _pci_address(root: Path, device: str) -> str | None:
    """Return the device's address; None for one that is software only and has no bus."""
    link = f"{FOLDER}/{device}/device"
    try:
        return last_pci_address(link_of(root, link))
    except AbsentError:
        return None
    except LookupError:
        # A copy that followed the links holds the device's folder itself, which names its slot.
        found = re.search(r"^PCI_SLOT_NAME=(.+)$", text_of(root, f"{link}/uevent"), re.MULTILINE)
        return last_pci_address(found[1]) if found else None


def _gids(root: Path, folder: str, what: str, notebook: Notebook) -> tuple[Gid, ...]:
    """Return every slot that holds an address. The kernel refuses to read the kind of an empty one."""
    found = []
    for slot in notebook.ask(f"{what} gids", lambda: numbers_of(root, f"{folder}/gids")) or ():
        gid = notebook.ask(f"{what} gid {slot}", partial(_entry, root, f"{folder}/gids/{slot}", gid_of))
        if gid is None or gid == EMPTY:
            continue
        kind = notebook.ask(
            f"{what} gid {slot} kind", partial(_entry, root, f"{folder}/gid_attrs/types/{slot}", kind_of)
        )
        interface = _interface(root, f"{folder}/gid_attrs/ndevs/{slot}")
        found.append(Gid(index=slot, kind=kind or "", gid=gid, interface=interface))
    return tuple(found)


def _entry(root: Path, file: str, meaning: Callable[[str], str]) -> str:
    return meaning(text_of(root, file))


def gid_of(text: str) -> str:
    """Return an address of the table in small letters. Raises LookupError where the text is none."""
    gid = text.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}", gid):
        raise LookupError(f"not a GID: {gid[:60]}")
    return gid


def kind_of(text: str) -> str:
    """Return the kind of an entry, `RoCE v2`. Raises LookupError where the text is none."""
    kind = text.strip()
    if not re.fullmatch(r"[ -~]{1,40}", kind):
        raise LookupError(f"not a kind of GID: {kind[:40]}")
    return kind


def _interface(root: Path, file: str) -> str | None:
    """Return the interface that an entry belongs to; InfiniBand has none, and the kernel refuses to read it."""
    try:
        name = text_of(root, file).strip()
    except LookupError:
        return None
    return name if re.fullmatch(r"[!-.0-~]{1,15}", name) else None
