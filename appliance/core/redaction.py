"""Facts that can be shown to strangers: what names one machine or person is replaced, what a plan needs stays."""

import dataclasses
import ipaddress
import re
from collections.abc import Iterable
from typing import Any

from appliance.core.facts import Facts

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

POOLS: dict[int, tuple[str, ...]] = {
    4: ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "240.0.0.0/4"),
    6: ("2001:db8::/32", "fd00::/8"),
}
"""Where stand-ins come from: private networks and, of IPv6, first the one that RFC 3849 keeps for documents."""

ASSUMED = {4: 24, 6: 64}
"""Length of the prefix of an address that no interface of the machine holds, or that has none to speak of."""

WIDEST = {4: 8, 6: 32}
"""Shortest prefix that stands for a network."""

DOCUMENTED_MAC = 0x0200_5EFF_FE00_5300
"""The host's part made from 00-00-5E-00-53-00, the first of the MAC addresses that RFC 7042 keeps for documents."""

NAMED = re.compile(
    r"(?P<uuid>(?:GPU|MIG)-[0-9A-Fa-f-]{8,64})"
    r"|/home/(?P<user>[^/\s\"':,;]+)"
    r"|(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9]|\.[0-9])"
    r"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,8}"
)
"""What may have to be replaced in a text: a UUID, a home, an address."""


def redacted(facts: Facts) -> Facts:
    """Return facts without what names the machine or its people.

    - A GPU's UUID becomes `GPU-00000000-0000-4000-8000-00000000000N`, with N from 1 in the order of the GPUs.
    - An address becomes one of 10.0.0.0/8 or 2001:db8::/32 (where they are full, of another private network): the
      same one wherever it occurs, also in a GID that embeds it. Addresses of one network stay in one network with a
      prefix of the same length. Of an IPv4 address the last byte stays where it can, so that the machines of a
      cluster stay apart. Link-local addresses stay link-local.
    - A host's part that is made from a MAC address, as most GIDs have it, becomes that of 00-00-5E-00-53-01 and on.
    - NAME in /home/NAME becomes user1, user2 and so on, in every path and text.

    Loopback, 0.0.0.0 and :: stay, and so do the names of interfaces and devices, indexes, prefixes, scopes, PCI
    addresses, sizes and versions: a plan made from the result differs by nothing but the names above. Other names in
    paths stay too, so look at the folders before you publish.
    """
    names = _Names(_stand_ins(facts))
    for gpu in facts.gpus or ():
        names.replaced(gpu.uuid or "")
    found = _rewritten(facts, names)
    assert isinstance(found, Facts)
    return found


