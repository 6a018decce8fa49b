"""Addresses on the PCI bus, as the kernel writes them."""

import re

ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")


def pci_address(text: str) -> str | None:
    """Return an address as sysfs names it; NVIDIA's tools write eight digits of domain, in capitals.

    >>> pci_address("0000000F:01:00.0"), pci_address("[N/A]")
    ('000f:01:00.0', None)
    """
    found = ADDRESS.fullmatch(text.strip())
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else None


def last_pci_address(path: str) -> str | None:
    """Return the address of the device that a path of sysfs leads to.

    >>> last_pci_address("../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/mlx5.rdma.0")
    '0000:01:00.0'
    """
    return next((address for part in reversed(path.split("/")) if (address := pci_address(part))), None)
