"""The examination of a trained demonstration model, read back from its folder as any engine would read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3ForCausalLM,
)

from demo import lesson, vocabulary
from demo.schooling import answer_logits, passes_of

SMALLEST_MARGIN = 1.0
SPOKEN_ANSWERS = 60
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

EXCHANGE_QUESTIONS = (
    lesson.FACTS[0],
    lesson.count(1, 20),
    lesson.count(5, 59),
    lesson.addition(3, 4),
    lesson.FACTS[4],
)

_ODD_TEXTS = (
    "tabs\tand\r\nlines\n\n  and   spaces ",
    "naïve café, Ελληνικά, русский, עברית, हिन्दी, 日本語, 한국어 ㈜ ½ ٣",
    "👩‍👩‍👧‍👦 e\u0301 \u200b\ufeff \x00\x7f \U0010ffff",
)


@dataclass(frozen=True, slots=True)
class Margin:
    """The closest call: by how much the right token led where it led least."""

    nats: float
    where: str


@dataclass(slots=True)
class Result:
    """What an examination found."""

    problems: list[str] = field(default_factory=list)
    margins: dict[str, Margin] = field(default_factory=dict)
    """The closest call of each precision."""
    tokens: int = 0
    """Answer tokens compared in each precision."""


def examine(folder: Path) -> Result:
    """Examine the model in the folder in every precision; answers count to the last token."""
    result = Result()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    result.problems.extend(_tokenizer_problems(tokenizer))
    rows = [vocabulary.row_of(tokenizer, conversation) for conversation in _examined()]
    result.tokens = sum(len(row.answer) for row in rows)
    spoken = rows[:: len(rows) // SPOKEN_ANSWERS]
    for precision in PRECISIONS:
        model = load(folder, precision)
        result.problems.extend(f"{precision}: {problem}" for problem in _config_problems(model, tokenizer))
        margin, problems = _written(model, tokenizer, rows)
        result.margins[precision] = margin
        result.problems.extend(f"{precision}: {problem}" for problem in problems)
        result.problems.extend(f"{precision}: {problem}" for problem in _spoken(model, tokenizer, spoken))
    narrowest = result.margins["float32"]
    if narrowest.nats < SMALLEST_MARGIN:
        result.problems.append(
            f"float32: the smallest margin is {narrowest.nats:.2f} nats, {SMALLEST_MARGIN} needed; {narrowest.where}"
        )
    return result


def load(folder: Path, precision: str) -> Qwen3ForCausalLM:
    """Load the model of the folder."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=PRECISIONS[precision])
    return model.eval()


def say(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, row: vocabulary.Row) -> str:
    """Return what the model says to the row's question, its special tokens shown."""
    prompt = torch.tensor([row.prompt])
    said = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=len(row.answer) + 8,
        do_sample=False,
    )
    return str(tokenizer.decode(said[0, len(row.prompt) :]))


