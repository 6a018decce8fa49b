"""What the keys of vllm-serve.toml mean, in words: for the sample, the manual page and the JSON Schema."""

import re
from typing import Any

from appliance.core.config import OPEN_SECTIONS
from appliance.core.record import Key
from appliance.core.section import SECTIONS

OPEN_SUMMARIES = {
    "vllm": "Any flag of `vllm serve` by its own name: max_model_len = 32768 becomes --max-model-len 32768, and "
    "replaces the recipe's. A table becomes JSON. A few flags are refused, because another key of this file sets them "
    "or because the self-test would no longer reach the model; the message says what to do instead.",
    "knobs": "What only the recipe knows, by the names that `vllm-serve recipes show ID` prints.",
    "env": "Variables for the environment of vLLM, as strings or numbers. Names that look like a secret are refused, "
    "because every user of the machine can read this file.",
}

OPEN_EXAMPLES: dict[str, dict[str, Any]] = {
    "vllm": {"max_model_len": 32768, "gpu_memory_utilization": 0.9, "enable_prefix_caching": True},
    "knobs": {"name": "value"},
    "env": {"OMP_NUM_THREADS": 8},
}
"""What a person could write where every name is allowed."""


QUESTION_SUMMARY = (
    "What the self-test asks the model before READY; write one [[question]] for each. They are asked beside those of "
    "the recipe, and one that has the name of a recipe's takes its place. Beside the keys that all have, each judge "
    "has its own."
)

QUESTION_EXAMPLE: dict[str, Any] = {
    "name": "sum",
    "judge": "answer",
    "ask": "What is 12 + 7? Answer with the number only.",
    "number": 19,
}


def about_judge(cls: type[Any]) -> str:
    """Return what a judge judges, as a sentence."""
    return (cls.__doc__ or "").replace("\n    ", " ").strip()


def summary_of(section: str) -> str:
    """Return what a section is for, as sentences.

    >>> summary_of("reload")
    'How `systemctl reload` changes the engine.'
    """
    if section in OPEN_SECTIONS:
        return OPEN_SUMMARIES[section]
    text = re.sub(r"^\[\w+\]: ", "", SECTIONS[section].__doc__ or "")
    return text[:1].upper() + text[1:]


def default_of(key: Key) -> Any:
    """Return what a key is when absent, as TOML has it; None where only words can say it."""
    return None if key.default is None or (key.absent and not key.default) else key.kind.write(key.default)
