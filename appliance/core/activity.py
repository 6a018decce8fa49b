"""What processes were seen to do: the time they took, the bytes they moved, and the state they are in."""

import itertools

from appliance.core.record import record

SHARE = 0.05
"""Of one core, above which one process counts as doing something. vLLM 0.32 on a CPU, asked for nothing: the API server
takes 0.002 of a core, and 0.006 with its /metrics read every 2 s, EngineCore 0.0075, a worker 0.0145; one that is
stopped takes none."""

STORAGE = 65536
"""Bytes a second from or to storage, above which one process counts as doing something: whatever a model is loaded from
is faster. An API server that was asked for nothing fetched 3 KiB/s, as pages of its libraries came and went."""

TITLE = "VLLM::"
"""How the titles begin that vLLM gives to its processes: EngineCore, EngineCore_DP0, Worker_TP1, APIServer_0."""

API_SERVER = "API server"
TRACKER = "resource tracker"
"""It does no work, and removes the shared memory of the others when they are gone."""

ASKED = ("VLLM::APIServer", "VLLM::DPCoordinator")
"""Titles of processes that take requests and hand them on; they compute nothing."""


@record
class Member:
    """One process at one moment."""

    pid: int
    started: int
    """Clock ticks since the boot, which tell it from another process that had the same pid."""
    name: str
    state: str
    """The kernel's letter: R runs, S sleeps, D waits for a device, T is stopped, t is traced, Z is dead."""
    cpu: float
    """Seconds that it has computed, in user and system mode."""
    read: int | None = None
    """Bytes that it had fetched from storage; None where that can't be read."""
    written: int | None = None
    wchan: str = ""
    """The kernel's function that it waits in; empty where it does not wait, or where that can't be read."""

    @property
    def stopped(self) -> bool:
        """Tell whether a signal or a debugger holds it."""
        return self.state in ("T", "t")

    @property
    def titled(self) -> bool:
        """Tell whether it is one of those that the engine can't live without."""
        return self.name.startswith(TITLE)

    @property
    def computes(self) -> bool:
        """Tell whether its work is the model's, and not that of requests."""
        return self.titled and not self.name.startswith(ASKED)

    @property
    def essential(self) -> bool:
        """Tell whether nobody is answered while it is stopped."""
        return self.titled or self.name == API_SERVER


@record
class Activity:
    """Some processes at one moment, in the order of their start."""

    members: tuple[Member, ...] = ()

    @property
    def cpu(self) -> float:
        """Seconds that the living ones have computed; it falls when one of them dies, see `moved`."""
        return sum(member.cpu for member in self.members)

    @property
    def computing(self) -> "Activity":
        """Those whose work is the model's; where none says that of itself, all."""
        return Activity(members=tuple(member for member in self.members if member.computes) or self.members)

    @property
    def stopped(self) -> tuple[str, ...]:
        """Those that are stopped and are needed, for a person."""
        held = (member for member in self.members if member.stopped and member.essential)
        return tuple(f"{member.name} (pid {member.pid})" for member in held)


def name_of(words: tuple[str, ...], short: str) -> str:
    """Return what a person calls a process, from its command line and the short name that the kernel has for it.

    >>> name_of(("VLLM::Worker_TP0",), "VLLM::Worker_TP"), name_of(("bin/python", "bin/vllm", "serve", "m"), "python")
    ('VLLM::Worker_TP0', 'API server')
    """
    if words and words[0].startswith(TITLE):
        return words[0].strip()
    if any("resource_tracker" in word for word in words):
        return TRACKER
    if any("compile_worker" in word for word in words):
        return "compile worker"
    pairs = itertools.pairwise(words)
    return API_SERVER if any(f"/{word}".endswith("/vllm") and verb == "serve" for word, verb in pairs) else short


def moved(before: Activity, after: Activity, seconds: float) -> bool:
    """Tell whether processes did something between two looks that lie so many seconds apart.

    Each is compared with itself: the time of those that died in between is no loss, and what many of them take while
    they idle does not add up. A process that is new counts with all that it has done.
    """
    earlier = {(member.pid, member.started): member for member in before.members}
    return any(_worked(earlier.get((member.pid, member.started)), member, seconds) for member in after.members)


def _worked(before: Member | None, after: Member, seconds: float) -> bool:
    cpu = after.cpu - (before.cpu if before else 0.0)
    pairs = (
        (before.read if before else 0, after.read),
        (before.written if before else 0, after.written),
    )
    stored = sum(new - old for old, new in pairs if old is not None and new is not None and new > old)
    return stored > STORAGE * seconds or cpu > SHARE * seconds
