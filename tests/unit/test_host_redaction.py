"""Facts that can be shown to strangers."""

import ipaddress
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.codec import json_of, record_of
from appliance.core.facts import (
    Address,
    CheckpointFacts,
    Facts,
    FileFacts,
    Gid,
    GpuFacts,
    PortFacts,
    RdmaPort,
    Unread,
)
from appliance.core.inquiry import plain_inquiry
from appliance.core.redaction import redacted
from appliance.host.gather import gather

ROOTS = Path(__file__).parents[1] / "roots"

NOTHING = Facts(
    engine=None,
    checkpoint=None,
    gpus=None,
    memory_total=None,
    memory_available=None,
    port=None,
    unread=(),
)


def held(*entries: tuple[str, str, int]) -> tuple[Address, ...]:
    return tuple(Address(interface=name, address=text, prefix=prefix, scope="global") for name, text, prefix in entries)


def mapped(address: str) -> str:
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


def rdma(*gids: str) -> tuple[RdmaPort, ...]:
    entries = tuple(Gid(index=index, kind="RoCE v2", gid=gid, interface="eth0") for index, gid in enumerate(gids))
    port = RdmaPort(
        device="mlx5_0", port=1, state=None, physical_state=None, rate=None, pci_address="0000:01:00.0", gids=entries
    )
    return (port,)


def texts(facts: Facts) -> list[str]:
    return [entry.address for entry in facts.addresses or ()]


def test_addresses_of_one_network_stay_in_one_network() -> None:
    facts = replace(
        NOTHING,
        addresses=held(
            ("eth0", "192.168.7.11", 24),
            ("eth0", "192.168.7.12", 24),
            ("ib0", "10.10.1.11", 24),
            ("br0", "172.17.0.1", 16),
        ),
    )
    assert texts(redacted(facts)) == ["10.1.0.11", "10.1.0.12", "10.1.1.11", "10.0.0.1"]
    assert [(entry.interface, entry.prefix) for entry in redacted(facts).addresses or ()] == [
        ("eth0", 24),
        ("eth0", 24),
        ("ib0", 24),
        ("br0", 16),
    ]


def test_a_gid_follows_the_address_that_it_embeds() -> None:
    facts = replace(NOTHING, addresses=held(("eth0", "10.10.1.11", 24)), rdma=rdma(mapped("10.10.1.11")))
    shown = redacted(facts)
    assert shown.rdma is not None
    assert (texts(shown), shown.rdma[0].gids[0].gid) == (["10.0.0.11"], mapped("10.0.0.11"))
    assert (shown.rdma[0].pci_address, shown.rdma[0].gids[0].interface) == ("0000:01:00.0", "eth0")


def test_a_gid_whose_address_no_interface_holds_is_replaced_too() -> None:
    shown = redacted(replace(NOTHING, rdma=rdma(mapped("200.0.209.6"), mapped("200.0.209.7"))))
    assert shown.rdma is not None
    assert [gid.gid for gid in shown.rdma[0].gids] == [mapped("10.0.0.6"), mapped("10.0.0.7")]


def test_what_is_made_from_a_mac_is_scrambled_and_stays_link_local() -> None:
    gid = "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"
    facts = replace(
        NOTHING,
        addresses=held(("eth0", "fe80::ac0:ebff:feda:1cfb", 64), ("eth0", "2a01:4f8::ac0:ebff:feda:1cfb", 64)),
        rdma=rdma(gid, "fe80:0000:0000:0000:0002:c903:00ab:cdef"),
    )
    shown = redacted(facts)
    assert texts(shown) == ["fe80::200:5eff:fe00:5301", "2001:db8::200:5eff:fe00:5301"]
    assert shown.rdma is not None
    assert [gid.gid for gid in shown.rdma[0].gids] == [
        "fe80:0000:0000:0000:0200:5eff:fe00:5301",
        "fe80:0000:0000:0000:0000:0000:0000:0001",
    ]


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "0.0.0.0", "::"])
def test_what_every_machine_has_stays(text: str) -> None:
    facts = replace(
        NOTHING,
        addresses=held(("lo", text, 8)),
        port=PortFacts(host=text, port=8000, fault=None, transient=False),
    )
    assert redacted(facts) == facts


def test_the_address_of_the_api_is_the_same_as_that_of_its_interface() -> None:
    port = PortFacts(host="192.168.7.11", port=8000, fault=None, transient=False)
    shown = redacted(replace(NOTHING, addresses=held(("eth0", "192.168.7.11", 24)), port=port))
    assert shown.port is not None
    assert [shown.port.host] == texts(shown) == ["10.0.0.11"]


def test_a_reason_is_rewritten_as_well() -> None:
    reason = "can't reach http://192.168.7.11:8000/ from GPU-8b1c5f6e-0000, version 1.2.3.4, at 0000:01:00.0"
    facts = replace(NOTHING, addresses=held(("eth0", "192.168.7.11", 24)), unread=(Unread(what="x", reason=reason),))
    uuid = "GPU-00000000-0000-4000-8000-000000000001"
    assert redacted(facts).unread[0].reason == (
        f"can't reach http://10.0.0.11:8000/ from {uuid}, version 1.2.3.4, at 0000:01:00.0"
    )


