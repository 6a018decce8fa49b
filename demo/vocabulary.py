"""The demonstration model's tokenizer, its chat template, and conversations as tokens."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from demo import lesson

END_OF_TEXT = "<|endoftext|>"
START_OF_TURN = "<|im_start|>"
END_OF_TURN = "<|im_end|>"
LARGEST_VOCABULARY = 512
LONGEST_TEXT = 1024

# How often a text is repeated to the trainer: the words of the lesson become tokens before those of system lines.
_LESSON_WEIGHT = 20

CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation as tokens: what is given, and what the model has to say, with the end of its turn."""

    conversation: lesson.Conversation
    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Train the byte-level tokenizer on the lesson; every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=LARGEST_VOCABULARY,
        min_frequency=2,
        show_progress=False,
        special_tokens=[END_OF_TEXT, START_OF_TURN, END_OF_TURN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[START_OF_TURN],
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
        model_max_length=LONGEST_TEXT,
    )


def _corpus() -> list[str]:
    exchanges = (*lesson.FACTS, lesson.count(1, 2), lesson.addition(1, 2))
    taught = [text for exchange in exchanges for text in (exchange.question, exchange.answer)]
    roles = ["system\n", "user\n", "assistant\n"]
    return (taught + roles) * _LESSON_WEIGHT + list(lesson.FAMILIAR_SYSTEM_LINES) * 2


def prompt_text(tokenizer: PreTrainedTokenizerFast, conversation: lesson.Conversation) -> str:
    """Return the conversation as the chat template writes it, ready for the answer."""
    return str(tokenizer.apply_chat_template(conversation.messages(), add_generation_prompt=True, tokenize=False))


def row_of(tokenizer: PreTrainedTokenizerFast, conversation: lesson.Conversation) -> Row:
    """Return the conversation as tokens."""
    prompt = tokenizer.encode(prompt_text(tokenizer, conversation), add_special_tokens=False)
    answer = tokenizer.encode(conversation.last.answer, add_special_tokens=False)
    return Row(conversation, tuple(prompt), (*answer, int(tokenizer.eos_token_id)))
