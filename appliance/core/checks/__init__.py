"""Checks before a start: generators of findings, one topic a module."""

from collections.abc import Callable, Iterator

from appliance.core.checks import architecture, build, checkpoint, memory, network, selftest
from appliance.core.finding import Finding, Severity
from appliance.core.situation import Situation

Check = Callable[[Situation], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    build.engine_installed,
    checkpoint.checkpoint_named,
    checkpoint.files_present,
    checkpoint.weights_whole,
    checkpoint.recipe_files,
    architecture.architecture_loads,
    architecture.quantization_computes,
    architecture.answers_testable,
    network.address_free,
    network.keyless_exposure,
    network.key_in_command,
    memory.main_memory,
    selftest.references_present,
    selftest.skipped_known,
)
"""Every check, in the order in which people read the findings."""


def run(situation: Situation) -> tuple[Finding, ...]:
    """Return what all checks found."""
    return tuple(finding for check in CHECKS for finding in check(situation))


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings that refuse a start."""
    return tuple(finding for finding in findings if finding.severity is Severity.ERROR)
