"""The fingerprint of a model: the logprobs of fixed, unlikely texts, and how far two of them lie apart."""

import math
from collections.abc import Iterator, Sequence

from appliance.core.document import Reader, document_of
from appliance.core.kind import FLAG, TEXT
from appliance.core.problem import RefusedError
from appliance.core.record import key, record


@record
class Prompt:
    """One text to ask about, and one [[passage]] of a file."""

    text: str = key("The text.", TEXT)
    chat: bool = key("Whether it is the message of a user, rendered with the chat template.", FLAG, default=False)
    system: str = key("A system line before the message.", TEXT, default="")


PASSAGES: tuple[Prompt, ...] = (
    Prompt(
        text=(
            "velvet 나무 twelve Umbrella fox;bridge 하늘 gre7 the the Oslo, tanquil 서른 mixer! lantern "
            "zigzag 바다 of of Pear quartz, 물고기 nineteen-ish Bonjour hammer sky sky 라디오 eleven Kiwi? "
            "under 감자 the capital of spoon is seventeen; Count from 62 to 9 blue clear 안개 help lampe "
            "Zürich jamais of 고양이 mop -- What is 58 + 91? Who are day you Hello honest brief 소금 one "
            "the Tokyo Paris wrong 다리 answer assistant; carpet 12 31 47 5 5 86 20 to Say drum harmless "
            "ow"
        ),
    ),
    Prompt(
        text=(
            "\tif (qx[0x7F] != ~42) {\r\n  jam += 3.14159e-08 * %d;\u00a0}  // ^^ <zz/>\n\n\n#include "
            "\"mop.h\" && SELECT 'it''s', $9,876,543.21 @foo_Bar | 0b1011 -> [[;;]] \\n \\\\srv\\C$ {{k}}: "
            "\u2009`ls -la`\u3000?!... §12 ±7° 80% 1/0 = =8 192.0.2.61:8080/~a?b=%20#c  GGTTACCA 7x7=50 "
            "99 98 97 101 3,3,3,1 <|x|> AbCdEFGhIJKLMnOPQRSTUVWXYZ zyxwvutsrqponm"
        ),
    ),
    Prompt(
        text=(
            "Лампа съела девять облаков, ёж; القمر يأكل سبعة أحذية 紫色の电梯在唱歌龍骨車 ผัก ७२ ארנב "
            "Ψυχή ಠ_ಠ 🦆🔧🇮🇸👩\u200d🚀 쀍뷁 젓가락이 웃는다 éàüßøåñ½ ﬁ ℵ → ∮ 豈 Ўзбек 三十九頁"
        ),
    ),
    Prompt(
        text=(
            "Umbrella twelve: 고래 under 5 spoons? Reply to Zebra 81 - 17, not of the sky; vier Ωmega "
            '[lantern] "ok" 하나 둘 아홉.'
        ),
        chat=True,
    ),
    Prompt(
        text="Zebra: 9 lanterns of 바다, then? No; mixer under Pear 4 + 60.",
        chat=True,
        system='Spoons are quiet 하늘; answer only hammers, "velvet" [17], Bonjour.',
    ),
)
"""Texts that no model expects: words of several scripts out of any order, what code and
tables are made of, rare scripts. A likely text hides a damage: a model that is sure of it stays so for long."""

FORMAT = 1


@record
class Passage:
    """One text and what a model makes of it."""

    text: str
    chat: bool
    """True: the text is one user message, rendered with the chat template and the prompt for an answer."""
    system: str = ""
    """The system line before the message; none where it is empty."""
    ids: tuple[int, ...]
    """The tokens of the whole prompt."""
    logprobs: tuple[float, ...]
    """Of each token but the first, given all before it, in nats."""

    @property
    def prompt(self) -> Prompt:
        """What was asked for."""
        return Prompt(text=self.text, chat=self.chat, system=self.system)


@record
class Reference:
    """What a sound model makes of the passages. Raises ValueError for what no program of ours wrote."""

    format: int = FORMAT
    model: str
    made_by: str
    """The program and the precision that computed it."""
    passages: tuple[Passage, ...]

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem:
            raise ValueError(problem)


