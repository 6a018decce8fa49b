"""The judge of long texts: a word hidden in one."""

from appliance.core.judge import Asked, Needle
from appliance.selftest.answer import MINUS, cut_off
from appliance.selftest.talk import Talk
from appliance.selftest.verdict import Judgement, right, unknown, wrong

WORD = "marzipan-47"

FILLED = 0.98
"""Of the length that was asked for: sentences with larger numbers have more tokens."""

NEAR = 0.8
"""Of the length that was asked for, from which on it counts as that length."""

FRAME = 64
"""Tokens of the question and of the chat template, about."""

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
    room = talk.longest - talk.at_most(judge.max_tokens) - FRAME if talk.longest else judge.tokens
    if room < FRAME:
        return unknown(f"no room for a text: the server takes requests of {talk.longest} tokens")
    wanted = min(judge.tokens, room)
    # A tokenizer of bytes, or of few words, makes twice as many tokens of a sentence.
    text, length = haystack(wanted // 2, judge.depth), None
    if half := await talk.tokens_of(text):
        text = haystack(int(wanted // 2 * wanted / half * FILLED), judge.depth)
        length = await talk.tokens_of(text)
    ask = f"{text}\n\nWhat is the secret word in the text above? Answer with the word only."
    answer = await talk.said(Asked(ask=ask, max_tokens=judge.max_tokens, thinking=judge.thinking))
    if cut := cut_off(answer, judge.max_tokens, talk):
        return cut
    said = f"{answer.text} (in {length or 'an unknown number of'} tokens)"
    if WORD not in answer.text.translate(MINUS).casefold():
        return wrong(said, WORD)
    if length and length < judge.tokens * NEAR:
        return unknown(f"found in {length} tokens of {judge.tokens}: the server takes requests of {talk.longest}")
    return right(said, WORD)
