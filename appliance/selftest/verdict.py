"""What came of one question."""

from appliance.core.recipe import Question
from appliance.core.record import record


@record
class Verdict:
    """One question, its answer, and whether it is right."""

    question: Question
    answer: str
    """What the model said; empty when it said nothing."""
    fault: str
    """Why no verdict on the answer is possible; empty when there is an answer."""
    right: bool
    final: bool = True
    """False when asking again may give another verdict."""

    def __str__(self) -> str:
        if self.fault:
            return f'"{self.question.ask}" got no answer: {self.fault}'
        relation = "as it should" if self.right else f'instead of "{_short(self.question.answer)}"'
        return f'"{self.question.ask}" got "{_short(self.answer)}" {relation}'


def _short(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= 80 else f"{text[:77]}..."


def judged(question: Question, answer: str, finish_reason: str) -> Verdict:
    """Judge an answer: the whole text must be the known one, or hold it, and the model must have ended it itself."""
    said, known = answer.strip(), question.answer
    right = known.casefold() in said.casefold() if question.within else said == known
    right = right and finish_reason == "stop"
    return Verdict(question=question, answer=answer, fault="", right=right)
