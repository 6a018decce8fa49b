"""Arguments that a script appends to `vllm serve`: into extra_args, save those that other keys own."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from appliance.core.config import RESERVED_FLAGS, reserved_flag
from appliance.core.envfile import PIECE, Assignment, unquoted
from appliance.core.imported.draft import ClientKey, Draft
from appliance.core.imported.reading import Reading, address, names, port
from appliance.core.imported.rule import OWN_VALUE
from appliance.core.kind import UnfitError

SEEN = "WARNING: every user of this machine can read the API key in the command line of the engine"

FLAG = re.compile(r"-(?![\d.])")
SPECULATION = re.compile(r"--specu.*|--spec-(method|model|tokens).*|-sc(=.*)?", re.DOTALL)
"""Arguments that say how to speculate, with the abbreviations that vLLM takes."""

OWNED: dict[str, tuple[tuple[str, str], Reading]] = {
    "host": (("api", "host"), address),
    "port": (("api", "port"), port),
    "served_model_name": (("model", "served_model_name"), names),
}
"""Flags that have a key of their own; the last one counts, as for vLLM."""


def arguments_given(words: list[str]) -> Assignment:
    """Return where the arguments of the command itself come from."""
    return Assignment(name="arguments", value=" ".join(words), file="command line", line=None)


def take_arguments(draft: Draft, words: list[str], given: Assignment) -> None:
    """Write what a script hands to vLLM after its own arguments."""
    kept: list[str] = []
    for group in _groups(words):
        part = replace(given, name=f"{given.name} {group[0].partition('=')[0]}")
        reserved = reserved_flag(group[0].removeprefix("--")) if group[0].startswith("--") else None
        if reserved is None:
            kept += group
        elif reserved in OWNED:
            _own(draft, reserved, group, part)
        elif reserved == "api_key":
            draft.key = ClientKey.KEPT
            kept += group
        else:
            draft.refuse(part, f"vllm-serve sets --{reserved} itself", RESERVED_FLAGS[reserved])
    if not all(word.strip() for word in kept):
        draft.refuse(given, "found an empty argument", "remove it, or write --flag= for a flag with an empty value")
    elif kept:
        draft.put(("engine", "extra_args"), kept, given, *([SEEN] if draft.key is ClientKey.KEPT else []))


def _groups(words: list[str]) -> Iterator[list[str]]:
    """Yield each flag with the words after it, which may be its values."""
    group: list[str] = []
    for word in words:
        if group and FLAG.match(word):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _own(draft: Draft, flag: str, group: list[str], given: Assignment) -> None:
    key, read = OWNED[flag]
    _, attached, value = group[0].partition("=")
    try:
        draft.put(key, read(" ".join([value, *group[1:]] if attached else group[1:])), given)
    except UnfitError as error:
        draft.refuse(given, str(error), OWN_VALUE)


def names_speculation(word: str) -> bool:
    """Tell whether an argument says how to speculate.

    >>> names_speculation("--speculative_config.method=mtp"), names_speculation("--seed")
    (True, False)
    """
    return bool(SPECULATION.fullmatch(word.replace("_", "-")))


def words_of(text: str) -> list[str]:
    r"""Split arguments as a shell does; JSON that stands bare stays whole, with its quotes.

    Raises UnfitError for a quote that nothing closes.

    >>> words_of("--seed 3 --a '{\"b\": 1}' --c {\"d\": [1, 2]} --e={\"f\": 0}")
    ['--seed', '3', '--a', '{"b": 1}', '--c', '{"d": [1, 2]}', '--e={"f": 0}']
    """
    words, end = [], 0
    while start := re.compile(r"\S").search(text, end):
        word, end = _word(text, start.start())
        words.append(word)
    return words


def _word(text: str, start: int) -> tuple[str, int]:
    """Return the word at a place, and where it ends."""
    parts, end = [], start
    while end < len(text) and not text[end].isspace():
        bare = _json_end(text, end) if end == start or text[end - 1] == "=" else None
        piece = PIECE.match(text, end)
        if bare is not None:
            parts.append(text[end:bare])
            end = bare
        elif piece is not None:
            parts.append(unquoted(piece)[0])
            end = piece.end()
        else:
            raise UnfitError(f"nothing follows or closes the {text[end]} at character {end + 1}")
    return "".join(parts), end


def _json_end(text: str, start: int) -> int | None:
    """Return where a JSON object or list ends that is all of the rest of a word; None where there is none."""
    if text[start] not in "{[":
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return end if end == len(text) or text[end].isspace() else None
