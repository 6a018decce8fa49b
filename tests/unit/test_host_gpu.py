"""GPUs and CUDA levels, as nvidia-smi and nvcc print them."""

from pathlib import Path

import pytest

from appliance.core.facts import GpuFacts
from appliance.host.cuda import nvcc_release
from appliance.host.gpu import driver_of, in_pci_order
from appliance.host.notebook import Notebook
from appliance.host.nvml import cuda_level
from appliance.host.pci import last_pci_address, pci_address
from appliance.host.smi import cuda_of, gpus_of_csv, gpus_of_log, size_of

MIB = 2**20

FOUR = """index, name, uuid, pci.bus_id, memory.total [MiB], memory.free [MiB], compute_cap
0, NVIDIA GeForce RTX 3090, GPU-a, 00000000:81:00.0, 24576 MiB, 24154 MiB, 8.6
1, NVIDIA GeForce RTX 3090, GPU-b, 00000000:01:00.0, 24576 MiB, 24154 MiB, 8.6
2, NVIDIA GeForce RTX 3090, GPU-c, 00000001:01:00.0, 24576 MiB, 24154 MiB, 8.6
3, NVIDIA GeForce RTX 3090, GPU-d, 00000000:41:00.0, 24576 MiB, 24154 MiB, 8.6
"""


def commands(root: Path, **files: str) -> Path:
    (root / "commands").mkdir(exist_ok=True)
    for name, text in files.items():
        (root / "commands" / name.replace("__", ".").replace("_", "-")).write_text(text)
    return root


def test_gpus_stand_in_the_order_of_the_bus(tmp_path: Path) -> None:
    notebook = Notebook()
    gpus = driver_of(commands(tmp_path, nvidia_smi_query_gpu__csv=FOUR), notebook).gpus
    assert gpus is not None
    assert [(gpu.index, gpu.uuid, gpu.pci_address) for gpu in gpus] == [
        (0, "GPU-b", "0000:01:00.0"),
        (1, "GPU-d", "0000:41:00.0"),
        (2, "GPU-a", "0000:81:00.0"),
        (3, "GPU-c", "0001:01:00.0"),
    ]
    assert {gpu.memory_total for gpu in gpus} == {24576 * MIB}
    assert {gpu.memory_free for gpu in gpus} == {24154 * MIB}
    assert {gpu.compute_capability for gpu in gpus} == {"8.6"}


def test_gpus_without_addresses_keep_their_own_order() -> None:
    gpus = (GpuFacts(index=5, name="b", pci_address="0000:01:00.0"), GpuFacts(index=2, name="a"))
    assert [(gpu.index, gpu.name) for gpu in in_pci_order(gpus)] == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0\n", 0), ("1\n", 1), ("-1\n", None), ("nonsense", None), ("", None)],
)
def test_the_numa_node_is_that_of_the_bus(tmp_path: Path, text: str, expected: int | None) -> None:
    folder = tmp_path / "sys/bus/pci/devices/000f:01:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    csv = "name, gpu_bus_id\nNVIDIA GB10, 0000000F:01:00.0\n"
    notebook = Notebook()
    gpus = driver_of(commands(tmp_path, nvidia_smi_query_gpu__csv=csv), notebook).gpus
    assert gpus is not None
    assert (gpus[0].pci_address, gpus[0].numa_node) == ("000f:01:00.0", expected)
    noted = [entry.what for entry in notebook.unread if entry.what.endswith("numa_node")]
    assert noted == (["gpu 0 numa_node"] if text in {"nonsense", ""} else [])


def test_what_the_driver_does_not_tell_is_unknown_and_noted(tmp_path: Path) -> None:
    csv = "memory.total [MiB], memory.used [MiB], memory.free [MiB], power.draw [W]\n[N/A], [N/A], [N/A], 11.17 W\n"
    notebook = Notebook()
    gpus = driver_of(commands(tmp_path, nvidia_smi_query_gpu__csv=csv), notebook).gpus
    assert gpus == (GpuFacts(index=0, name=""),)
    assert ("gpu 0", "the driver did not tell memory_total, compute_capability, pci_address") in [
        (entry.what, entry.reason) for entry in notebook.unread
    ]


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("143771 MiB", "", 143771 * MIB),
        ("143771", "MiB", 143771 * MIB),
        ("143771", "", 143771 * MIB),
        ("24", "GiB", 24 * 2**30),
        ("0 MiB", "", 0),
        ("[N/A]", "MiB", None),
        ("[Unknown Error]", "MiB", None),
        ("12 parsecs", "MiB", None),
        ("-1", "MiB", None),
        ("9" * 16, "MiB", None),
        ("", "MiB", None),
    ],
)
def test_sizes_are_read_with_their_unit(text: str, unit: str, expected: int | None) -> None:
    assert size_of(text, unit) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no header"),
        ("NVIDIA H200, 143771 MiB", "no header"),
        ("Unable to determine the device handle for GPU0000:02:00.0: GPU is lost", "no header"),
        ("name, uuid\n", "names no GPU"),
        ("name, uuid\nNVIDIA H200, GPU-a\nUnable to determine the device handle\n", "line 3 holds 1 values for 2 col"),
    ],
)
def test_a_list_that_is_not_whole_is_no_list(text: str, told: str) -> None:
    with pytest.raises(LookupError, match=told):
        gpus_of_csv(text)