def test_uuids_are_numbered_in_the_order_of_the_gpus() -> None:
    gpus = tuple(
        GpuFacts(index=index, name="x", uuid=uuid) for index, uuid in enumerate(("GPU-bbbbbbbb", None, "GPU-aaaaaaaa"))
    )
    shown = redacted(replace(NOTHING, gpus=gpus))
    assert [gpu.uuid for gpu in shown.gpus or ()] == [
        "GPU-00000000-0000-4000-8000-000000000001",
        None,
        "GPU-00000000-0000-4000-8000-000000000002",
    ]


def test_users_are_numbered_wherever_their_home_is_named() -> None:
    checkpoint = CheckpointFacts(
        folder="/home/alice/models/m",
        architecture=None,
        max_position_embeddings=None,
        weights=(),
        missing=(),
        config='{"_name_or_path":"/home/bob/m"}',
    )
    files = (FileFacts(path="/home/alice/x", exists=True), FileFacts(path="/home/bob", exists=False))
    shown = redacted(replace(NOTHING, checkpoint=checkpoint, files=files))
    assert shown.checkpoint is not None
    assert (shown.checkpoint.folder, shown.checkpoint.config) == (
        "/home/user1/models/m",
        '{"_name_or_path":"/home/user2/m"}',
    )
    assert [file.path for file in shown.files] == ["/home/user1/x", "/home/user2"]


def test_a_large_network_beside_a_small_one_stays_apart() -> None:
    facts = replace(NOTHING, addresses=held(("a", "10.1.2.3", 8), ("b", "192.168.7.11", 24), ("c", "11.0.0.9", 8)))
    assert texts(redacted(facts)) == ["10.0.0.3", "172.16.0.11", "240.0.0.9"]


def test_a_network_in_another_stays_in_it() -> None:
    facts = replace(
        NOTHING, addresses=held(("a", "172.20.9.3", 16), ("b", "172.20.7.11", 24), ("b", "172.20.7.50", 32))
    )
    shown = [ipaddress.ip_address(text) for text in texts(redacted(facts))]
    assert all(address in ipaddress.ip_network("10.0.0.0/16") for address in shown)
    assert shown[2] in ipaddress.ip_network((shown[1], 24), strict=False)


def test_nothing_of_a_root_is_left_in_what_is_shown() -> None:
    facts = gather(ROOTS / "gx10-two", plain_inquiry())
    shown = json_of(redacted(facts))
    for name in ("192.168.7.", "10.10.1.", "10.10.2.", "0a0a:01", "0a0a:02"):
        assert name in json_of(facts)
        assert name not in shown
    assert record_of(Facts, shown) == redacted(facts)


def test_the_plan_sees_the_same_ports() -> None:
    facts = gather(ROOTS / "gx10-mismatch", plain_inquiry())
    shown = redacted(facts)

    def seen(of: Facts) -> list[object]:
        return [
            (port.device, port.state, [(gid.index, gid.kind, gid.interface) for gid in port.gids])
            for port in of.rdma or ()
        ]

    assert seen(shown) == seen(facts)
    by_interface = {entry.interface: entry.address for entry in shown.addresses or ()}
    for port in shown.rdma or ():
        for gid in port.gids:
            assert gid.gid == mapped(by_interface[gid.interface or ""])


ADDRESSES = st.lists(
    st.one_of(
        st.tuples(st.ip_addresses(v=4), st.integers(8, 32)),
        st.tuples(st.ip_addresses(v=6), st.integers(32, 128)),
        st.tuples(st.ip_addresses(v=4, network="10.1.0.0/26"), st.integers(22, 32)),
    ),
    max_size=12,
)


@given(ADDRESSES)
def test_any_addresses_get_stand_ins_of_their_own_and_keep_their_neighbours(
    found: list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]],
) -> None:
    facts = replace(NOTHING, addresses=held(*(("eth0", str(address), prefix) for address, prefix in found)))
    shown = [ipaddress.ip_address(text) for text in texts(redacted(facts))]
    for (one, stand_in), (other, other_stand_in) in itertools.combinations(
        zip([address for address, _ in found], shown, strict=True), 2
    ):
        assert (one == other) == (stand_in == other_stand_in)
    for (address, prefix), stand_in in zip(found, shown, strict=True):
        assert address.version == stand_in.version
        network = ipaddress.ip_network((address, prefix), strict=False)
        neighbours = [
            there for (other, length), there in zip(found, shown, strict=True)
            if length == prefix and other in network and not other.is_loopback and not other.is_unspecified
        ]  # fmt: skip
        assert len({ipaddress.ip_network((there, prefix), strict=False) for there in neighbours}) <= 1, stand_in


@given(st.text(max_size=200))
def test_a_text_without_names_stays_as_it_is(text: str) -> None:
    facts = replace(NOTHING, addresses=held(("eth0", "10.10.1.11", 24)), unread=(Unread(what="x", reason=text),))
    named = any(word in text for word in ("/home/", "GPU-", "MIG-", "10.10.1.11"))
    assert named or redacted(facts).unread == facts.unread


def test_a_long_text_does_not_take_long() -> None:
    config = "a" * 250_000 + ":" * 1000 + "1." * 1000
    checkpoint = CheckpointFacts(
        folder="/m", architecture=None, max_position_embeddings=None, weights=(), missing=(), config=config
    )
    assert redacted(replace(NOTHING, checkpoint=checkpoint)).checkpoint == checkpoint
