"""What a proof is, which of its cases are open, and the file that it leaves."""

import hashlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/proofs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one case."""

    case: str
    passed: bool
    note: str = ""
    """What was found, where it is not what was wanted."""
    row: tuple[str, ...] = ()
    """What was found in any case, under the columns of a proof that has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Many cases of one promise."""

    name: str
    promise: str
    covers: tuple[str, ...]
    """Files and folders whose change makes a result old, and this proof's own."""
    seed: int
    cases: tuple[str, ...]
    slice_size: int
    """How many cases `make test` runs."""
    quick: tuple[str, ...] = ()
    """The cases that a slice is drawn from; all where none are named."""
    run: Callable[[tuple[str, ...], Path], Iterator[Outcome]]
    """Run cases, in a scratch folder; yield each outcome as soon as it is known."""
    versions: Callable[[], Mapping[str, str]] = field(default=dict)
    columns: tuple[str, ...] = ()
    """What is kept of each case, beside whether it passed."""
    remark: Callable[[Mapping[str, "Outcome"]], str] = field(default=lambda _outcomes: "")
    """What the rows come to, in Markdown."""


def git(*arguments: str) -> str:
    """Return what git says of this checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def digest(proof: Proof) -> str:
    """Return a number for the content of everything that a proof covers, committed or not."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *proof.covers).splitlines()
    content = hashlib.sha256()
    for name in sorted(set(names)):
        file = ROOT / name
        content.update(name.encode() + b"\0" + (file.read_bytes() if file.is_file() else b"") + b"\0")
    return content.hexdigest()[:16]


def chosen_slice(proof: Proof, commit: str) -> tuple[str, ...]:
    """Return the cases that a commit draws: others for each, the same for everyone who tests it.

    >>> cases = tuple("abcdef")
    >>> proof = Proof(name="p", promise="", covers=(), seed=1, cases=cases, slice_size=2, run=lambda c, f: iter(()))
    >>> len(chosen_slice(proof, "c0ffee")), chosen_slice(proof, "c0ffee") == chosen_slice(proof, "c0ffee")
    (2, True)
    """
    drawn_from = proof.quick or proof.cases
    size = min(proof.slice_size, len(drawn_from))
    return tuple(random.Random(f"{commit} {proof.name}").sample(drawn_from, size))


class Record:
    """The outcomes so far: kept beside the cache, so that an interrupted proof goes on where it was."""

    def __init__(self, proof: Proof, cache: Path) -> None:
        self._file = cache / "proofs" / f"{proof.name}-{digest(proof)}.jsonl"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self.outcomes: dict[str, Outcome] = {}
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                outcome = _outcome_of(line)
                if outcome:
                    self.outcomes[outcome.case] = outcome

    def open_cases(self, proof: Proof) -> tuple[str, ...]:
        """Return the cases that have not passed: one that failed is run again."""
        passed = {case for case, outcome in self.outcomes.items() if outcome.passed}
        return tuple(case for case in proof.cases if case not in passed)

    def add(self, outcome: Outcome) -> None:
        """Keep one outcome."""
        self.outcomes[outcome.case] = outcome
        with self._file.open("a") as stream:
            row = [list(outcome.row)] if outcome.row else []
            stream.write(json.dumps([outcome.case, outcome.passed, outcome.note, *row], ensure_ascii=False) + "\n")


def _outcome_of(line: str) -> Outcome | None:
    """Read one kept outcome; the last line of an interrupted proof may be torn."""
    try:
        case, passed, note, *row = json.loads(line)
    except ValueError:
        return None
    return Outcome(case=case, passed=passed, note=note, row=tuple(row[0]) if row else ())


def result_of(proof: Proof, outcomes: Mapping[str, Outcome]) -> dict[str, object]:
    """Return the table that docs/proofs keeps."""
    ours = [outcomes[case] for case in proof.cases if case in outcomes]
    failures = [outcome for outcome in ours if not outcome.passed]
    rows = {outcome.case: list(outcome.row) for outcome in ours if outcome.row}
    kept = {"columns": list(proof.columns), "rows": rows} if proof.columns else {}
    return {
        "proof": proof.name,
        "promise": proof.promise,
        "commit": git("rev-parse", "HEAD"),
        "clean": git("status", "--porcelain", "--", *proof.covers) == "",
        "covers": list(proof.covers),
        "digest": digest(proof),
        "seed": proof.seed,
        "versions": dict(proof.versions()),
        "cases": len(proof.cases),
        "passed": len(ours) - len(failures),
        "failed": len(failures),
        "failures": {outcome.case: outcome.note for outcome in failures},
        **kept,
    }


def report_of(proof: Proof, outcomes: Mapping[str, Outcome]) -> str:
    """Return the same for people, in Markdown."""
    ours = [outcomes[case] for case in proof.cases if case in outcomes]
    passed = sum(outcome.passed for outcome in ours)
    lines = [f"# {proof.name}", "", f"{proof.promise[:1].upper()}{proof.promise[1:]}.", ""]
    lines += [
        f"{passed} of {len(proof.cases)} cases passed; `make proof` wrote this at {git('rev-parse', 'HEAD')[:12]}."
    ]
    lines += [
        "",
        proof.remark(outcomes),
        "",
        _line(("case", *proof.columns)),
        "|" + " --- |" * (len(proof.columns) + 1),
    ]
    for outcome in ours:
        failed = () if outcome.passed else (f"**failed**: {outcome.note}",)
        lines.append(_line((outcome.case, *outcome.row, *failed)))
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    r"""Return a row of a table.

    >>> _line(("a|b", "c"))
    '| a\\|b | c |'
    """
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def age_of(proof: Proof) -> str:
    """Say whether the kept result is of the code as it is now."""
    file = RESULTS / f"{proof.name}.json"
    if not file.exists():
        return "never run in full"
    result = json.loads(file.read_text())
    if result["digest"] != digest(proof):
        return f"older than the code that it proves (commit {result['commit'][:12]})"
    return f"up to date: {result['passed']} of {result['cases']} passed"
