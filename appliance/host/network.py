"""Whether the address of the API can be listened on: the only sure way is to try."""

import errno
import os
import socket

from appliance.core.facts import PortFacts

TRANSIENT = {errno.EADDRINUSE, errno.EADDRNOTAVAIL}
"""A port still held, an address not yet assigned: both may pass."""


def port_facts(host: str, port: int) -> PortFacts:
    """Try to listen, as vLLM will (SO_REUSEADDR), and let go at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    fault: int | None = None
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(1)
    except OSError as error:
        fault = error.errno
    return PortFacts(host=host, port=port, fault=os.strerror(fault) if fault else None, transient=fault in TRANSIENT)
