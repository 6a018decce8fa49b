"""The knobs of the fake engine: variables of the environment, FAKE_*, and a file that turns answers while it runs."""

import os
from pathlib import Path


def knob(name: str, default: str = "") -> str:
    """Return FAKE_NAME."""
    return os.environ.get(f"FAKE_{name}", default)


def number(name: str, default: float = 0.0) -> float:
    """Return FAKE_NAME as a number."""
    return float(knob(name) or default)


def numbers(name: str) -> tuple[float, ...]:
    """Return the numbers of FAKE_NAME, which commas part."""
    return tuple(float(part) for part in knob(name).split(",") if part)


def faults() -> frozenset[str]:
    """Return the names of the faults in force: what the file holds, where it exists, else FAKE_ANSWERS."""
    try:
        said = Path(knob("ANSWERS_FILE", "/nonexistent")).read_text()
    except OSError:
        said = knob("ANSWERS", "right")
    found = frozenset(name.strip() for name in said.split(",") if name.strip())
    assert found <= KNOWN, f"FAKE_ANSWERS: no such fault: {sorted(found - KNOWN)}"
    return found - {"right"}


TEXT = {
    "wrong": "the answer backwards; of embeddings and scores the opposite",
    "dated": "the chat template writes the date before the first message",
    "empty": "no text; an embedding of zeros",
    "repeat": "always the previous request's answer",
    "other": "another model's answers and logprobs",
    "corrupt": "every fifth request that runs while others run gets the answer of one of them",
    "degenerate": "the the the, until max_tokens",
    "runon": "the right answer, and on until max_tokens",
    "special": "the right answer, and a special token as text",
    "mojibake": "UTF-8 read as cp1252",
    "replacement": "U+FFFD in place of a character that is not ASCII",
    "stream": "the streamed text lacks a token",
    "tools": "arguments that are not JSON",
    "tools-value": "arguments with another value than asked for",
    "tools-text": "the call stays in the text",
    "schema": "JSON that does not fit the schema",
    "schema-text": "prose in place of JSON",
}
"""Faults of what is said."""

LOGPROBS = {
    "nan": "NaN, literally",
    "null": "null in place of a logprob",
    "refused-nan": "HTTP 400: what vLLM 0.32 makes of NaN, which its JSON can't hold",
    "shifted": "changed by FAKE_SHIFT nats on average",
    "unlikely": "three times as many nats",
    "tokenizer": "other token ids for the same text",
}
"""Faults of the logprobs."""

TRANSPORT = {
    "refuse": "HTTP 400",
    "error": "HTTP 500",
    "busy": "503 and 429 for the first FAKE_BUSY requests",
    "slow": "FAKE_SLOW seconds before each answer",
    "hang": "no answer: requests run, nothing moves, and nothing computes",
    "drop": "the connection is closed half-way",
    "truncated-stream": "a stream ends half-way, without [DONE]",
    "lost": "the engine is lost half-way: an error event in the stream, HTTP 500 elsewhere",
    "abort": "a stream ends half-way with finish_reason abort",
    "names": "serves other names",
    "html": "a proxy's page",
    "redirect": "a proxy's redirection to its page",
    "large": "an endless body",
    "latin": "bytes that are not UTF-8",
}
"""Faults of the server, or of what stands before it."""

PACE = {
    "grind": "the first step of each request computes for FAKE_GRIND seconds, and holds up all others",
    "scrape": "/metrics is answered after FAKE_SCRAPE seconds",
}
"""Faults of the engine's pace."""

KNOWN = frozenset({"right", *TEXT, *LOGPROBS, *TRANSPORT, *PACE})
