"""Whether the GPUs compute at this moment, by nvidia-smi."""

import asyncio
import contextlib
from collections.abc import Sequence

SECONDS = 10.0
"""For nvidia-smi; with an engine that holds the GPUs open it takes well under a second."""

DEATH = 0.5
"""Seconds that a killed one may take to go."""

QUERY = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


async def gpus_compute(devices: Sequence[str], spare: set[int], seconds: float = SECONDS) -> bool | None:
    """Tell whether any of the GPUs computed within the last second; None where nobody can say.

    `devices` holds indices or UUIDs, all GPUs where it is empty. `spare` holds the pid of the child for as long as it
    lives, which may be for ever where the driver holds it in the kernel: it is no member of the engine.
    """
    chosen = ("-i", ",".join(devices)) if devices else ()
    try:
        process = await asyncio.create_subprocess_exec(
            "nvidia-smi",
            *QUERY,
            *chosen,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    spare.add(process.pid)
    try:
        async with asyncio.timeout(seconds):
            printed, _ = await process.communicate()
        return computing_in(printed.decode("ascii", "replace")) if process.returncode == 0 else None
    except TimeoutError:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        going = asyncio.ensure_future(process.wait())
        going.add_done_callback(lambda _: spare.discard(process.pid))
        await asyncio.wait({going}, timeout=DEATH)


def computing_in(text: str) -> bool | None:
    r"""Return what the percentages of all GPUs say together; a card that is divided (MIG) has none.

    >>> computing_in("0\n100\n"), computing_in("0\n0\n"), computing_in("0\n[N/A]\n"), computing_in("[N/A]\n3\n")
    (True, False, None, True)
    """
    words = text.split("\n")
    told = [word.strip() for word in words if word.strip()]
    if any(word.isdecimal() and int(word) > 0 for word in told):
        return True
    return False if told and all(word.isdecimal() for word in told) else None
