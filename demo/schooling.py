"""The training of the demonstration model: one thread, one seed, the same weights each time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from demo import lesson, vocabulary
from demo.muon import Muon

MATRIX_LEARNING_RATE = 2e-3
OTHER_LEARNING_RATE = 6e-3
CONVERSATIONS_A_STEP = 32
# What fits the caches of one core: 2,048 tokens at once take a quarter longer for each token.
TOKENS_A_PASS = 1024
STEPS_A_LINE = 100
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Plan:
    """A training to be done."""

    steps: int
    seed: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a training came to."""

    loss: float
    """Nats per answer token, mean of the last steps."""
    seconds: float


class Pupil:
    """A model in training and its optimizers: Muon for the layers' matrices, AdamW for the rest.

    Muon learns where a count ends in about a third of the steps that AdamW takes.
    """

    def __init__(self, model: Qwen3ForCausalLM) -> None:
        self.model = model
        named = dict(model.named_parameters())
        matrices = [name for name in named if "layers." in name and named[name].ndim == 2]
        self._muon = Muon(named[name] for name in matrices)
        self._adam = torch.optim.AdamW(
            [value for name, value in named.items() if name not in matrices],
            weight_decay=0.01,
            fused=True,
        )

    def learn(self, rows: Sequence[vocabulary.Row], pace: float) -> float:
        """Take one step on these rows; return their loss in nats per answer token."""
        loss, answers = 0.0, sum(len(row.answer) for row in rows)
        for together in passes_of(rows):
            logits, right = answer_logits(self.model, together)
            part = torch.nn.functional.cross_entropy(logits, right, reduction="sum") / answers
            torch.autograd.backward(part)
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._muon.step(MATRIX_LEARNING_RATE * pace)
        self._adam.param_groups[0]["lr"] = OTHER_LEARNING_RATE * pace
        self._adam.step()
        self.model.zero_grad()
        return loss


def make_deterministic(seed: int) -> None:
    """Bind torch to one thread and to algorithms that give the same bits each time."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # Filling fresh memory guards against reading it unset; nothing here does, and it costs 2 % of the time.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(seed)


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return an untrained decoder that fits the tokenizer."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=vocabulary.LONGEST_TEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def train(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, plan: Plan) -> Report:
    """Train the model in place, with a line on standard output every STEPS_A_LINE steps."""
    course = lesson.Course(random.Random(plan.seed))  # noqa: S311  # the same lesson each time, not a secret
    pupil = Pupil(model.train())
    began, losses = time.monotonic(), [0.0]
    for step in range(plan.steps):
        progress = step / plan.steps
        drawn = [course.conversation(progress) for _ in range(CONVERSATIONS_A_STEP)]
        rows = [vocabulary.row_of(tokenizer, conversation) for conversation in drawn]
        losses = [*losses[1 - STEPS_A_LINE :], pupil.learn(rows, pace_at(progress))]
        if (step + 1) % STEPS_A_LINE == 0:
            seconds = time.monotonic() - began
            print(
                f"step {step + 1}: loss {sum(losses) / len(losses):.5f}, {seconds:.0f} s",
                flush=True,
            )
    model.eval()
    return Report(loss=sum(losses) / len(losses), seconds=time.monotonic() - began)


def pace_at(progress: float) -> float:
    """Return the share of the learning rate: it rises over the first 5 % and falls over the last 40 %."""
    return min(1.0, progress / 0.05 + 0.01, (1.0 - progress) / 0.4)


def passes_of(rows: Sequence[vocabulary.Row]) -> Iterator[list[vocabulary.Row]]:
    """Yield the rows by length, as many at once as fit TOKENS_A_PASS when padded to the longest."""
    together: list[vocabulary.Row] = []
    for row in sorted(rows, key=len, reverse=True):
        if together and len(together[0]) * (len(together) + 1) > TOKENS_A_PASS:
            yield together
            together = []
        together.append(row)
    if together:
        yield together


def answer_logits(model: Qwen3ForCausalLM, rows: Sequence[vocabulary.Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits [answer token, vocabulary] given what comes before each, and the right tokens.

    The answers follow one another in the order of the rows.
    """
    tokens, labels = _padded(rows, int(model.config.pad_token_id))
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    spoken = labels != IGNORED
    return model.lm_head(hidden[spoken]), labels[spoken]


def _padded(rows: Sequence[vocabulary.Row], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and labels, both [row, position]; a label is the answer token that comes next.

    Padding is on the right, where causal attention keeps it out of sight: no mask is needed.
    """
    longest = max(map(len, rows))
    tokens = torch.full((len(rows), longest), padding)
    labels = torch.full((len(rows), longest), IGNORED)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = torch.tensor(row.prompt + row.answer)
        labels[index, len(row.prompt) - 1 : len(row) - 1] = torch.tensor(row.answer)
    return tokens, labels
