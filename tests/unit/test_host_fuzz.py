"""Readers of text on any text: an answer, or LookupError, and nothing else."""

import contextlib
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.host.address import addresses_of
from appliance.host.cuda import release_of
from appliance.host.filesystem import mounts_of, mounts_of_mountinfo, rooms_of
from appliance.host.memory import line_bytes
from appliance.host.pci import last_pci_address, pci_address
from appliance.host.rdma import gid_of, kind_of, rate_of, word_of
from appliance.host.smi import cuda_of, gpus_of_csv, gpus_of_log, size_of

LINES = """name, uuid, pci.bus_id, memory.total [MiB], compute_cap
NVIDIA H200, GPU-1, 00000000:01:00.0, 24576 MiB, [N/A]
GPU 00000000:01:00.0
    Product Name : NVIDIA H200
    FB Memory Usage
        Total : 143771 MiB
No devices were found
CUDA UMD Version: 13.0
tools, release 13.0, V13
MemTotal: 24576 kB
Filesystem Type 1K-blocks Used Avail Use% Mounted on
/dev/vda ext4 100G 1 1 50% /
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
4: ACTIVE
200 Gb/sec (4X NDR)
RoCE v2
"""
WORDS = st.sampled_from(re.split("([ ,\n])", LINES))
NEAR = st.lists(st.one_of(WORDS, st.text(max_size=4)), max_size=60).map("".join)
TEXTS = st.one_of(st.text(max_size=300), NEAR)

READERS: tuple[Callable[[str], object], ...] = (
    addresses_of,
    cuda_of,
    gid_of,
    gpus_of_csv,
    gpus_of_log,
    kind_of,
    last_pci_address,
    lambda text: line_bytes(text, "MemTotal", "meminfo"),
    mounts_of,
    mounts_of_mountinfo,
    pci_address,
    rate_of,
    release_of,
    lambda text: tuple(rooms_of(text)),
    size_of,
    word_of,
)


@pytest.mark.parametrize("reader", READERS)
@given(text=TEXTS)
def test_any_text_is_read_or_refused(reader: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(LookupError):
        reader(text)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(("ifname", "addr_info", "local", "prefixlen", "scope", "family", "x")), inner, max_size=6
        ),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_any_json_is_a_list_of_addresses_or_refused(value: object) -> None:
    with contextlib.suppress(LookupError):
        found = addresses_of(json.dumps(value))
        assert isinstance(value, list)
        assert all(0 <= entry.prefix <= 128 for entry in found)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=8))
def test_what_nvidia_smi_prints_comes_back(sizes: list[tuple[int, int]]) -> None:
    lines = ["memory.free [MiB], name, memory.total [MiB]", *(f"{free}, X, {total} MiB" for free, total in sizes)]
    assert [(gpu.memory_free, gpu.memory_total) for gpu in gpus_of_csv("\n".join(lines))] == [
        (free * 2**20, total * 2**20) for free, total in sizes
    ]


@given(st.integers(0, 10**15 - 1))
def test_what_the_kernel_prints_of_its_memory_comes_back(size: int) -> None:
    assert line_bytes(f"MemFree: 1 kB\nMemTotal:   {size} kB\n", "MemTotal", "meminfo") == size * 1024
