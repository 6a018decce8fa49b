"""Can the self-test be asked as it is declared?"""

from collections.abc import Iterator

from appliance.core.finding import Finding, Severity
from appliance.core.paper import references
from appliance.core.problem import did_you_mean
from appliance.core.situation import Situation


def references_present(situation: Situation) -> Iterator[Finding]:
    """What answers are held against is there."""
    for file in references(situation.config, situation.recipe):
        if situation.facts.has_file(file) is False:
            yield Finding(
                id="selftest.reference",
                severity=Severity.ERROR,
                summary=f"there is no {file}, against which the self-test holds the model's fingerprint",
                remedy="make it with `vllm-serve checkpoint fingerprint`, or leave the question out",
            )


def skipped_known(situation: Situation) -> Iterator[Finding]:
    """Questions that are left out are the recipe's."""
    known = [question.name for question in (*situation.recipe.questions, *situation.config.questions)]
    for name in situation.config.selftest.skip:
        if name not in known:
            yield Finding(
                id="selftest.skip",
                severity=Severity.WARNING,
                summary=f"[selftest] skip names {name}, and no question is called so",
                remedy=did_you_mean(name, known),
            )
