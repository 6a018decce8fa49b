"""What came of one question."""

import enum

from appliance.core.question import Question
from appliance.core.record import record
from appliance.core.reply import shortened

LONGEST_LINE = 400
"""Characters of a verdict in one line; a server's words are in it."""

Measures = tuple[tuple[str, float], ...]


class Outcome(enum.StrEnum):
    """How the answer was found."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """It could not be told: busy, locked, cut while it thought."""
    SKIPPED = "skipped"
    """The question is not for this model."""


@record
class Judgement:
    """What a judge says of an answer."""

    outcome: Outcome
    expected: str = ""
    found: str = ""
    why: str = ""
    """What is wrong, or why nothing could be told; empty when expected and found say it."""
    measures: Measures = ()
    """Numbers that were measured, by name."""
    bounds: Measures = ()
    """What they were held against."""


@record
class Verdict:
    """One question, judged."""

    question: Question
    judgement: Judgement
    seconds: float

    @property
    def outcome(self) -> Outcome:
        """How the answer was found."""
        return self.judgement.outcome

    @property
    def stands_against(self) -> bool:
        """Tell whether a model with this answer must not be called ready."""
        return self.question.gate and self.outcome in (Outcome.WRONG, Outcome.UNKNOWN)

    def __str__(self) -> str:
        said = self.judgement
        match self.outcome:
            case Outcome.RIGHT:
                text = f"{quoted(said.found)} as it should" + (f" ({said.why})" if said.why else "")
            case Outcome.WRONG:
                instead = f"{quoted(said.found)} instead of {quoted(said.expected)}" if said.expected else said.found
                text = ": ".join(part for part in (said.why, instead) if part)
            case _:
                text = f"{self.outcome}: {said.why}"
        return shortened(f"{self.question.name}: {text}", LONGEST_LINE)


def quoted(text: str) -> str:
    """Return a text in quotes, on one line, cut to a readable length."""
    return f'"{shortened(text, 80)}"'


def right(found: str, expected: str = "", why: str = "", measures: Measures = ()) -> Judgement:
    """Return the judgement of a right answer."""
    return Judgement(outcome=Outcome.RIGHT, found=found, expected=expected, why=why, measures=measures)


def wrong(found: str, expected: str = "", why: str = "") -> Judgement:
    """Return the judgement of a wrong answer."""
    return Judgement(outcome=Outcome.WRONG, found=found, expected=expected, why=why)


def unknown(why: str) -> Judgement:
    """Return the judgement where nothing can be told."""
    return Judgement(outcome=Outcome.UNKNOWN, why=why)


def within(measures: Measures, bounds: Measures, what: str) -> Judgement:
    """Judge numbers by the most that each may be; what is no number, or has none, is beyond it."""
    known = dict(measures)
    beyond = [name for name, bound in bounds if not known.get(name, float("inf")) <= bound]
    outcome = Outcome.WRONG if beyond else Outcome.RIGHT
    found = ", ".join(f"{name} {number:.3g}" for name, number in measures)
    expected = ", ".join(f"{name} at most {bound:.3g}" for name, bound in bounds)
    why = what if beyond else ""
    return Judgement(outcome=outcome, found=found, expected=expected, why=why, measures=measures, bounds=bounds)
