"""Token logprobs in the shapes of vLLM's replies, with the faults that are about them."""

import math
from collections.abc import Sequence
from typing import Any

from tests.fakes.knob import faults, number
from tests.fakes.piece import id_of
from tests.fakes.prompt import Prompt

ALTERNATIVES = ("e", " the", "\n", " a", ".", " of", "s", " to")


def logprobs_of(prompt: Prompt) -> list[float | None]:
    """Return the logprob of every token but the first, as the server tells them."""
    found, values = faults(), list(prompt.logprobs)
    if "unlikely" in found:
        values = [3 * value for value in values]
    if "shifted" in found:
        values = [_shifted(value, place) for place, value in enumerate(values)]
    if "nan" in found:
        return [math.nan] * len(values)
    return [None] * len(values) if "null" in found else list(values)


def _shifted(value: float, place: int) -> float:
    """Change a logprob by a half or by one and a half times FAKE_SHIFT: on average by FAKE_SHIFT."""
    change = number("SHIFT", 0.5) * (0.5 if place % 2 else 1.5)
    return value + change if place % 4 < 2 and value + change < 0 else value - change


def rank_of(value: float | None) -> int:
    return 1 if value is None or math.isnan(value) or value > -1 else 1 + int(-7 * value)


def prompt_logprobs(prompt: Prompt, most: int) -> list[dict[str, Any] | None]:
    """Return what `prompt_logprobs` asks for: each token's own logprob, and those of the `most` likeliest."""
    found: list[dict[str, Any] | None] = [None]
    for token, identity, value in zip(prompt.tokens[1:], prompt.ids[1:], logprobs_of(prompt), strict=True):
        entry = {str(identity): {"logprob": value, "rank": rank_of(value), "decoded_token": token}}
        for place, (other, chance) in enumerate(_likeliest(most, token)):
            rank = place + 1 + (rank_of(value) == 1)
            entry.setdefault(str(id_of(other)), {"logprob": chance, "rank": rank, "decoded_token": other})
        found.append(entry)
    return found


def chat_logprobs(tokens: Sequence[str], most: int) -> dict[str, Any]:
    """Return the logprobs of generated tokens as a chat completion has them."""
    content = []
    for token, value in zip(tokens, _generated(len(tokens)), strict=True):
        top = [(token, value), *_likeliest(most - 1, token)] if most else []
        content.append({**_spelled(token, value), "top_logprobs": [_spelled(*pair) for pair in top]})
    return {"content": content}


def completion_logprobs(prompt: Prompt | None, tokens: Sequence[str], most: int) -> dict[str, Any]:
    """Return logprobs as a completion has them, after those of the prompt where it is echoed."""
    values = [*([None, *logprobs_of(prompt)] if prompt else []), *_generated(len(tokens))]
    every = [*(prompt.tokens if prompt else ()), *tokens]
    offsets = [sum(len(token) for token in every[:place]) for place in range(len(every))]
    tops = [
        None if prompt and not place else {token: value, **dict(_likeliest(most, token))}
        for place, (token, value) in enumerate(zip(every, values, strict=True))
    ]
    return {"text_offset": offsets, "token_logprobs": values, "tokens": every, "top_logprobs": tops}


def _generated(count: int) -> list[float | None]:
    """Return logprobs of tokens that a greedy model chose."""
    found = faults()
    value = math.nan if "nan" in found else None if "null" in found else -0.01
    return [value] * count


def _spelled(token: str, value: float | None) -> dict[str, Any]:
    return {"token": token, "logprob": value, "bytes": list(token.encode(errors="replace"))}


def _likeliest(count: int, but: str) -> list[tuple[str, float]]:
    return [(token, -5.0 - place) for place, token in enumerate(other for other in ALTERNATIVES if other != but)][
        : max(0, count)
    ]
