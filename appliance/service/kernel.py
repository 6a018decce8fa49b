"""The kernel's messages, asked for in a process of its own: reading a journal can block on a slow disk."""

import asyncio
import contextlib
import json
import sys

from appliance.service.share import SHARE

DEADLINE = 5.0
"""Seconds; a journal of a gigabyte takes a few tenths."""

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(SHARE)}


async def kernel_messages_since(
    time: float, spare: set[int], deadline: float = DEADLINE, module: str = "appliance.host.kernel"
) -> tuple[str, ...] | None:
    """Return the telling messages of the kernel since a time, in seconds since 1970; None where they are not known.

    `spare` holds the pids of our children that are no members of the engine.
    """
    command = (sys.executable, "-P", "-s", "-m", module, str(time))
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=SHARE, env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return None
    spare.add(process.pid)
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), deadline)
        found = json.loads(printed)
    except (TimeoutError, ValueError):
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        going = asyncio.ensure_future(process.wait())
        going.add_done_callback(lambda _: spare.discard(process.pid))
    return tuple(map(str, found)) if isinstance(found, list) else None
