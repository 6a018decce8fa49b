"""Make untrained checkpoints, so small that a server of each starts at once; the engine's Python runs this.

    python tests/contract/tiny.py FOLDER MODEL

FOLDER/embedding, FOLDER/rerank: encoders of two layers. FOLDER/base: MODEL without its chat template, and with a weight
that is not a number.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = tuple(map(chr, range(33, 127)))
WORDS = (*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS))
LONGEST = 128


def main() -> None:
    """Run the command line."""
    folder, model = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(0)
    encoder(folder / "embedding", BertModel)
    encoder(folder / "rerank", BertForSequenceClassification, num_labels=1)
    broken(model, folder / "base")


def encoder(folder: Path, architecture: type, **more: int) -> None:
    """Write an encoder of letters."""
    tokenizer = Tokenizer(WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", WORDS.index("[SEP]")), ("[CLS]", WORDS.index("[CLS]")))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **special).save_pretrained(folder)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=LONGEST, **sizes, **more)
    architecture(config).save_pretrained(folder)


def broken(model: Path, folder: Path) -> None:
    """Write a copy of a model without a chat template, all of whose logprobs are NaN."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("chat_template*"))
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] = math.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
