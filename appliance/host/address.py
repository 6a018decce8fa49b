"""The addresses of the interfaces, as `ip -j addr` or the C library lists them."""

import ipaddress
import json
import re
import socket
from pathlib import Path
from typing import Any

import psutil

from appliance.core.facts import Address
from appliance.host.source import is_this_machine, plain, text_of

KEPT = "commands/ip-j-addr.json"

FAMILIES = {socket.AF_INET, socket.AF_INET6}


def addresses(root: Path) -> tuple[Address, ...]:
    """Return every address in the kernel's order. Raises LookupError with the reason."""
    return _listed() if is_this_machine(root) else addresses_of(text_of(root, KEPT))


def _listed() -> tuple[Address, ...]:
    try:
        interfaces = psutil.net_if_addrs()
        # The library groups by name; the kernel counts interfaces by index.
        return tuple(
            _address(_interface(label), entry.address, bits_of(entry.netmask), None)
            for label in sorted(interfaces, key=_index)
            for entry in interfaces[label]
            if entry.family in FAMILIES and entry.address
        )
    except OSError as error:
        raise LookupError(f"the interfaces can't be listed: {error.strerror}") from None
    except ValueError as error:
        raise LookupError(f"the interfaces can't be listed: {error}") from None


def _interface(label: str) -> str:
    """Return the interface of an address's label.

    >>> _interface("eth0:1")
    'eth0'
    """
    return label.partition(":")[0]


def _index(label: str) -> int:
    try:
        return socket.if_nametoindex(_interface(label))
    except OSError:
        # It went while we looked.
        return 2**31


def bits_of(netmask: str | None) -> int:
    """Return the length of the prefix that a mask stands for. Raises ValueError where there is none.

    >>> bits_of("255.255.240.0"), bits_of("ffff:ffff:ffff:ffff::")
    (20, 64)
    """
    return int(ipaddress.ip_address(netmask or "")).bit_count()


def addresses_of(text: str) -> tuple[Address, ...]:
    """Return what `ip -j addr` lists. Raises LookupError where it is no such list."""
    try:
        # `ip` prints an empty table for each interface that a filter left out.
        links = [link for link in _tables(json.loads(text)) if "ifname" in link]
        return tuple(
            _address(_name(link["ifname"]), entry["local"], entry.get("prefixlen"), entry.get("scope"))
            for link in links
            for entry in _tables(link.get("addr_info", []))
            if "local" in entry
        )
    except (ValueError, RecursionError) as error:
        raise LookupError(f"{KEPT} is not what `ip -j addr` prints: {error}") from None


def _tables(found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"not a list of tables: {plain(str(found))[:40]}")
    return found


def _name(found: Any) -> str:
    if not isinstance(found, str) or not re.fullmatch(r"[!-.0-~]{1,15}", found):
        raise ValueError(f"not an interface: {plain(str(found))[:40]}")
    return found


def _address(interface: str, text: Any, prefix: Any, scope: Any) -> Address:
    """Return an address. Raises ValueError where its parts are none."""
    if not isinstance(text, str):
        raise ValueError(f"not an address: {plain(str(text))[:40]}")
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(prefix, bool) or not isinstance(prefix, int) or not 0 <= prefix <= address.max_prefixlen:
        raise ValueError(f"not the length of a prefix: {plain(str(prefix))[:40]}")
    told = scope if isinstance(scope, str) and re.fullmatch(r"[a-z0-9]{1,20}", scope) else scope_of(address)
    return Address(interface=interface, address=str(address), prefix=prefix, scope=told)


def scope_of(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return the scope that the kernel gives an address unless told otherwise."""
    if address.is_loopback:
        return "host"
    return "link" if address.is_link_local else "global"
