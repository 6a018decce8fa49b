"""Which characters a model can write, by its tokenizer.json."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""Bytes that byte-level tokens write as the character of the same number; the others follow from U+0100 on, in their
order (GPT-2's bytes_to_unicode)."""

OTHERS = tuple(byte for byte in range(0x100) if byte not in PRINTED)
BYTE_OF = {**{chr(byte): byte for byte in PRINTED}, **{chr(0x100 + place): byte for place, byte in enumerate(OTHERS)}}

BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
"""A byte among tokens of whole words."""

SPACE = "▁"
"""What stands for a space in tokens of whole words."""


def unwritable(tokenizer: Mapping[str, Any], text: str) -> str:
    """Return the characters of a text that no token of a tokenizer can make; empty also where that can't be told."""
    tokens = list(_tokens(tokenizer))
    if not tokens:
        return ""
    letters = set("".join(tokens))
    if _is_byte_level(tokenizer.get("decoder")) or _is_byte_level(tokenizer.get("pre_tokenizer")):
        known = {BYTE_OF[letter] for letter in letters if letter in BYTE_OF}
        missing = [letter for letter in text if not set(letter.encode("utf-8", "replace")) <= known]
    else:
        spelled = {int(byte[1], 16) for token in tokens if (byte := BYTE.fullmatch(token))}
        letters |= {" "} if SPACE in letters or _parts_words(tokenizer) else set()
        missing = [
            letter
            for letter in text
            if letter not in letters and not letter.isspace() and not set(letter.encode("utf-8", "replace")) <= spelled
        ]
    return "".join(dict.fromkeys(missing))


def _tokens(tokenizer: Mapping[str, Any]) -> Iterator[str]:
    model, added = tokenizer.get("model"), tokenizer.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from vocabulary
    elif isinstance(vocabulary, list):
        yield from (str(entry[0]) for entry in vocabulary if isinstance(entry, list) and entry)
    for entry in added if isinstance(added, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str) and not entry.get("special"):
            yield entry["content"]


def _is_byte_level(part: object) -> bool:
    """Tell whether a decoder or a pre-tokenizer, or one of a sequence of them, works on bytes."""
    if not isinstance(part, dict):
        return False
    inner: list[Any] = next(
        (part[name] for name in ("decoders", "pretokenizers") if isinstance(part.get(name), list)), []
    )
    return part.get("type") == "ByteLevel" or any(map(_is_byte_level, inner))


def _parts_words(tokenizer: Mapping[str, Any]) -> bool:
    """Tell whether words are parted before they become tokens, so that spaces come back between them."""
    model = tokenizer.get("model")
    return isinstance(model, dict) and model.get("type") in ("WordPiece", "WordLevel")
