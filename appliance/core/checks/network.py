"""Can the API listen where it should, and may it?"""

import ipaddress
from collections.abc import Iterator

from appliance.core.finding import Finding, Severity
from appliance.core.situation import Situation


def address_free(situation: Situation) -> Iterator[Finding]:
    """The address of the API can be listened on."""
    port = situation.facts.port
    if port is not None and port.fault:
        yield Finding(
            id="network.port",
            severity=Severity.ERROR,
            summary=f"can't listen on {port.host} port {port.port}: {port.fault}",
            remedy=f"stop what listens there (`ss -ltnp 'sport = :{port.port}'`), or set another [api] port or host",
            transient=port.transient,
        )


def key_in_command(situation: Situation) -> Iterator[Finding]:
    """A key in the command line is seen by every user of the machine."""
    if situation.plan and situation.plan.api_key:
        yield Finding(
            id="network.key",
            severity=Severity.WARNING,
            summary="[engine] extra_args holds an API key, and every user of this machine sees it in the process list",
        )


def keyless_exposure(situation: Situation) -> Iterator[Finding]:
    """An API that asks no key stays on this machine, unless the file says otherwise."""
    api = situation.config.api
    if ipaddress.ip_address(api.host).is_loopback or (situation.plan and situation.plan.api_key):
        return
    if api.allow_unauthenticated:
        yield Finding(
            id="network.keyless",
            severity=Severity.WARNING,
            summary=f"anyone who reaches {api.host} port {api.port} can use the model without a key",
        )
        return
    yield Finding(
        id="network.keyless",
        severity=Severity.ERROR,
        summary=f"[api] host = {api.host} lets other machines use the model without a key",
        remedy="set [api] allow_unauthenticated = true if that is meant, or host = 127.0.0.1",
    )
