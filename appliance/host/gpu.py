"""The GPUs and the driver's CUDA level: NVML's word, else nvidia-smi's, else what nvidia-smi printed once."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from appliance.core.facts import GpuFacts
from appliance.core.record import record
from appliance.host import nvml, smi
from appliance.host.notebook import Notebook
from appliance.host.numa import numa_node
from appliance.host.source import AbsentError, first_text, is_this_machine, text_of

LIST = "commands/nvidia-smi-query-gpu.csv"
LOG = "commands/nvidia-smi-q.txt"
BANNERS = ("commands/nvidia-smi.txt", LOG, "commands/nvidia-smi-version.txt")


@record
class Driver:
    """What the driver of the GPUs tells."""

    gpus: tuple[GpuFacts, ...] | None
    """In PCI order."""
    cuda: str | None


def driver_of(root: Path, notebook: Notebook, ours: frozenset[int] = frozenset()) -> Driver:
    """Return the GPUs, with what the processes of `ours` hold, and the CUDA level of the machine below a root."""
    driver = _asked(notebook, ours) if is_this_machine(root) else _kept(root, notebook)
    gpus = driver.gpus and tuple(_placed(root, gpu, notebook) for gpu in in_pci_order(driver.gpus))
    return replace(driver, gpus=gpus)


def _asked(notebook: Notebook, ours: frozenset[int]) -> Driver:
    """Ask NVML, in one session for both; ask nvidia-smi where NVML can't be opened."""
    try:
        with nvml.session():
            return Driver(
                gpus=notebook.ask("gpus", partial(nvml.gpus, ours)), cuda=notebook.ask("driver_cuda", nvml.cuda)
            )
    except LookupError as error:
        closed = str(error)
    try:
        return Driver(gpus=smi.gpus(), cuda=notebook.ask("driver_cuda", smi.cuda))
    except LookupError as error:
        for what in ("gpus", "driver_cuda"):
            notebook.note(what, f"{closed}; {error}")
        return Driver(gpus=None, cuda=None)


def _kept(root: Path, notebook: Notebook) -> Driver:
    """Read what nvidia-smi printed on that machine."""
    return Driver(
        gpus=notebook.ask("gpus", lambda: _kept_gpus(root)),
        cuda=notebook.ask("driver_cuda", lambda: smi.cuda_of(first_text(root, BANNERS))),
    )


def _kept_gpus(root: Path) -> tuple[GpuFacts, ...]:
    try:
        return smi.gpus_of_csv(text_of(root, LIST))
    except AbsentError as absent:
        try:
            return smi.gpus_of_log(text_of(root, LOG))
        except AbsentError:
            raise absent from None


def in_pci_order(gpus: tuple[GpuFacts, ...]) -> tuple[GpuFacts, ...]:
    """Return GPUs as CUDA counts them with CUDA_DEVICE_ORDER=PCI_BUS_ID; by their index where one has no address."""
    if all(gpu.pci_address for gpu in gpus):
        ordered = sorted(gpus, key=lambda gpu: (len(gpu.pci_address or ""), gpu.pci_address or ""))
    else:
        ordered = sorted(gpus, key=lambda gpu: gpu.index)
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(ordered))


def _placed(root: Path, gpu: GpuFacts, notebook: Notebook) -> GpuFacts:
    """Return a GPU with its NUMA node; note what its driver did not tell."""
    values = {name: getattr(gpu, name) for name in ("memory_total", "compute_capability", "pci_address")}
    if missing := ", ".join(name for name, value in values.items() if value is None):
        notebook.note(f"gpu {gpu.index}", f"the driver did not tell {missing}")
    address = gpu.pci_address
    node = notebook.ask(f"gpu {gpu.index} numa_node", lambda: numa_node(root, address)) if address else None
    return replace(gpu, numa_node=node)
