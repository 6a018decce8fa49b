"""One start of the service for a proof, and what its self-test says."""

import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.core.phase import Phase
from tests.contract.service import ENGINES, RealRig
from tests.proof.proof import ROOT, Outcome

AT_ONCE = min(2, os.cpu_count() or 1)
"""Services that run at the same time; one engine of this model keeps one core busy."""

WATCHED = ("mean", "largest")
"""The measures of the fingerprint."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What `vllm-serve selftest` said."""

    status: int
    outcome: str
    verdicts: tuple[dict[str, Any], ...]

    @property
    def wrong(self) -> tuple[str, ...]:
        """The questions that were answered wrongly."""
        return tuple(verdict["name"] for verdict in self.verdicts if verdict["outcome"] == "wrong" and verdict["gate"])

    @property
    def unsure(self) -> str:
        """What was not right, for a person."""
        odd = (verdict for verdict in self.verdicts if verdict["outcome"] not in ("right", "skipped"))
        return "; ".join(f"{verdict['name']}: {verdict['why']} {verdict['found']}" for verdict in odd)

    def fingerprint(self) -> tuple[float, float] | None:
        """Return the mean and the largest change; None where the tokens were others or nothing was measured."""
        for verdict in self.verdicts:
            if verdict["judge"] == "fingerprint" and set(WATCHED) <= set(verdict["measures"]):
                mean, largest = (_measured(verdict["measures"][name]) for name in WATCHED)
                return mean, largest
        return None

    def margin(self) -> float | None:
        """Return the larger of the two changes, as a multiple of its bound; None where nothing was measured."""
        for verdict in self.verdicts:
            if verdict["judge"] == "fingerprint" and set(WATCHED) <= set(verdict["measures"]):
                parts = (_measured(verdict["measures"][name]) / float(verdict["bounds"][name]) for name in WATCHED)
                return max(parts)
        return None

    @property
    def cells(self) -> tuple[str, str, str]:
        """The mean change, the largest, and the multiple of a bound, as a table shows them."""
        found, margin = self.fingerprint(), self.margin()
        if found is None or margin is None:
            return "", "", ""
        return f"{found[0]:.3f}", f"{found[1]:.2f}", f"{margin:.2f}"


def _measured(number: float | None) -> float:
    """Return a measure; JSON has no number for one that is infinite."""
    return math.inf if number is None else float(number)


@contextmanager
def service(folder: Path, more: str) -> Iterator[RealRig]:
    """Start the service in a folder of its own, with more of a configuration; wrong answers leave the engine up."""
    folder.mkdir()
    rig = RealRig(folder, ENGINES)
    try:
        rig.write(f'baselines = "{folder}/baselines"\n[selftest]\non_failure = "hold"\n{more}')
        rig.start()
        rig.until(lambda: settled(rig), "READY=1, a failed self-test or the end")
        yield rig
    finally:
        if rig.process and rig.process.poll() is None:
            rig.stop()
        _hush(folder / "notify")
        rig.close()


def _hush(notify: Path) -> None:
    """End the rig's listening with an empty datagram: else a late read could take what is told to the next rig."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.sendto(b"", str(notify))
    time.sleep(0.1)


def settled(rig: RealRig) -> str:
    """Return how a start came out: ready, held or ended; empty while it is under way."""
    assert rig.process
    if "READY=1" in rig.told:
        return "ready"
    if rig.process.poll() is not None:
        return "ended"
    has_status = (rig.runtime / "status.json").exists()
    return "held" if has_status and rig.status()["phase"] == Phase.HOLDING else ""


def last_word(rig: RealRig) -> str:
    """Return why a service ended, as it told systemd."""
    lines = [line.removeprefix("STATUS=") for line in rig.told if line.startswith("STATUS=")]
    return lines[-1] if lines else "nothing was told"


def examined(rig: RealRig, base: str = "") -> Examined:
    """Run the command of the self-test, against the service or against another address."""
    command = [sys.executable, "-m", "appliance.cli.main", "selftest", "--json", "--config", str(rig.config)]
    command += ["--base", base, "--model", "demo"] if base else ["--runtime", str(rig.runtime)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if not done.stdout.strip():
        return Examined(done.returncode, done.stderr.strip()[-300:], ())
    table = json.loads(done.stdout)
    return Examined(done.returncode, table["outcome"], tuple(table["verdicts"]))


def several(work: Callable[[str], Outcome], cases: Sequence[str]) -> Iterator[Outcome]:
    """Run cases, as many at the same time as this machine bears; yield each outcome when it is known."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for future in as_completed([pool.submit(work, case) for case in cases]):
            yield future.result()
