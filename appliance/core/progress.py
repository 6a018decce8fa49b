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

CAUSE = re.compile(
    r"(?:^|\s)(?P<error>(?:[A-Za-z_][\w.]*)?(?:Error|Exception)\b: .*|MemoryError\s*$|vllm.*: error: .*)"
    r"|^Value error, (?P<value>.*?)(?: \[type=.*)?$"
    r"|(?P<death>\S+ (?:proc \S+ |core )?(?:died|exited) unexpectedly.*?)(?:, shutting down.*)?$"
)
"""An exception's last line, argparse's, the line of a pydantic report that says something, a lost process."""

PREFIX = re.compile(r"^\((\w+) pid=\d+\) (?:ERROR|WARNING|INFO|CRITICAL) \S+ \S+ \[[^\]]*\] ?|^\((\w+) pid=\d+\) ?")

NO_CAUSE = (
    "Engine core initialization failed",
    "Failed core proc",
    "EngineDeadError",
    "WorkerProc initialization failed",
    "validation error for",
    "RuntimeError: cancelled",
    "Found ulimit",
)
"""Lines that look like a cause and only say that there is one; the last stands in every start."""


def progress_of(line: str) -> str | None:
    """Return what a line says about the progress of a start; None when it says nothing.

    >>> progress_of("Loading safetensors checkpoint shards:  27% Completed | 3/11 [00:04<00:11,  1.44s/it]")
    'loading weights: 27 %'
    """
    for pattern, text in PATTERNS:
        if found := pattern.search(line):
            return text.format(*found.groups())
    return None


def cause_of(lines: tuple[str, ...]) -> str | None:
    """Return the root cause that the last lines of a failed engine name: the last error before the summary."""
    cause = None
    for line in lines:
        text = PREFIX.sub("", line).strip()
        found = CAUSE.search(text)
        if found and not text.startswith("raise ") and not any(word in text for word in NO_CAUSE):
            cause = (found["error"] or found["value"] or found["death"]).strip()
    return cause
