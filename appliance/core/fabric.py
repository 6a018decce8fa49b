"""Which addresses, interfaces and RDMA devices carry a group of machines, read off the facts; pure."""

import ipaddress
from collections.abc import Iterator

from appliance.core.facts import Address, Facts, Gid, RdmaPort
from appliance.core.kind import NotYetError, UnfitError, is_address
from appliance.core.record import record

ROCE = "RoCE v2"


@record
class Cluster:
    """What the file says of the group, with the recipe's own numbers where it says nothing."""

    nodes: int
    layout: str
    """`mesh` (everybody reaches everybody, by a switch) or `ring` (each is cabled to two others)."""
    host_address: str | None
    head: str | None
    role: str
    subnets: tuple[str, ...]
    """Prefixes such as `10.10.1.`, or networks such as `10.10.1.0/24`; one for each cabled port."""


@record
class Rail:
    """One RDMA port that carries the group."""

    device: str
    gid: int
    """Index of the entry that holds its IPv4 address as RoCE v2."""
    subnet: str


def addresses_of(facts: Facts) -> tuple[Address, ...]:
    """Return the IPv4 addresses that other machines can reach. Raises NotYetError when they are unknown."""
    if facts.addresses is None:
        raise NotYetError(f"the machine's addresses are unknown: {facts.why_unread('addresses') or 'nobody looked'}")
    return tuple(entry for entry in facts.addresses if "." in entry.address and entry.scope == "global")


def ports_of(facts: Facts) -> tuple[RdmaPort, ...]:
    """Return the RDMA ports. Raises NotYetError when they are unknown."""
    if facts.rdma is None:
        raise NotYetError(f"the machine's RDMA ports are unknown: {facts.why_unread('rdma') or 'nobody looked'}")
    return facts.rdma


def host_address(facts: Facts, cluster: Cluster) -> str:
    """Return the address by which the others know this machine: the first that no RDMA port carries.

    Raises UnfitError when the file names one that this machine does not have, or there is none.
    """
    addresses = addresses_of(facts)
    if cluster.host_address:
        return cluster.host_address
    fabric = {gid.interface for port in facts.rdma or () for gid in port.gids}
    found = next((entry.address for entry in addresses if entry.interface not in fabric), None)
    if found is None:
        raise NotYetError("no interface has an address beside those of the RDMA ports; set [cluster] host_address")
    return found


def host_interface(facts: Facts, address: str) -> str:
    """Return the interface that holds an address: Gloo wants its exact name. Raises UnfitError when none does."""
    addresses = addresses_of(facts)
    found = next((entry.interface for entry in addresses if entry.address == address), None)
    if found is None:
        has = ", ".join(f"{entry.address} on {entry.interface}" for entry in addresses) or "none"
        raise NotYetError(f"no interface holds {address}; this machine has {has}")
    return found


def exact_interface(facts: Facts, interface: str) -> str:
    """Return an interface's name as NCCL takes it: NCCL reads a prefix, and `=` before it an exact name.

    The `=` is only written where another interface's name begins with this one.
    """
    names = {entry.interface for entry in facts.addresses or ()}
    return f"={interface}" if _ambiguous(interface, names) else interface


def _ambiguous(name: str, names: set[str]) -> bool:
    return name in names and any(other != name and other.startswith(name) for other in names)


def inside(address: str, subnet: str) -> bool:
    """Tell whether an address lies in a subnet, written as a network or as the start of an address.

    >>> inside("192.168.100.5", "192.168.1."), inside("192.168.1.5", "192.168.1."), inside("10.1.2.3", "10.1.0.0/16")
    (False, True, True)
    """
    if "/" in subnet:
        return ipaddress.ip_address(address) in ipaddress.ip_network(subnet, strict=False)
    return address == subnet or (subnet.endswith(".") and address.startswith(subnet))


def subnets_of(facts: Facts, cluster: Cluster) -> tuple[str, ...]:
    """Return the subnets of the fabric: the file's, else one for each address that an RDMA port carries."""
    if cluster.subnets:
        return cluster.subnets
    fabric = {gid.interface for port in ports_of(facts) for gid in port.gids}
    entries = (entry for entry in addresses_of(facts) if entry.interface in fabric)
    found = {str(ipaddress.ip_network(f"{entry.address}/{entry.prefix}", strict=False)): None for entry in entries}
    return tuple(sorted(found, key=ipaddress.ip_network))


