"""The GPUs, as NVML tells them: the one door to the driver's library."""

from appliance.core.facts import GpuFacts
from appliance.vendor import pynvml


def gpu_facts() -> tuple[GpuFacts, ...]:
    """Return every GPU of the machine. Raises LookupError with the reason where NVML can't tell."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise LookupError(f"NVML: {error}") from None
    try:
        return tuple(_gpu(index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise LookupError(f"NVML: {error}") from None
    finally:
        pynvml.nvmlShutdown()


def _gpu(index: int) -> GpuFacts:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return GpuFacts(
        index=index,
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        memory_total=int(memory.total),
        memory_free=int(memory.free),
    )
