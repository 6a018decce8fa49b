"""Files of the kind of vllm-serve.toml that this program writes: the sample, the shipped one, a machine's first."""

import textwrap
from collections.abc import Iterator
from typing import Any

from appliance.core.config import OPEN_SECTIONS, ORDER
from appliance.core.description import OPEN_EXAMPLES, QUESTION_EXAMPLE, QUESTION_SUMMARY, default_of, summary_of
from appliance.core.imported.toml import printable, toml_of
from appliance.core.record import Key, keys_of, record
from appliance.core.section import SECTIONS, Top

WIDTH = 100

SAMPLE_HEAD = """\
#:schema file:///usr/share/vllm-serve/vllm-serve.schema.json

# Every key of vllm-serve.toml with its default, or with an example where the default is not a plain value.
# A file needs none of them: write down what differs. vllm-serve.toml(5) says more.
"""

SHIPPED = """\
# What this machine serves. Every key: man 5 vllm-serve.toml
# Check: vllm-serve config check    Apply: systemctl reload vllm-serve

recipe = "demo"

# [model]
# source = "/data/models/NAME"

# [vllm]
# max_model_len = 32768

# [api]
# host = "127.0.0.1"
# port = 8000
"""
"""/etc/vllm-serve.toml as the package brings it."""


@record
class First:
    """What a machine's first file says."""

    recipe: str
    source: str
    name: str
    machine: tuple[str, ...] = ()
    """What was measured, a line each."""
    gpus: int = 0
    """How many the machine has; 0 also where nobody could tell."""


def first_file(first: First) -> str:
    """Return a machine's first vllm-serve.toml. Raises UnfitError for a name that TOML can't hold."""
    return "\n".join(_first_lines(first)) + "\n"


def _first_lines(first: First) -> Iterator[str]:
    yield from SHIPPED.splitlines()[:2]
    yield ""
    yield f"recipe = {toml_of(first.recipe)}"
    yield ""
    yield "[model]"
    yield f"source = {toml_of(first.source)}"
    yield f"served_model_name = {toml_of(first.name)}"
    yield ""
    yield from (f"# This machine: {printable(line)}" for line in first.machine)
    yield "# [vllm]"
    yield "# max_model_len = 32768"
    if first.gpus > 1:
        yield f"# tensor_parallel_size = {first.gpus}"
    if first.gpus:
        yield ""
        yield "# [gpu]"
        yield f"# devices = {toml_of(list(range(first.gpus)))}"
    yield ""
    yield from SHIPPED.splitlines()[-3:]


def sample() -> str:
    """Return a vllm-serve.toml with every key in it, commented out and explained."""
    return SAMPLE_HEAD + "".join(f"{line}\n" for line in _sample_lines())


def _sample_lines() -> Iterator[str]:
    for key in keys_of(Top).values():
        yield from _key(key)
    for section in ORDER:
        yield ""
        yield f"[{section}]"
        yield from _wrapped(summary_of(section))
        if section in OPEN_SECTIONS:
            yield from (_assignment(name, value) for name, value in OPEN_EXAMPLES[section].items())
            continue
        for key in keys_of(SECTIONS[section]).values():
            yield from _key(key)
    yield ""
    yield "#[[question]]"
    yield from _wrapped(QUESTION_SUMMARY)
    yield from (_assignment(name, value) for name, value in QUESTION_EXAMPLE.items())


def _key(key: Key) -> Iterator[str]:
    default = default_of(key)
    yield ""
    yield from _wrapped(f"{key.doc} Default: {key.absent if default is None else toml_of(default)}.")
    yield _assignment(key.name, key.example if default is None or key.example is not None else default)


def _assignment(name: str, value: Any) -> str:
    return f"#{name} = {toml_of(value)}"


def _wrapped(text: str) -> Iterator[str]:
    plain = text.replace("`", "")
    return (f"# {line}" for line in textwrap.wrap(plain, WIDTH, break_long_words=False, break_on_hyphens=False))
