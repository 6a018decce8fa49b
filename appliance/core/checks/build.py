"""Is there an engine to start?"""

from collections.abc import Iterator

from appliance.core.finding import Finding, Severity
from appliance.core.situation import Situation


def engine_installed(situation: Situation) -> Iterator[Finding]:
    """A vLLM is installed, and it is the one that the file asks for."""
    if situation.facts.engine is not None:
        return
    wanted = situation.config.engine.use
    folder = situation.config.paths.engines
    reason = situation.facts.why_unread("engine") or "no engine is installed"
    yield Finding(
        id="build.engine",
        severity=Severity.ERROR,
        summary=f"no usable vLLM under {folder}: {reason}",
        remedy=(
            f"run `vllm-serve engine list` and set [engine] use, which is {wanted} now"
            if wanted
            else "see `systemctl status vllm-serve-engine`, or run `vllm-serve engine install` as root"
        ),
        transient=not wanted,
    )
