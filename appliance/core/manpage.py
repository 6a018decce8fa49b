"""The part of the manual page vllm-serve.toml(5) that the description of the keys says already."""

import textwrap
from collections.abc import Iterator

from appliance.core.config import OPEN_SECTIONS, ORDER
from appliance.core.description import QUESTION_SUMMARY, about_judge, default_of, summary_of
from appliance.core.imported.toml import toml_of
from appliance.core.judge import JUDGES
from appliance.core.question import Common
from appliance.core.record import Key, keys_of
from appliance.core.section import SECTIONS, Top

START = "[//]: # (generated from appliance/core/config.py: make generated)"
END = "[//]: # (end of the generated part)"
"""Markdown's way to write a comment that the page does not show."""

WIDTH = 118


def with_keys(page: str) -> str:
    """Return a page with the part between the marks made anew. Raises ValueError where a mark is missing."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError("the page lacks the marks of its generated part")
    return f"{before}{START}\n\n{keys_text()}\n{END}{after}"


def keys_text() -> str:
    """Return every section and key with its meaning, as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# TOP LEVEL"
    yield ""
    yield from _keys(Top)
    for section in ORDER:
        yield f"# [{section}]"
        yield ""
        yield from textwrap.wrap(summary_of(section), WIDTH, break_on_hyphens=False)
        yield ""
        if section not in OPEN_SECTIONS:
            yield from _keys(SECTIONS[section])
    yield "# [[question]]"
    yield ""
    yield from textwrap.wrap(QUESTION_SUMMARY, WIDTH, break_on_hyphens=False)
    yield ""
    yield from _keys(Common)
    yield "**judge** = *string*"
    yield ": Who judges the answer:"
    yield ""
    for name, cls in JUDGES.items():
        yield f"## judge = {name}"
        yield ""
        yield from textwrap.wrap(about_judge(cls), WIDTH, break_on_hyphens=False)
        yield ""
        yield from _keys(cls)


def _keys(cls: type) -> Iterator[str]:
    for key in keys_of(cls).values():
        yield f"**{key.name}** = *{key.kind.name}*"
        text = f"{key.doc} {_default(key)}"
        first, *others = textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
        yield f": {first}"
        yield from (f"  {line}" for line in others)
        yield ""


def _default(key: Key) -> str:
    if key.required:
        return "Must be there."
    default = default_of(key)
    return f"Default: {key.absent if default is None else f'*{toml_of(default)}*'}."
