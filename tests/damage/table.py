"""All damages of the checkpoint, by name, and how a variant is written."""

import random

from tests.damage.model import Damage
from tests.damage.order import PLACES
from tests.damage.setting import SETTINGS
from tests.damage.weights import NUMBERS
from tests.damage.word import WORDS

DAMAGES = {damage.name: damage for damage in (*PLACES, *NUMBERS, *SETTINGS, *WORDS)}


def variant_of(case: str) -> tuple[str, int]:
    """Return the kind and the variant that a case names; the kept proof has variant 0.

    >>> variant_of("one norm x1.1"), variant_of("one norm x1.1, variant 7")
    (('one norm x1.1', 0), ('one norm x1.1', 7))
    """
    name, found, number = case.rpartition(", variant ")
    return (name, int(number)) if found else (case, 0)


def case_of(name: str, variant: int) -> str:
    """Write a kind and a variant as a case.

    >>> case_of("decoder lost", 3)
    'decoder lost, variant 3'
    """
    return f"{name}, variant {variant}" if variant else name


def draw_of(case: str) -> random.Random:
    """Return the source of everything that a variant draws: the same for everyone."""
    return random.Random("{} {}".format(*variant_of(case)))


def damage_of(case: str) -> Damage:
    """Return the kind of damage that a case names."""
    return DAMAGES[variant_of(case)[0]]
