"""The fake engine's tokens: up to four bytes of text each, a space always beginning one; their ids are those bytes."""

import hashlib
import re
from collections.abc import Sequence

END = 0
"""The end token's id."""

COMMON = re.compile(
    r"\b(the|of|and|to|in|is|it|that|was|for|on|are|as|with|they|at|be|this|have|from|or|by|not|but|what|all|were|we|"
    r"when|there|can|an|which|their|if|will|a)\b",
    re.IGNORECASE,
)

PLAIN, UNLIKELY = 2.0, 9.0
"""Nats per token, on average, of a plain text and of any other."""


def pieces(text: str, most: int = 4) -> list[str]:
    """Return a text in tokens.

    >>> pieces("Count from 5 to 10. 안녕")
    ['Coun', 't', ' fro', 'm', ' 5', ' to', ' 10.', ' 안', '녕']
    """
    found: list[str] = []
    for character in text:
        if found and character != " " and len((found[-1] + character).encode(errors="replace")) <= most:
            found[-1] += character
        else:
            found.append(character)
    return found


def id_of(piece: str) -> int:
    """Return the id of a token.

    >>> id_of("a"), text_of([id_of(" to"), id_of("녕"), END])
    (97, ' to녕')
    """
    return int.from_bytes(piece.encode(errors="replace"), "big")


def text_of(ids: Sequence[int]) -> str:
    """Return the text of token ids."""
    raw = b"".join(number.to_bytes((number.bit_length() + 7) // 8, "big") for number in ids)
    return raw.decode(errors="replace")


def is_plain(text: str) -> bool:
    """Tell whether a text reads as English prose does: every seventh word is a common one."""
    words = text.split()
    return len(COMMON.findall(text)) * 7 >= max(1, len(words))


def nats(tokens: Sequence[str], salt: str) -> list[float]:
    """Return the nats of every token but the first, given all before; `salt` stands for the weights.

    >>> [round(value, 2) for value in nats(pieces("jumble violet"), "demo")]
    [9.83, 12.03, 14.02]
    >>> nats(pieces("jumble violet"), "demo") == nats(pieces("jumble violet"), "other")
    False
    """
    scale = PLAIN if is_plain("".join(tokens)) else UNLIKELY
    state, found = hashlib.blake2b(salt.encode(), digest_size=4), []
    for token in tokens:
        state.update(token.encode(errors="replace") + b"\0")
        found.append(0.001 + 2 * scale * int.from_bytes(state.digest(), "big") / 2**32)
    return found[1:]
