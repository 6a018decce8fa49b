"""A sound model is never called wrong: as the recipe has it, in float32, compiled, in other batch sizes."""

import random
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.proof.demo_answers import versions
from tests.proof.proof import Outcome, Proof
from tests.proof.trial import Examined, examined, last_word, service, settled, several

KINDS = {
    "as the recipe has it": "",
    "float32": 'dtype = "float32"',
    "compiled": "enforce_eager = false",
    "other batches": "",
}
"""Ways to start, and what [vllm] says of each."""


def numbered(kind: str, first: int, last: int) -> tuple[str, ...]:
    """Return the cases of a kind."""
    return tuple(f"{kind}, {number}" for number in range(first, last + 1))


def settings_of(case: str) -> str:
    """Return what [vllm] says in a case; other batches are drawn, each of them another.

    >>> settings_of("float32, 3")
    'dtype = "float32"'
    """
    kind = case.rpartition(", ")[0]
    if kind != "other batches":
        return KINDS[kind]
    draw = random.Random(case)
    sequences, caching = draw.choice((1, 2, 3, 5, 8, 32, 64)), draw.choice(("true", "false"))
    tokens = draw.choice((64, 96, 128, 256, 1024, 4096))
    lines = [f"max_num_seqs = {sequences}", f"max_num_batched_tokens = {max(tokens, sequences)}"]
    return "\n".join([*lines, f"enable_prefix_caching = {caching}"])


def run(cases: tuple[str, ...], folder: Path) -> Iterator[Outcome]:
    """Start the service for each case, and ask once more when it is ready."""
    yield from several(partial(_case, folder), cases)


def _case(folder: Path, case: str) -> Outcome:
    settings, start = settings_of(case), time.monotonic()
    said = "; ".join(settings.splitlines())
    with service(folder / re.sub(r"\W+", "-", case), f"[vllm]\n{settings}") as rig:
        seconds, how = time.monotonic() - start, settled(rig)
        if how != "ready":
            asked = examined(rig) if how == "held" else Examined(0, "", ())
            note = f"{how}: {last_word(rig)} {asked.unsure}"
            return Outcome(case=case, passed=False, note=note, row=(said, *asked.cells, f"{seconds:.0f}"))
        asked = examined(rig)
    right = asked.status == 0 and asked.outcome == "right"
    note = "" if right else f"exit {asked.status}, {asked.outcome}: {asked.unsure}"
    return Outcome(case=case, passed=right, note=note, row=(said, *asked.cells, f"{seconds:.0f}"))


def remark(outcomes: Mapping[str, Outcome]) -> str:
    """Return the largest change of each kind: the noise that the bounds must leave room for."""
    lines = ["| kind | starts | mean change, nats a token | largest change | nearest to a bound |", "|" + " --- |" * 5]
    for kind in KINDS:
        rows = [
            found.row for case, found in outcomes.items() if case.startswith(f"{kind}, ") and found.row[1:2] != ("",)
        ]
        if rows:
            most = " | ".join(str(max(float(row[place]) for row in rows)) for place in (1, 2, 3))
            lines.append(f"| {kind} | {len(rows)} | {most} |")
    return "The largest of each kind:\n\n" + "\n".join(lines)


QUICK = (
    *numbered("as the recipe has it", 51, 60),
    *numbered("float32", 11, 20),
    *numbered("other batches", 11, 60),
)
"""Others than the kept ones; compiling takes more than a minute."""

SOUND_STARTS = Proof(
    name="sound-starts",
    promise=(
        "the sound demonstration model becomes ready and its self-test says right: 50 starts as the recipe has it, and "
        "10 each in float32, compiled, and with other batch sizes, with the prefix cache and without"
    ),
    covers=(
        *("demo/model", "demo/fingerprint.json", "appliance/recipes/demo.toml", "appliance/engine/lock"),
        *("appliance/selftest", "appliance/core/fingerprint.py", "tests/proof/sound_starts.py", "tests/proof/trial.py"),
    ),
    seed=0,
    cases=(
        *numbered("as the recipe has it", 1, 50),
        *numbered("float32", 1, 10),
        *numbered("compiled", 1, 10),
        *numbered("other batches", 1, 10),
    ),
    quick=QUICK,
    slice_size=1,
    run=run,
    versions=versions,
    columns=("[vllm]", "mean", "largest", "of the bound", "seconds to READY=1"),
    remark=remark,
)