def _problems(reference: Reference) -> Iterator[str]:
    """Yield what makes a reference none."""
    if reference.format != FORMAT:
        yield f"format {reference.format}, this version reads {FORMAT}"
    if not reference.passages:
        yield "no passage in it"
    for number, passage in enumerate(reference.passages, 1):
        if len(passage.ids) < 2 or len(passage.logprobs) != len(passage.ids) - 1:
            yield f"passage {number} has {len(passage.ids)} tokens and {len(passage.logprobs)} logprobs"
        if not all(map(math.isfinite, passage.logprobs)):
            yield f"passage {number} has a logprob that is no number"


@record
class Change:
    """How far the logprobs of a model lie from those of its reference."""

    mean: float
    """Nats a token, of the passage that changed most; infinite where a found logprob is no number."""
    largest: float
    tokens: int
    """How many were compared."""
    place: str
    """Where the change is largest, for a person."""


def passages_of(text: str, file: str) -> tuple[Prompt, ...]:
    r"""Read texts to ask about from TOML. Raises RefusedError with every problem.

    >>> passages_of("[[passage]]\ntext = 'mop lantern'", "my.toml")
    (Prompt(text='mop lantern', chat=False, system=''),)
    """
    reader = Reader(document_of(text, file))
    reader.unknown((), reader.document.table, ("passage",))
    tables = reader.document.table.get("passage")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        reader.refuse(("passage",), "wants tables", "write [[passage]] on a line of its own, and below it text = ")
        tables = []
    read = [reader.record(Prompt, ("passage", str(number)), table) for number, table in enumerate(tables)]
    for number, prompt in enumerate(read):
        if prompt and prompt.system and not prompt.chat:
            reader.refuse(("passage", str(number), "system"), "wants chat = true", "only a chat has a system line")
    if reader.problems:
        raise RefusedError(reader.problems)
    return tuple(filter(None, read))


class UnlikeError(ValueError):
    """The tokens of a passage are not those of the reference, so that the logprobs can't be compared."""


def change_of(reference: Reference, found: Sequence[Passage]) -> Change:
    """Return how far the found logprobs lie from a reference.

    Raises UnlikeError where the found tokens are others: another tokenizer or another chat template.
    """
    if len(found) != len(reference.passages):
        raise UnlikeError(f"{len(found)} passages found, the reference has {len(reference.passages)}")
    means, largest, tokens, place = [], -1.0, 0, ""
    for number, (expected, passage) in enumerate(zip(reference.passages, found, strict=True), 1):
        _refuse_other_tokens(number, expected, passage)
        changes = [
            abs(now - before) if math.isfinite(now) else math.inf
            for before, now in zip(expected.logprobs, passage.logprobs, strict=True)
        ]
        means.append(math.fsum(changes) / len(changes))
        tokens += len(changes)
        if max(changes) > largest:
            largest = max(changes)
            place = _place(number, changes.index(largest), expected, passage)
    return Change(mean=max(means), largest=largest, tokens=tokens, place=place)


def _place(number: int, index: int, expected: Passage, found: Passage) -> str:
    token = f"token {index + 1} of passage {number} (id {found.ids[index + 1]})"
    return f"{token}: {expected.logprobs[index]:.2f} expected, {found.logprobs[index]:.2f} found"


def _refuse_other_tokens(number: int, expected: Passage, found: Passage) -> None:
    """Raise UnlikeError when two passages are not made of the same tokens."""
    for position, (before, now) in enumerate(zip(expected.ids, found.ids, strict=False)):
        if before != now:
            raise UnlikeError(f"token {position} of passage {number} has id {now}, the reference has {before}")
    if len(found.ids) != len(expected.ids):
        raise UnlikeError(f"passage {number} has {len(found.ids)} tokens, the reference has {len(expected.ids)}")
    if len(found.logprobs) != len(expected.logprobs):
        raise UnlikeError(f"passage {number} has {len(found.logprobs)} logprobs, {len(expected.logprobs)} needed")