def test_no_gpu_at_all_is_known() -> None:
    assert gpus_of_csv("No devices were found\n") == ()
    assert gpus_of_log("No devices were found\n") == ()


def test_the_log_stands_in_for_a_list_that_is_not_there(tmp_path: Path) -> None:
    log = "CUDA Version : 13.0\n\nGPU 00000000:00:07.0\n    Product Name      : NVIDIA H200\n    FB Memory Usage\n"
    log += (
        "        Total      : 143771 MiB\n        Free      : 100 MiB\n    BAR1 Memory Usage\n        Total : 5 MiB\n"
    )
    driver = driver_of(commands(tmp_path, nvidia_smi_q__txt=log), Notebook())
    assert driver.cuda == "13.0"
    assert driver.gpus == (
        GpuFacts(
            index=0,
            name="NVIDIA H200",
            memory_total=143771 * MIB,
            memory_free=100 * MIB,
            pci_address="0000:00:07.0",
        ),
    )
    with pytest.raises(LookupError, match="names no GPU"):
        gpus_of_log("garbage")


@pytest.mark.parametrize("text", ["", "\0", "garbage"])
def test_a_damaged_list_is_not_replaced_by_the_log(tmp_path: Path, text: str) -> None:
    log = "GPU 00000000:00:07.0\n    Product Name      : NVIDIA H200\n"
    notebook = Notebook()
    driver = driver_of(commands(tmp_path, nvidia_smi_query_gpu__csv=text, nvidia_smi_q__txt=log), notebook)
    assert driver.gpus is None
    assert [entry.what for entry in notebook.unread] == ["gpus", "driver_cuda"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04     CUDA Version: 13.0     |", "13.0"),
        ("| NVIDIA-SMI 590.10       KMD Version: 590.10        CUDA UMD Version: 13.10     |", "13.10"),
        ("CUDA Version                                           : 12.9\n", "12.9"),
    ],
)
def test_the_level_of_the_driver_is_in_the_banner(text: str, expected: str) -> None:
    assert cuda_of(text) == expected


@pytest.mark.parametrize("text", ["CUDA Version: N/A", "CUDA Version: ERR!", "", "CUDA Version: 13"])
def test_a_banner_without_a_level_says_so(text: str) -> None:
    with pytest.raises(LookupError, match="names no CUDA version"):
        cuda_of(text)


def test_the_level_of_nvml_is_written_as_people_do() -> None:
    assert [cuda_level(number) for number in (13000, 12080, 11040, 13010)] == ["13.0", "12.8", "11.4", "13.1"]


@pytest.mark.parametrize("name", ["nvcc-version.txt", "nvcc.txt", "nvcc--version.txt"])
def test_the_release_of_the_compiler_is_read_from_its_word(tmp_path: Path, name: str) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / name).write_text("Cuda compilation tools, release 13.0, V13.0.48\n")
    assert nvcc_release(tmp_path, None) == "13.0"


@pytest.mark.parametrize("text", ["bash: nvcc: command not found", "release thirteen", "\0"])
def test_a_word_that_names_no_release_says_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(LookupError, match="nvcc names no release"):
        nvcc_release(commands(tmp_path, nvcc__txt=text), None)


def test_the_compiler_of_this_machine_is_asked_only_where_a_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no CUDA home is named"):
        nvcc_release(Path("/"), None)
    with pytest.raises(LookupError, match="nvcc is not installed"):
        nvcc_release(Path("/"), str(tmp_path))
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin/nvcc"
    nvcc.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.10, V12.10.1\n")
    nvcc.chmod(0o755)
    assert nvcc_release(Path("/"), str(tmp_path)) == "12.10"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("00000000:C1:00.0", "0000:c1:00.0"), ("10000:e1:00.0", "10000:e1:00.0"), ("0000:01:00", None), ("", None)],
)
def test_addresses_of_the_bus_are_written_as_sysfs_does(text: str, expected: str | None) -> None:
    assert pci_address(text) == expected
    assert last_pci_address(f"../pci0000:00/{text}/net/eth0") == expected
