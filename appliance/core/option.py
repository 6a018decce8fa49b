"""The flags that one vLLM takes and the variables that it reads, and what is wrong with those that a file sets."""

from appliance.core.record import record


@record
class Option:
    """One flag of `vllm serve`."""

    name: str
    """Without dashes in front, with underscores: `max_model_len`."""
    kind: str
    """`flag` (on), `switch` (on and --no-), `int`, `human_int` (4k, 1M), `float`, `str` or `json`."""
    several: bool = False
    """True when it takes a list of values."""
    choices: tuple[str, ...] = ()
    """Values that it takes; empty for any."""
    aliases: tuple[str, ...] = ()
    """Other names for it, without dashes in front, with underscores."""


@record
class OptionList:
    """What one version of vLLM takes."""

    vllm: str
    options: tuple[Option, ...]
    variables: tuple[str, ...]
    """Environment variables that vLLM's envs.py names."""
