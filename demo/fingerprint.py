"""Write the text that walks through the demonstration model's vocabulary, for its fingerprint.

    python demo/fingerprint.py demo/model > demo/passages.toml
    vllm-serve checkpoint fingerprint demo/model --passages demo/passages.toml --output demo/fingerprint.json

A damaged row of the embeddings shows only where its token occurs. Some tokens occur in no text: bytes that UTF-8 does
not use, and steps between two merges that always happen together.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerFast

SEED = 5
SEPARATORS = ("", ";", "=", "~", " ")
ROUNDS = 4

SCRIPTS = (*range(0x80, 0x3000, 7), *range(0x3000, 0xD800), *range(0xE000, 0xFFFE, 31), *range(0x10000, 0x110000, 4099))
"""Characters whose bytes are, between them, all that UTF-8 has; of Korean, which the model knows, each one."""


def main() -> int:
    """Run the command line; return the exit status."""
    tokenizer = AutoTokenizer.from_pretrained(Path(sys.argv[1]))
    text = walk(tokenizer)
    sys.stdout.write("# Made by demo/fingerprint.py: every token of the demonstration model that a text can hold.\n")
    sys.stdout.write(f"[[passage]]\ntext = {quoted(text)}\n")
    tokens = tokenizer(text)["input_ids"]
    sys.stderr.write(f"{len(set(tokens))} of {len(tokenizer)} tokens in a text of {len(tokens)}\n")
    return 0


def walk(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return a text, in no order that makes sense, in which every token that can occur does."""
    shortest: dict[int, tuple[int, str]] = {}
    for piece in pieces(tokenizer):
        tokens = tokenizer(piece)["input_ids"]
        for token in tokens:
            if token not in shortest or len(tokens) < shortest[token][0]:
                shortest[token] = len(tokens), piece
    order = sorted(shortest)
    random.Random(SEED).shuffle(order)  # noqa: S311  # the same order each time is what is wanted
    text, seen = "", set[int]()
    for token in order * ROUNDS:
        for separator in SEPARATORS:
            longer = text + separator + shortest[token][1]
            tokens = set(tokenizer(longer)["input_ids"]) if token not in seen else seen
            if token in tokens and seen < tokens:
                text, seen = longer, tokens
                break
    return text


def pieces(tokenizer: PreTrainedTokenizerFast) -> Iterator[str]:
    """Yield short texts, among them at least one with each token that can occur."""
    for token in range(len(tokenizer)):
        piece = tokenizer.decode([token])
        if "\ufffd" not in piece and "\0" not in piece:
            yield from (piece, f"{piece}Q", f"Q{piece}", f"Q{piece}Q")
    for code in SCRIPTS:
        yield from (chr(code), f"Q{chr(code)}", f" {chr(code)}")


def quoted(text: str) -> str:
    r"""Return a text as TOML holds it, in ASCII.

    >>> quoted('a"\x7fé😀')
    '"a\\"\\u007F\\u00E9\\U0001F600"'
    """
    shown = (f"\\{char}" if char in '"\\' else char if " " <= char <= "~" else escaped(char) for char in text)
    return '"' + "".join(shown) + '"'


def escaped(char: str) -> str:
    """Return a character by its number."""
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


if __name__ == "__main__":
    sys.exit(main())
