"""What the lines of a starting vLLM say about how far it is; matched on text, never on file or line."""

import re

PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"non-default args:", "arguments accepted"),
        (r"Resolved architecture: (\w+)", "architecture {}"),
        (r"Initializing a V1 LLM engine", "starting the engine core"),
        (r"world_size=([2-9]|\d{2,}) rank=\d+", "waiting for {} ranks"),
        (r"Starting to load model", "loading weights"),
        (r"(?:checkpoint shards|loading shards|Model Streamer|checkpoint files):\s+(\d+)%", "loading weights: {} %"),
        (r"Loading weights took ([\d.]+) seconds", "weights loaded in {} s"),
        (r"(?i)warming up model|Dynamo bytecode|Compiling a graph|torch\.compile took", "compiling"),
        (r"KV cache size: ([\d,]+) tokens", "KV cache of {} tokens"),
        (r"Capturing CUDA graphs[^:]*:\s+(\d+)%", "capturing CUDA graphs: {} %"),
        (r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s", "engine ready after {} s"),
        (r"Starting vLLM (?:API )?server", "starting the API server"),
    )
)
"""Lines of vLLM 0.32 (and, where they differ, of versions since 0.9) and what a person reads instead."""


def progress_of(line: str) -> str | None:
    """Return what a line says about the progress of a start; None when it says nothing.

    >>> progress_of("Loading safetensors checkpoint shards:  27% Completed | 3/11 [00:04<00:11,  1.44s/it]")
    'loading weights: 27 %'
    """
    for pattern, text in PATTERNS:
        if found := pattern.search(line):
            return text.format(*found.groups())
    return None
