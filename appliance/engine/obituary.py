"""News of the death of processes that the engine can't live without, from the kernel and at once."""

import asyncio
import os
from collections.abc import Callable, Iterable

from appliance.core.activity import Member

Key = tuple[int, int]
"""A pid, and the clock ticks at which its process began."""


class Obituaries:
    """Watches those of the engine's processes that bear its titles, each once."""

    def __init__(self, tell: Callable[[Member], None]) -> None:
        self._tell = tell
        self._watched: dict[Key, tuple[Member, int]] = {}
        """Each with its pidfd, which is readable when it has died."""
        self._seen: dict[Key, Member] = {}
        """Those that no pidfd was to be had for: they are missed when the next look does not show them."""

    def watch(self, members: Iterable[Member]) -> None:
        """Watch those of the engine's living processes that are not watched yet; called with all of them."""
        titled = {(member.pid, member.started): member for member in members if member.titled and member.state != "Z"}
        for key in [key for key in self._seen if key not in titled]:
            asyncio.get_running_loop().call_soon(self._tell, self._seen.pop(key))
        for key, member in titled.items():
            if key not in self._watched and key not in self._seen:
                self._open(key, member)

    def close(self) -> None:
        """Watch nobody any more."""
        for _, pidfd in self._watched.values():
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)
        self._watched.clear()
        self._seen.clear()

    def _open(self, key: Key, member: Member) -> None:
        try:
            pidfd = os.pidfd_open(member.pid)
        except OSError:
            # Gone already, or a sandbox that has no pidfd; the next look tells which.
            self._seen[key] = member
            return
        self._watched[key] = (member, pidfd)
        asyncio.get_running_loop().add_reader(pidfd, self._died, key)

    def _died(self, key: Key) -> None:
        member, pidfd = self._watched.pop(key)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._tell(member)