def rails_of(facts: Facts, cluster: Cluster) -> tuple[Rail, ...]:
    """Return the RDMA ports that carry the group, in the order of the subnets.

    In a mesh every subnet needs its port, and all ports the same GID index, because NCCL takes one index for all of
    them. In a ring each cable has a subnet of its own, and an uncabled port is no fault. Raises UnfitError.
    """
    subnets = subnets_of(facts, cluster)
    found = {subnet: next(_rails(facts, subnet), None) for subnet in subnets}
    rails = tuple(rail for rail in found.values() if rail)
    missing = [subnet for subnet, rail in found.items() if rail is None]
    if not rails or (missing and cluster.layout == "mesh"):
        raise NotYetError(_no_rail(facts, missing))
    if cluster.layout == "mesh" and len({rail.gid for rail in rails}) > 1:
        table = ", ".join(f"{rail.device} at {rail.gid}" for rail in rails)
        raise UnfitError(
            f"the fabric ports disagree on the GID index ({table}), and NCCL takes one for all; give each fabric "
            "interface exactly one IPv4 address, and set the interfaces up again or reboot"
        )
    return rails


def _no_rail(facts: Facts, missing: list[str]) -> str:
    ports = ", ".join(f"{port.device} ({port.state or 'state unknown'})" for port in ports_of(facts))
    wanted = ", ".join(missing) or "any subnet"
    return (
        f"no RDMA port has a RoCE v2 entry for {wanted}; this machine has {ports or 'no RDMA device at all'}; "
        "see that the cable is in and the interface has its address, or set [cluster] subnets"
    )


def _rails(facts: Facts, subnet: str) -> Iterator[Rail]:
    for entry in addresses_of(facts):
        if not inside(entry.address, subnet):
            continue
        for port in ports_of(facts):
            if gid := _gid_of(port, entry):
                yield Rail(device=port.device, gid=gid.index, subnet=subnet)


def _gid_of(port: RdmaPort, entry: Address) -> Gid | None:
    """Return the entry that holds an interface's address as RoCE v2, in whichever slot the kernel put it."""
    mapped = ipaddress.IPv6Address(f"::ffff:{entry.address}")
    for gid in port.gids:
        if gid.kind == ROCE and gid.interface == entry.interface and _same(gid.gid, mapped):
            return gid
    return None


def _same(gid: str, address: ipaddress.IPv6Address) -> bool:
    try:
        return ipaddress.IPv6Address(gid) == address
    except ValueError:
        return False


def rdma_devices(facts: Facts, cluster: Cluster) -> str:
    """Return the devices for NCCL_IB_HCA, which reads prefixes; `=` is written where one begins another's name."""
    devices = list(dict.fromkeys(rail.device for rail in rails_of(facts, cluster)))
    names = {port.device for port in ports_of(facts)}
    exact = "=" if any(_ambiguous(device, names) for device in devices) else ""
    return exact + ",".join(devices)


def gid_index(facts: Facts, cluster: Cluster, devices: str | None) -> int:
    """Return the GID index of the devices that NCCL uses: theirs where the file names devices of this machine."""
    named = {part.partition(":")[0] for part in (devices or "").lstrip("=^").split(",")}
    own = [rail for rail in _all_rails(facts) if rail.device in named]
    if own and len({rail.gid for rail in own}) == 1:
        return own[0].gid
    return rails_of(facts, cluster)[0].gid


def _all_rails(facts: Facts) -> Iterator[Rail]:
    for entry in addresses_of(facts):
        for port in ports_of(facts):
            if gid := _gid_of(port, entry):
                yield Rail(device=port.device, gid=gid.index, subnet=entry.address)


def single_rail(facts: Facts, cluster: Cluster) -> str | None:
    """Tell when a mesh runs over one port, and which others this machine has.

    One PCIe root of the adapter carries 112 Gb/s, both carry 196.
    """
    rails = rails_of(facts, cluster)
    if cluster.layout != "mesh" or len(rails) > 1:
        return None
    others = [
        f"{port.device} ({port.state or 'state unknown'})" for port in ports_of(facts) if port.device != rails[0].device
    ]
    has = f"; {', '.join(others)} has no address of the fabric" if others else ", the only one of this machine"
    return f"the fabric is {rails[0].device} alone, about half of what two ports carry{has}"


def ray_address(cluster: Cluster) -> str:
    """Return where Ray is joined: the named head's daemon, else this machine's own, which knows the group."""
    return f"{cluster.head or '127.0.0.1'}:6379"


def role_of(facts: Facts, cluster: Cluster) -> str:
    """Return `head` or `worker`, as the file or the head's address says. Raises UnfitError when both disagree."""
    if cluster.head is None:
        return "worker" if cluster.role == "worker" else "head"
    if not is_address(cluster.head):
        if cluster.role == "auto":
            raise UnfitError(
                f'[cluster] head = "{cluster.head}" is a host name: write its address, or set role as well'
            )
        return cluster.role
    holds = host_address(facts, cluster) == cluster.head
    if cluster.role == "head" and not holds:
        raise UnfitError(
            f'[cluster] role = "head", but this machine is {host_address(facts, cluster)} and head = "{cluster.head}"; '
            'set role = "worker" on every machine but the head'
        )
    if cluster.role == "worker" and holds:
        raise UnfitError(f'[cluster] role = "worker", but head = "{cluster.head}" is this machine; set role = "head"')
    return "head" if holds else "worker"