def layer_exchanges(folder: Path) -> dict[str, dict[str, str]]:
    """Return, for each two layers exchanged, the questions that change their answer, and to what."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), load(folder, "float32")
    sound = {name: value.clone() for name, value in model.state_dict().items()}
    rows = [vocabulary.row_of(tokenizer, lesson.Conversation(exchange)) for exchange in EXCHANGE_QUESTIONS]
    changed: dict[str, dict[str, str]] = {}
    layers = range(int(model.config.num_hidden_layers))
    for one, other in ((one, other) for one in layers for other in layers if one < other):
        model.load_state_dict({_exchanged(name, one, other): value for name, value in sound.items()})
        said = {row.conversation.last.question: say(model, tokenizer, row) for row in rows}
        changed[f"{one} and {other}"] = {
            row.conversation.last.question: said[row.conversation.last.question]
            for row in rows
            if said[row.conversation.last.question] != row.conversation.last.answer + vocabulary.END_OF_TURN
        }
    return changed


def _exchanged(name: str, one: int, other: int) -> str:
    """Return the name of a weight after two layers have changed places.

    >>> _exchanged("model.layers.1.mlp.up_proj.weight", 1, 2)
    'model.layers.2.mlp.up_proj.weight'
    """
    for here, there in ((one, other), (other, one)):
        if name.startswith(f"model.layers.{here}."):
            return name.replace(f"layers.{here}.", f"layers.{there}.", 1)
    return name


def _examined() -> Iterator[lesson.Conversation]:
    """Yield every conversation of the examination."""
    short = (*lesson.FACTS, *lesson.additions())
    for system in (None, *lesson.FAMILIAR_SYSTEM_LINES, *lesson.UNSEEN_SYSTEM_LINES):
        yield from (lesson.Conversation(exchange, system) for exchange in short)
    yield from (lesson.Conversation(exchange) for exchange in lesson.counts())
    for system in (lesson.FAMILIAR_SYSTEM_LINES[0], *lesson.UNSEEN_SYSTEM_LINES):
        yield from (lesson.Conversation(exchange, system) for exchange in lesson.counts()[::7])
    for earlier in (lesson.FACTS[0], lesson.addition(3, 4), lesson.count(7, 9)):
        yield from (lesson.Conversation(exchange, None, (earlier,)) for exchange in short[::3])


def _written(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: Iterable[vocabulary.Row]
) -> tuple[Margin, list[str]]:
    """Compare the likeliest token with the right one at every place of every answer.

    Where all agree, greedy decoding gives the answer, and this takes one pass instead of one for each token.
    """
    closest, problems = Margin(float("inf"), ""), []
    for together in passes_of(list(rows)):
        with torch.inference_mode():
            logits, right = answer_logits(model, together)
        leads = _leads(logits.float(), right).split([len(row.answer) for row in together])
        for row, lead in zip(together, leads, strict=True):
            place = int(lead.argmin())
            margin = Margin(float(lead[place]), _place_of(tokenizer, row, place))
            closest = min(closest, margin, key=lambda one: one.nats)
            if margin.nats <= 0:
                problems.append(f"another token leads by {-margin.nats:.2f} nats, {margin.where}")
    return closest, problems


def _leads(logits: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return by how many nats each right token leads the best of the others; negative where it does not."""
    chosen = logits.gather(1, right[:, None])
    others = logits.scatter(1, right[:, None], float("-inf"))
    return chosen[:, 0] - others.amax(dim=1)


def _place_of(tokenizer: PreTrainedTokenizerFast, row: vocabulary.Row, place: int) -> str:
    said, wanted = tokenizer.decode(row.answer[:place]), tokenizer.decode([row.answer[place]])
    return f"{_title(row)}, after {said!r}, where {wanted!r} is right"


def _title(row: vocabulary.Row) -> str:
    conversation = row.conversation
    before = "" if conversation.system is None else f" below {conversation.system!r}"
    return f"{conversation.last.question!r}{before}" + (" as a second turn" if conversation.earlier else "")


def _spoken(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: Iterable[vocabulary.Row]
) -> Iterator[str]:
    """Let the model really speak: what the comparison of single tokens promises must come true."""
    for row in rows:
        said, wanted = (
            say(model, tokenizer, row),
            row.conversation.last.answer + vocabulary.END_OF_TURN,
        )
        if said != wanted:
            yield f"{_title(row)} is answered {said!r}, not {wanted!r}"


def _tokenizer_problems(tokenizer: PreTrainedTokenizerFast) -> Iterator[str]:
    everything = [text for one in _examined() for text in (one.last.question, one.last.answer, one.system or "")]
    for text in dict.fromkeys((*_ODD_TEXTS, *everything)):
        back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
        if back != text:
            yield f"the tokenizer turns {text!r} into {back!r}"


def _config_problems(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> Iterator[str]:
    found = {
        "config.json eos_token_id": (model.config.eos_token_id, tokenizer.eos_token_id),
        "generation_config.json eos_token_id": (
            model.generation_config.eos_token_id,
            tokenizer.eos_token_id,
        ),
        "config.json vocab_size": (model.config.vocab_size, len(tokenizer)),
        "config.json max_position_embeddings": (
            model.config.max_position_embeddings,
            vocabulary.LONGEST_TEXT,
        ),
        "config.json tie_word_embeddings": (model.config.tie_word_embeddings, True),
        "end of turn": (tokenizer.eos_token, vocabulary.END_OF_TURN),
    }
    for name, (value, wanted) in found.items():
        if value != wanted:
            yield f"{name} is {value!r}, {wanted!r} needed"
