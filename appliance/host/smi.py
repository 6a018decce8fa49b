"""What nvidia-smi prints of the GPUs: the second source, and the only one below a root."""

import re

from appliance.core.facts import GpuFacts
from appliance.host.command import printed
from appliance.host.pci import pci_address

QUESTIONS = "index,name,uuid,pci.bus_id,memory.total,memory.free,compute_cap"

PATIENCE = 15.0
"""Seconds that nvidia-smi may take; a healthy machine takes two, eight GPUs without persistence ten."""

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

NONE_FOUND = "No devices were found"

ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
"""Names that nvidia-smi takes for the same question."""


def gpus() -> tuple[GpuFacts, ...]:
    """Ask nvidia-smi for every GPU. Raises LookupError with the reason."""
    return gpus_of_csv(printed("nvidia-smi", f"--query-gpu={QUESTIONS}", "--format=csv", seconds=PATIENCE))


def cuda() -> str:
    """Ask nvidia-smi for the CUDA level of the driver. Raises LookupError with the reason."""
    return cuda_of(printed("nvidia-smi", seconds=PATIENCE))


def cuda_of(text: str) -> str:
    """Return the CUDA level that a banner, -q or --version names. Raises LookupError where it names none.

    >>> cuda_of("| NVIDIA-SMI 590.10   KMD Version: 590.10   CUDA UMD Version: 13.1     |")
    '13.1'
    """
    found = re.search(r"CUDA (?:UMD )?Version *: *([0-9]{1,4}\.[0-9]{1,4})", text)
    if not found:
        raise LookupError("nvidia-smi names no CUDA version")
    return found[1]


def gpus_of_csv(text: str) -> tuple[GpuFacts, ...]:
    r"""Return the GPUs of --query-gpu, whatever columns it was asked for. Raises LookupError where they are not whole.

    >>> gpus_of_csv("name, memory.total [MiB]\nNVIDIA H200, 143771 MiB")[0].memory_total
    150754820096
    """
    head, *rows = [line for line in text.splitlines() if line.strip()] or [""]
    if head.strip() == NONE_FOUND:
        return ()
    columns = [_column(word) for word in head.split(",")]
    if not {name for name, _ in columns} & {"name", "uuid", "pci.bus_id", "memory.total", "compute_cap"}:
        raise LookupError(f"nvidia-smi's list has no header: {head[:60]}")
    if not rows:
        raise LookupError("nvidia-smi's list names no GPU")
    return tuple(_gpu(place, row, columns) for place, row in enumerate(rows))


def _column(word: str) -> tuple[str, str]:
    """Return a column's name and its unit."""
    name, _, unit = word.strip().partition(" ")
    return ALIASES.get(name, name), unit.strip("[] ")


def _gpu(place: int, row: str, columns: list[tuple[str, str]]) -> GpuFacts:
    values = [value.strip() for value in row.split(",")]
    if len(values) != len(columns):
        raise LookupError(
            f"nvidia-smi's line {place + 2} holds {len(values)} values for {len(columns)} columns: {row[:80]}"
        )
    told = {name: value for (name, _), value in zip(columns, values, strict=True)}
    units = dict(columns)
    index = told.get("index", "")
    return GpuFacts(
        index=int(index) if re.fullmatch(r"[0-9]{1,4}", index) else place,
        name=_known(told.get("name", "")) or "",
        uuid=_known(told.get("uuid", "")),
        memory_total=size_of(told.get("memory.total", ""), units.get("memory.total", "")),
        memory_free=size_of(told.get("memory.free", ""), units.get("memory.free", "")),
        compute_capability=_capability(told.get("compute_cap", "")),
        pci_address=pci_address(told.get("pci.bus_id", "")),
    )


def _known(text: str) -> str | None:
    """Return a value; None for `[N/A]`, `[Unknown Error]` and their like."""
    return None if not text or text.startswith(("[", "N/A", "ERR")) else text


def _capability(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", text) else None


def size_of(text: str, unit: str = "") -> int | None:
    """Return a size in bytes; its own unit counts before the header's, MiB where neither names one.

    >>> size_of("143771 MiB"), size_of("143771", "MiB"), size_of("[N/A]")
    (150754820096, 150754820096, None)
    """
    found = re.fullmatch(r"([0-9]{1,15})(?: *([A-Za-z]+))?", text)
    scale = UNITS.get(found[2] or unit or "MiB") if found else None
    return int(found[1]) * scale if found and scale else None


def gpus_of_log(text: str) -> tuple[GpuFacts, ...]:
    """Return the GPUs of `nvidia-smi -q`, which does not tell the compute capability. Raises LookupError."""
    if text.strip() == NONE_FOUND:
        return ()
    parts = re.split(r"^GPU ([0-9A-Fa-f:.]{10,20})$", text, flags=re.MULTILINE)[1:]
    if not parts:
        raise LookupError("nvidia-smi -q names no GPU")
    return tuple(_logged(place, *pair) for place, pair in enumerate(zip(parts[::2], parts[1::2], strict=True)))


def _logged(place: int, bus: str, text: str) -> GpuFacts:
    memory = re.search(r"^ +FB Memory Usage\n((?: {8}.*\n)+)", text, re.MULTILINE)
    block = memory[1] if memory else ""
    return GpuFacts(
        index=place,
        name=_known(_line(text, "Product Name")) or "",
        uuid=_known(_line(text, "GPU UUID")),
        memory_total=size_of(_line(block, "Total")),
        memory_free=size_of(_line(block, "Free")),
        pci_address=pci_address(bus),
    )


def _line(text: str, name: str) -> str:
    found = re.search(rf"^ +{name} +: (.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""
