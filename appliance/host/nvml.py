"""What NVML tells of the GPUs: the one door to the driver's library."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from appliance.core.facts import GpuFacts
from appliance.host.pci import pci_address
from appliance.vendor import pynvml


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Hold the library open: opening it wakes every GPU. Raises LookupError with the reason where it can't be."""
    with _reasons():
        pynvml.nvmlInit()
    try:
        yield
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


@contextlib.contextmanager
def _reasons(what: str = "NVML") -> Iterator[None]:
    try:
        yield
    except (pynvml.NVMLError, UnicodeDecodeError) as error:
        raise LookupError(f"{what}: {error}") from None


def cuda() -> str:
    """Return the CUDA level of the driver. Raises LookupError."""
    with _reasons():
        return cuda_level(int(pynvml.nvmlSystemGetCudaDriverVersion_v2()))


def cuda_level(number: int) -> str:
    """Return a level as people write it.

    >>> cuda_level(13000), cuda_level(12090)
    ('13.0', '12.9')
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def gpus(ours: frozenset[int] = frozenset()) -> tuple[GpuFacts, ...]:
    """Return every GPU, and what the processes of `ours` hold of it.

    Raises LookupError where one is lost: the others alone would not be the machine.
    """
    with _reasons():
        count = int(pynvml.nvmlDeviceGetCount())
    return tuple(_gpu(index, ours) for index in range(count))


def held(uses: Iterable[tuple[int, int | None]], ours: frozenset[int]) -> int | None:
    """Return the bytes that processes of `ours` hold, of pairs of a process and its bytes; None when one is unknown.

    >>> ours = frozenset({7, 8})
    >>> held([(7, 100), (8, 10), (9, None)], ours), held([(7, None)], ours), held([], ours)
    (110, None, 0)
    """
    own = [size for pid, size in uses if pid in ours]
    return None if not ours or None in own else sum(size for size in own if size is not None)


def _gpu(index: int, ours: frozenset[int]) -> GpuFacts:
    with _reasons(f"NVML, GPU {index}"):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
        capability = _told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
        bus = _told(pynvml.nvmlDeviceGetPciInfo, handle)
        running = _told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) if ours else ()
        return GpuFacts(
            index=index,
            name=str(pynvml.nvmlDeviceGetName(handle)),
            uuid=_told(pynvml.nvmlDeviceGetUUID, handle),
            # Zero is what some drivers say where GPU and CPU share one memory.
            memory_total=int(memory.total) if memory and memory.total else None,
            memory_free=int(memory.free) if memory and memory.total else None,
            memory_ours=held(((use.pid, use.usedGpuMemory) for use in running), ours) if running is not None else None,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            pci_address=pci_address(_text(bus.busId)) if bus else None,
        )


def _told(getter: Callable[[Any], Any], handle: Any) -> Any:
    """Return what a getter tells; None where this GPU or driver does not know the question."""
    unknown = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NO_PERMISSION)
    try:
        return getter(handle)
    except pynvml.NVMLError as error:
        if error.value in unknown:
            return None
        raise


def _text(found: str | bytes) -> str:
    return found.decode() if isinstance(found, bytes) else found
