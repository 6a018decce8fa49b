"""Which driver is in use, read below a root."""

from pathlib import Path

import pytest

from appliance.host.driver import Driver, change_between, driver_in_use

PROPRIETARY = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
OPEN = """NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build  (builder@host-03-2)
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def link(root: Path, path: str, target: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).unlink(missing_ok=True)
    (root / path).symlink_to(target)


def test_a_machine_without_a_driver_has_none(tmp_path: Path) -> None:
    assert driver_in_use(tmp_path) == Driver()


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "535.104.05"), (OPEN, "580.82.07")])
def test_the_module_is_read_of_what_the_driver_tells(tmp_path: Path, text: str, version: str) -> None:
    write(tmp_path, "proc/driver/nvidia/version", text)
    assert driver_in_use(tmp_path).module == version


def test_the_kernel_is_asked_before_the_driver(tmp_path: Path) -> None:
    write(tmp_path, "proc/driver/nvidia/version", OPEN)
    write(tmp_path, "sys/module/nvidia/version", "580.95.05\n")
    assert driver_in_use(tmp_path).module == "580.95.05"
    write(tmp_path, "sys/module/nvidia/version", "\n")
    assert driver_in_use(tmp_path).module == "580.82.07"


@pytest.mark.parametrize("text", ["", "NVRM version: unknown\n", "\x00\xff"])
def test_a_module_that_tells_no_version_has_none(tmp_path: Path, text: str) -> None:
    write(tmp_path, "proc/driver/nvidia/version", text)
    assert driver_in_use(tmp_path).module is None


@pytest.mark.parametrize("folder", ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib"])
def test_the_library_is_the_one_that_its_link_leads_to(tmp_path: Path, folder: str) -> None:
    link(tmp_path, f"{folder}/libcuda.so.1", "libcuda.so.580.65.06")
    assert driver_in_use(tmp_path).library is None, "a link that leads nowhere is what an upgrade has half way"
    write(tmp_path, f"{folder}/libcuda.so.580.65.06", "")
    assert driver_in_use(tmp_path).library == "580.65.06"


def test_links_of_alternatives_lead_to_the_library_below_the_root(tmp_path: Path) -> None:
    link(tmp_path, "usr/lib/x86_64-linux-gnu/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1")
    link(tmp_path, "etc/alternatives/glx--libcuda.so.1", "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1")
    link(tmp_path, "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1", "libcuda.so.535.104.05")
    write(tmp_path, "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.104.05", "")
    assert driver_in_use(tmp_path).library == "535.104.05"


def test_a_library_of_another_name_tells_no_version(tmp_path: Path) -> None:
    link(tmp_path, "usr/lib/libcuda.so.1", "stub.so")
    write(tmp_path, "usr/lib/stub.so", "")
    assert driver_in_use(tmp_path).library is None


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (Driver(), Driver(), ""),
        (Driver(module="1.2", library="1.2"), Driver(module="1.2", library="1.2"), ""),
        (Driver(module="1.2", library="1.2"), Driver(module="1.2", library="1.3"), "library 1.2 -> 1.3"),
        (Driver(module="1.2"), Driver(module="1.1"), "module 1.2 -> 1.1"),
        (Driver(), Driver(module="1.2", library="1.2"), "module none -> 1.2, library none -> 1.2"),
        (Driver(module="1.2", library="1.2"), Driver(), ""),
    ],
)
def test_a_change_is_another_version_and_not_one_that_can_not_be_told(before: Driver, now: Driver, change: str) -> None:
    assert change_between(before, now) == change
