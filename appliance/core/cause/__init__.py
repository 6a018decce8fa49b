"""Causes of failure: tables of rules, one topic a module."""

from appliance.core.cause import (
    checkpoint,
    cluster,
    compilation,
    gpu,
    host,
    memory,
    network,
    process,
    setting,
)
from appliance.core.cause.rule import Rule

RULES: tuple[Rule, ...] = (
    *memory.RULES,
    *gpu.RULES,
    *host.RULES,
    *compilation.RULES,
    *checkpoint.RULES,
    *setting.RULES,
    *network.RULES,
    *cluster.RULES,
    *process.RULES,
)
"""Every rule; of two that read the same line, the first counts."""
