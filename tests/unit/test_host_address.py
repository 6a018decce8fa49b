"""Addresses of the interfaces, as `ip -j addr` prints them and the C library lists them."""

import ipaddress
import json
from pathlib import Path

import pytest

from appliance.core.facts import Address
from appliance.host.address import addresses, addresses_of, scope_of

HERE = Path("/")


def link(name: str, *entries: dict[str, object]) -> dict[str, object]:
    return {"ifindex": 1, "ifname": name, "addr_info": list(entries)}


def entry(local: object, prefix: object, scope: str = "global") -> dict[str, object]:
    return {"family": "inet", "local": local, "prefixlen": prefix, "scope": scope, "label": "x"}


def test_addresses_keep_the_order_of_the_kernel() -> None:
    text = json.dumps(
        [
            link("lo", entry("127.0.0.1", 8, "host"), entry("::1", 128, "host")),
            {},
            link("wlan0"),
            link("enP7s7", entry("192.168.7.11", 24), entry("fe80::1", 64, "link")),
            {"ifname": "down"},
            link("docker0", entry("172.17.0.1", 16), {"family": "inet"}),
        ]
    )
    assert addresses_of(text) == (
        Address(interface="lo", address="127.0.0.1", prefix=8, scope="host"),
        Address(interface="lo", address="::1", prefix=128, scope="host"),
        Address(interface="enP7s7", address="192.168.7.11", prefix=24, scope="global"),
        Address(interface="enP7s7", address="fe80::1", prefix=64, scope="link"),
        Address(interface="docker0", address="172.17.0.1", prefix=16, scope="global"),
    )


def test_a_scope_that_was_not_told_is_that_of_the_address() -> None:
    text = json.dumps([link("eth0", {"local": "169.254.3.4", "prefixlen": 16})])
    assert addresses_of(text) == (Address(interface="eth0", address="169.254.3.4", prefix=16, scope="link"),)
    told = [scope_of(ipaddress.ip_address(text)) for text in ("::1", "127.9.9.9", "fe80::1", "10.0.0.1", "fd00::1")]
    assert told == ["host", "host", "link", "global", "global"]


def test_a_machine_without_interfaces_has_none() -> None:
    assert addresses_of("[]") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "null",
        '"ifname"',
        "[1]",
        "[[]]",
        '["ifname"]',
        json.dumps([link("eth0", entry("10.0.0.300", 24))]),
        json.dumps([link("eth0", entry(7, 24))]),
        json.dumps([link("eth0", entry("10.0.0.1", 33))]),
        json.dumps([link("eth0", entry("10.0.0.1", -1))]),
        json.dumps([link("eth0", entry("10.0.0.1", "24"))]),
        json.dumps([link("eth0", entry("10.0.0.1", True))]),
        json.dumps([link("eth0", {"local": "10.0.0.1"})]),
        json.dumps([{"ifname": "eth0", "addr_info": {"local": "10.0.0.1"}}]),
        json.dumps([{"ifname": "eth0", "addr_info": ["local"]}]),
        json.dumps([{"ifname": 7, "addr_info": []}, link("", entry("10.0.0.1", 8))]),
        json.dumps([link("\ud800", entry("10.0.0.1", 8))]),
        json.dumps([link("a/b", entry("10.0.0.1", 8))]),
        "[" * 100_000,
    ],
)
def test_what_ip_would_not_print_is_refused(text: str) -> None:
    with pytest.raises(LookupError, match="not what `ip -j addr` prints"):
        addresses_of(text)


def test_below_a_root_no_address_of_this_machine_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"there is no commands/ip-j-addr\.json"):
        addresses(tmp_path)


def test_this_machine_has_a_loopback_first() -> None:
    found = addresses(HERE)
    assert found[0] == Address(interface="lo", address="127.0.0.1", prefix=8, scope="host")
    assert all("%" not in address.address and ":" not in address.interface for address in found)