def _rewritten(value: Any, names: "_Names") -> Any:
    if isinstance(value, str):
        return names.replaced(value)
    if isinstance(value, tuple):
        return tuple(_rewritten(entry, names) for entry in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return dataclasses.replace(value, **{f.name: _rewritten(getattr(value, f.name), names) for f in fields})
    return value


class _Names:
    """The stand-in of each name: the same wherever the name occurs."""

    def __init__(self, addresses: dict[IPAddress, IPAddress]) -> None:
        self.addresses = addresses
        self.uuids: dict[str, str] = {}
        self.users: dict[str, str] = {}

    def replaced(self, text: str) -> str:
        """Return a text with every name in it replaced."""
        return NAMED.sub(self._stand_in, text)

    def _stand_in(self, found: re.Match[str]) -> str:
        if uuid := found["uuid"]:
            return self.uuids.setdefault(uuid, f"{uuid[:3]}-00000000-0000-4000-8000-{len(self.uuids) + 1:012}")
        if user := found["user"]:
            return f"/home/{self.users.setdefault(user, f'user{len(self.users) + 1}')}"
        return self._address(found[0])

    def _address(self, text: str) -> str:
        address = _parsed(text)
        stand_in = self.addresses.get(_bare(address)) if address else None
        if address is None or stand_in is None:
            return text
        if address.version != stand_in.version:
            stand_in = ipaddress.IPv6Address(0xFFFF << 32 | int(stand_in))
        # The kernel writes a GID out in full.
        return stand_in.exploded if len(text) == len("0000:0000:0000:0000:0000:ffff:0a0a:010b") else str(stand_in)


def _parsed(text: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _bare(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that an IPv6 one embeds, or the address itself."""
    embedded = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return embedded or address


def _stand_ins(facts: Facts) -> dict[IPAddress, IPAddress]:
    """Return the stand-in of every address of the machine, in the order in which they occur."""
    held = [(_parsed(entry.address), entry.prefix) for entry in facts.addresses or ()]
    others = [gid.gid for port in facts.rdma or () for gid in port.gids]
    others += [facts.port.host] if facts.port else []
    networks = _networks(ipaddress.ip_network((address, prefix), strict=False) for address, prefix in held if address)
    addresses = [*(address for address, _ in held), *map(_parsed, others)]
    found = [_bare(address) for address in addresses if address]
    common = {address for address in found if address.is_loopback or address.is_unspecified}
    homes = {address: _home(address, networks) for address in found if address not in common}
    places = _places(homes.values())
    hosts = _Hosts(common)
    # The narrowest first: a network has room for its own hosts, unless those of a wider one took it.
    ordered = sorted(homes.items(), key=lambda entry: -entry[1].prefixlen)
    return {address: hosts.stand_in(address, places[home]) for address, home in ordered}


def _networks(networks: Iterable[IPNetwork]) -> list[IPNetwork]:
    """Return the networks that are neither a single host nor half the world, the narrowest first."""
    rooms = {network for network in networks if WIDEST[network.version] <= network.prefixlen < network.max_prefixlen}
    return sorted(rooms, key=lambda network: (-network.prefixlen, network.version, int(network.network_address)))


def _home(address: IPAddress, networks: list[IPNetwork]) -> IPNetwork:
    """Return the narrowest network that an address lies in."""
    near = next((network for network in networks if address.version == network.version and address in network), None)
    return near or ipaddress.ip_network((address, ASSUMED[address.version]), strict=False)


def _places(homes: Iterable[IPNetwork]) -> dict[IPNetwork, IPNetwork]:
    """Return the stand-in of each network, the widest first: what lies in another stays in it."""
    places: dict[IPNetwork, IPNetwork] = {}
    for home in sorted(dict.fromkeys(homes), key=lambda network: network.prefixlen):
        above = [network for network in places if _lies_in(home, network)]
        taken = [place for network, place in places.items() if network not in above]
        pools = [places[above[-1]]] if above else [ipaddress.ip_network(pool) for pool in POOLS[home.version]]
        free = [found for pool in pools if (found := _free(pool, home.prefixlen, taken))]
        places[home] = home if home.is_link_local or not free else free[0]
    return places


def _lies_in(inner: IPNetwork, outer: IPNetwork) -> bool:
    return inner.version == outer.version and inner.network_address in outer and inner.prefixlen > outer.prefixlen


def _free(pool: IPNetwork, length: int, taken: list[IPNetwork]) -> IPNetwork | None:
    """Return the first network of a length in a pool that overlaps with none that is taken."""
    step = 1 << (pool.max_prefixlen - length)
    start = int(pool.network_address)
    while length >= pool.prefixlen and start <= int(pool.broadcast_address):
        network = type(pool)((start, length))
        ends = [int(other.broadcast_address) for other in taken if _overlap(network, other)]
        if not ends:
            return network
        start = max(start + step, -(-(max(ends) + 1) // step) * step)
    return None


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    """Tell whether two networks share an address."""
    last = min(int(one.broadcast_address), int(other.broadcast_address))
    return one.version == other.version and max(int(one.network_address), int(other.network_address)) <= last


class _Hosts:
    """The hosts' parts of stand-ins, each given once in its network."""

    def __init__(self, taken: set[IPAddress]) -> None:
        self.taken = set(taken)
        self.macs: dict[int, int] = {}

    def stand_in(self, address: IPAddress, network: IPNetwork) -> IPAddress:
        """Return an address of a network that no other address has got."""
        room = 1 << (network.max_prefixlen - network.prefixlen)
        first = self._wanted(address, room)
        tries = (network[(first + more) % room] for more in range(min(room, len(self.taken) + 1)))
        found: IPAddress = next((host for host in tries if host not in self.taken), network[first % room])
        self.taken.add(found)
        return found

    def _wanted(self, address: IPAddress, room: int) -> int:
        """Return the host's part that suits an address best."""
        host = int(address) % min(room, 1 << 64)
        if address.version == 4:
            return host % 256 or min(1, room - 1)
        if room >= 1 << 64 and host >> 24 & 0xFFFF == 0xFFFE:
            return DOCUMENTED_MAC + self.macs.setdefault(host, len(self.macs) + 1)
        return min(1, room - 1)
