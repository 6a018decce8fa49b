"""What an installed engine says of itself, in engine.json."""

from appliance.core.record import record

MANIFEST = "engine.json"
"""Its file in the folder of an engine, written last: a folder without it is half an engine."""

CURRENT = "current"
"""The link beside the engines that names the one in use."""


@record
class Manifest:
    """The record of one finished installation."""

    id: str
    vllm: str
    torch: str
    device: str
    """`cpu` or `cuda`."""
    python: str
    lock: str
    """sha256 of the lock file that it was made from."""
