"""The judge of long texts: a word hidden in one."""

from appliance.core.judge import Asked, Needle
from appliance.selftest.answer import MINUS, cut_off
from appliance.selftest.talk import Talk
from appliance.selftest.verdict import Judgement, right, wrong

WORD = "marzipan-47"

TOKENS = 12
"""Tokens of one of the sentences below, about, in the tokenizers of today's models; small ones need more."""


def haystack(tokens: int, depth: float) -> str:
    """Return a text of about so many tokens with the word at a depth from 0 to 1; no sentence comes twice."""
    count = max(4, tokens // TOKENS)
    hidden = min(count - 1, max(0, int(depth * count)))
    sentences = [
        f"Box {number} holds {(number * 7919) % 1000} buttons and {(number * 104729) % 97} threads."
        for number in range(count)
    ]
    sentences.insert(hidden, f"The secret word is {WORD}.")
    return " ".join(sentences)


async def needle(judge: Needle, talk: Talk) -> Judgement:
    """Ask for the word."""
    room = max(64, talk.longest - talk.at_most(judge.max_tokens) - 64) if talk.longest else judge.tokens
    # The sentences are twice as long in tokens for a tokenizer of bytes or of few words.
    tokens = min(judge.tokens, room // 2)
    ask = f"{haystack(tokens, judge.depth)}\n\nWhat is the secret word in the text above? Answer with the word only."
    answer = await talk.said(Asked(ask=ask, max_tokens=judge.max_tokens, thinking=judge.thinking))
    if cut := cut_off(answer, judge.max_tokens):
        return cut
    found = WORD in answer.text.translate(MINUS).casefold()
    return right(answer.text, WORD) if found else wrong(answer.text, WORD)
