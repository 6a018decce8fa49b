"""A damaged model, or a server that spoils its answers, is never called right."""

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.contract.service import ENGINES, RealRig
from tests.damage.fault import FAULTS, SOUND
from tests.damage.proxy import fault_of
from tests.damage.table import DAMAGES, case_of, damage_of, variant_of
from tests.proof.demo_answers import versions
from tests.proof.proof import RESULTS, ROOT, Outcome, Proof
from tests.proof.trial import Examined, examined, last_word, service, settled, several
from tests.rig import reserved_port

VARIANTS = 20
"""Of each kind, for the slices; the kept proof has one of each."""

SIBLING = "noise of 10 %"
"""The damage whose model answers where a fault wants another model."""


def is_fault(case: str) -> bool:
    """Tell whether a case is a fault of a server; the others are damages of the checkpoint."""
    return variant_of(case)[0] in FAULTS


def run(cases: tuple[str, ...], folder: Path) -> Iterator[Outcome]:
    """Damage the model for each case and start it; then put the faulty servers before a sound one."""
    faults = tuple(case for case in cases if is_fault(case))
    damages = tuple(case for case in cases if case not in faults)
    siblings = (SIBLING,) if any(fault_of(case).second for case in faults) else ()
    made = made_copies((*damages, *siblings), folder / "models")
    yield from several(partial(_damaged, made, folder), damages)
    if faults:
        yield from _faulty(faults, made, folder)


def made_copies(cases: tuple[str, ...], folder: Path) -> dict[str, tuple[str, str]]:
    """Write damaged copies; return the folder of each, and what was drawn."""
    if not cases:
        return {}
    command = [str(ENGINES / "current/bin/python"), "-m", "tests.damage", str(folder), *dict.fromkeys(cases)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{command[:4]}: status {done.returncode}\n{done.stderr[-2000:]}")
    lines = map(json.loads, done.stdout.splitlines())
    return {line["case"]: (line["folder"], line["detail"]) for line in lines}


def _damaged(made: Mapping[str, tuple[str, str]], folder: Path, case: str) -> Outcome:
    source, drawn = made[case]
    damage = damage_of(case)
    what = f"{damage.sentence} ({drawn})"
    with service(folder / Path(source).name, f'[model]\nsource = "{source}"') as rig:
        how = settled(rig)
        asked = Examined(0, "", ()) if how == "ended" else examined(rig)
        why = last_word(rig).replace(f"{source}/", "").replace(source, "the model").removeprefix("failed: ")
    if how == "ended":
        note = "" if damage.fatal else f"the service ended: {why}"
        return Outcome(case=case, passed=damage.fatal, note=note, row=(what, f"the start: {why}", "", "", ""))
    return judged(case, what, asked, how == "ready", damage.excuse)


def judged(case: str, what: str, asked: Examined, called_ready: bool, excuse: str) -> Outcome:
    """Return the outcome of a case whose server was asked: caught, or not and excused."""
    caught = not called_ready and asked.status == 1 and asked.outcome == "wrong" and bool(asked.wrong)
    agreed = called_ready == (asked.status == 0)
    passed = caught or (bool(excuse) and agreed)
    by = ", ".join(asked.wrong) if caught else f"nothing: {excuse or asked.outcome}"
    found = f"ready {called_ready}, exit {asked.status}, {asked.outcome}: {asked.unsure}"
    return Outcome(case=case, passed=passed, note="" if passed else found, row=(what, by, *asked.cells))


def _faulty(cases: tuple[str, ...], made: Mapping[str, tuple[str, str]], folder: Path) -> Iterator[Outcome]:
    """Put each fault before one sound service; where the proxy alone is not called right, nothing is proven."""
    with contextlib.ExitStack() as stack:
        rig = stack.enter_context(service(folder / "sound", ""))
        second = ""
        if SIBLING in made and any(fault_of(case).second for case in cases):
            source = f'[model]\nsource = "{made[SIBLING][0]}"'
            second = _address(stack.enter_context(service(folder / "sibling", source)))
        plain = _behind(rig, second, SOUND.name)
        for case in cases:
            fault = fault_of(case)
            if plain.status != 0:
                note = f"the proxy without a fault: exit {plain.status}, {plain.outcome}: {plain.unsure}"
                yield Outcome(case=case, passed=False, note=note)
            else:
                asked = _behind(rig, second, case)
                yield judged(case, f"server: {fault.sentence}", asked, asked.status == 0, fault.excuse)


def _address(rig: RealRig) -> str:
    return f"http://127.0.0.1:{rig.port}"


def _behind(rig: RealRig, second: str, case: str) -> Examined:
    """Ask the service through a proxy with a fault."""
    holder = reserved_port()
    port = holder.getsockname()[1]
    holder.close()
    command = [sys.executable, "-m", "tests.damage.proxy", "--engine", _address(rig), "--port", str(port)]
    with subprocess.Popen([*command, "--case", case, "--second", second], cwd=ROOT) as proxy:
        try:
            _until_up(f"http://127.0.0.1:{port}/health")
            return examined(rig, base=f"http://127.0.0.1:{port}")
        finally:
            proxy.terminate()


def _until_up(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def remark(outcomes: Mapping[str, Outcome]) -> str:
    """Return the noise beside which the changes stand, and the damage that is nearest to the bounds."""
    margins = {
        case: float(outcome.row[4])
        for case, outcome in outcomes.items()
        if outcome.row[4:] != ("",) and outcome.row[1] == "fingerprint"
    }
    weakest = min(margins, key=margins.__getitem__) if margins else ""
    text = (
        "Changes are those of the fingerprint, in nats a token: mean, largest, and the larger of the two as a multiple "
        "of its bound. A damage may stay uncaught only where its row says why; the noise of a sound model stands "
        "beside it here."
    )
    if weakest:
        text += f' Of those that only the fingerprint sees, the weakest is "{weakest}": {margins[weakest]:.2f} bounds.'
    kept = RESULTS / "sound-starts.json"
    rows = json.loads(kept.read_text()).get("rows", {}).values() if kept.exists() else ()
    noise = [(float(row[1]), float(row[2])) for row in rows if row[1]]
    if noise:
        mean, largest = (max(numbers) for numbers in zip(*noise, strict=True))
        text += f" In {len(noise)} sound starts the mean change was at most {mean:.3f}, the largest {largest:.2f}."
    return text


KINDS = (*DAMAGES, *FAULTS)

DAMAGED = Proof(
    name="damages",
    promise=(
        "the default questions of the demonstration model call every damaged copy of it wrong, and every server that "
        "spoils its answers: it is not ready, and `vllm-serve selftest` exits with 1; what does not even start is "
        "caught by the start"
    ),
    covers=(
        *("demo/model", "demo/fingerprint.json", "appliance/recipes/demo.toml", "appliance/engine/lock"),
        *("appliance/selftest", "appliance/core/fingerprint.py", "tests/damage", "tests/proof/damages.py"),
        "tests/proof/trial.py",
    ),
    seed=0,
    cases=KINDS,
    quick=tuple(case_of(name, variant) for name in KINDS for variant in range(1, VARIANTS + 1)),
    slice_size=2,
    run=run,
    versions=versions,
    columns=("what was done", "caught by", "mean", "largest", "of the bound"),
    remark=remark,
)
