"""Is there memory for an engine?"""

from collections.abc import Iterator

from appliance.core.finding import Finding, Severity
from appliance.core.situation import Situation
from appliance.core.unit import shown_bytes

ENGINE_BYTES = 1_700_000_000
"""What three processes of vLLM 0.32 on a CPU hold beside weights and KV cache (measured: 1.3 to 1.7 GiB)."""


def main_memory(situation: Situation) -> Iterator[Finding]:
    """The processes of the engine fit into main memory; on a CPU so do the weights."""
    facts = situation.facts
    if facts.memory_available is None or facts.checkpoint is None or facts.engine is None:
        return
    weights = sum(file.bytes for file in facts.checkpoint.weights) if facts.engine.device == "cpu" else 0
    needed = ENGINE_BYTES + weights
    if facts.memory_available < needed:
        yield Finding(
            id="memory.main",
            severity=Severity.WARNING,
            summary=f"{shown_bytes(facts.memory_available)} of memory are available, {shown_bytes(needed)} needed",
            remedy="stop other programs; the kernel may kill the engine",
        )
