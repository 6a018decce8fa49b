"""Damages of the tokenizer: other tokens for the same text, or other text for the same tokens."""

from tests.damage.model import Damage, ModelCopy

SPECIAL = 3
"""Tokens at the start of the vocabulary that are special."""


def merges_lost(copy: ModelCopy) -> str:
    """The last merges are lost."""
    merges = copy.tokenizer["model"]["merges"]
    kept = int(len(merges) * copy.draw.choice((0.9, 0.75, 0.5, 0)))
    copy.tokenizer["model"]["merges"] = merges[:kept]
    return f"{kept} of {len(merges)} are left"


def merges_ordered(copy: ModelCopy) -> str:
    """The merges come in a wrong order."""
    merges = copy.tokenizer["model"]["merges"]
    way = copy.draw.choice(("reversed", "shuffled", "halves exchanged"))
    half = len(merges) // 2
    ways = {
        "reversed": merges[::-1],
        "shuffled": copy.draw.sample(merges, len(merges)),
        "halves exchanged": merges[half:] + merges[:half],
    }
    copy.tokenizer["model"]["merges"] = ways[way]
    return way


def one_merge_lost(copy: ModelCopy) -> str:
    """One merge is lost."""
    merges = copy.tokenizer["model"]["merges"]
    lost = merges.pop(copy.draw.randrange(len(merges)))
    return " + ".join(lost)


def _exchange(copy: ModelCopy, tokens: list[str]) -> str:
    vocabulary = copy.tokenizer["model"]["vocab"]
    one, other = copy.draw.sample(tokens, 2)
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    return f"{one} and {other}"


def letters_exchanged(copy: ModelCopy) -> str:
    """Two figures or letters are exchanged in the vocabulary."""
    return _exchange(copy, list("0123456789abcdefghilmnoprstuwy"))


def tokens_exchanged(copy: ModelCopy) -> str:
    """Any two tokens are exchanged in the vocabulary."""
    vocabulary = copy.tokenizer["model"]["vocab"]
    return _exchange(copy, [token for token, number in vocabulary.items() if number >= SPECIAL])


def vocabulary_shifted(copy: ModelCopy) -> str:
    """From one token on, all tokens have the number of the one before."""
    vocabulary = copy.tokenizer["model"]["vocab"]
    first = copy.draw.choice((SPECIAL, 50, 150))
    for token, number in vocabulary.items():
        if number >= first:
            vocabulary[token] = number - 1 if number > first else len(vocabulary) - 1
    return f"from number {first} on"


def vocabulary_cut(copy: ModelCopy) -> str:
    """The last tokens and their merges are lost."""
    model = copy.tokenizer["model"]
    kept = copy.draw.choice((300, 400, 450))
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < kept}
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]
    return f"{kept} of 496 tokens are left"


def space_before(copy: ModelCopy) -> str:
    """Every text gets a space before it."""
    copy.tokenizer["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = True
    return "add_prefix_space"


def decoder_lost(copy: ModelCopy) -> str:
    """The bytes of answers are not put together."""
    copy.tokenizer["decoder"] = None
    return "no decoder"


WORDS = (
    Damage("wrong tokenizer merges: lost", merges_lost),
    Damage("wrong tokenizer merges: in a wrong order", merges_ordered),
    Damage("one merge lost", one_merge_lost, "shows only in texts that hold the token"),
    Damage("two figures or letters exchanged", letters_exchanged),
    Damage("two tokens exchanged", tokens_exchanged, "shows only in texts that hold one of the two"),
    Damage("vocabulary shifted by one", vocabulary_shifted),
    Damage("tokenizer's vocabulary truncated", vocabulary_cut),
    Damage("space before every text", space_before),
    Damage("decoder lost", decoder_lost),
)
