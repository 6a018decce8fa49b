"""`vllm-serve reload`: the unit's ExecReload; says what became of it, which a bare SIGHUP can't."""

import os
import signal
import time
from pathlib import Path

import click

from appliance.cli.option import config_option, runtime_option, view_of
from appliance.core.phase import Result
from appliance.core.status import Status
from appliance.service.configfile import checked
from appliance.service.statusfile import is_alive

INTERVAL = 0.2
"""Seconds between two looks at status.json."""


@click.command()
@config_option
@runtime_option
def command(config_file: Path, runtime: Path) -> int:
    """Apply the configuration: check it, restart vLLM with it, and wait until that serves.

    Ends with 0 when the new settings serve, 1 when they were refused or rolled back; 78, with the service untouched,
    when the file itself is wrong.
    """
    checked(config_file)
    before = _running(runtime)
    try:
        os.kill(before.supervisor.pid, signal.SIGHUP)
    except PermissionError:
        raise click.ClickException("only root and the service's own user may reload it") from None
    after = _settled(runtime, before)
    if after.reload_result == Result.APPLIED:
        click.echo(after.text)
        return 0
    click.echo(f"reload {after.reload_result}: {after.reload_why}", err=True)
    return 1


def _running(runtime: Path) -> Status:
    status = view_of(runtime)
    if status is None or not is_alive(status):
        raise click.ClickException(f"no service runs here ({runtime}/status.json)")
    return status


def _settled(runtime: Path, before: Status) -> Status:
    """Wait for the outcome of the reload that was just asked for; systemd bounds the wait."""
    while True:
        time.sleep(INTERVAL)
        status = view_of(runtime)
        if status is None or status.supervisor != before.supervisor:
            raise click.ClickException("the service was stopped or restarted meanwhile")
        if status.reloads_asked > before.reloads_asked and status.reloads_settled == status.reloads_asked:
            return status
        if not is_alive(status):
            raise click.ClickException(f"the service has ended: {status.text}")
