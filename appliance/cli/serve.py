"""`vllm-serve serve`: what the unit runs."""

from pathlib import Path

import click

from appliance.cli.option import config_option, runtime_option
from appliance.engine.process import become_subreaper
from appliance.service.supervisor import supervise


@click.command()
@config_option
@runtime_option
def command(config_file: Path, runtime: Path) -> int:
    """Run the service in the foreground; `systemctl start vllm-serve` runs it properly.

    Ends with 0 when asked to stop, 69 when the model's answers were wrong, 75 where waiting may help,
    78 when the configuration must change.
    """
    if not runtime.is_dir():
        raise click.UsageError(f"there is no folder {runtime}; make it, or name another with --runtime")
    become_subreaper()
    try:
        return supervise(config_file, runtime)
    except BlockingIOError:
        raise click.UsageError(f"another vllm-serve runs with {runtime}") from None
