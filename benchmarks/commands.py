"""How long the command takes, against an interpreter that does nothing, in the same run.

Run: python3 benchmarks/commands.py. It prints one line a command: the ratio of the medians and the most it may be.
Times on shared machines are noise, ratios of the same run are not: each round runs every command once.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = (sys.executable, "-I", "-c", "pass")
COMMAND = (sys.executable, "-P", "-s", "-m", "appliance.cli.main")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
CONFIG = 'recipe = "glm53-flash/gx10"\n[api]\nhost = "0.0.0.0"\nport = 8002\nallow_unauthenticated = true\n'
ROUNDS = 11

MOST = {"--help": 10, "config check": 20, "plan": 25}
"""Times the baseline. Measured: 3 to 5, 10 to 15.5 and 15 to 20.6. Most of a plan is importing the records of the core,
all of which it needs, and click; 20 was aimed at, and a loaded machine goes over it."""


def seconds(command: tuple[str, ...]) -> float:
    """Run a command from the source tree and return how long it took. Raises CalledProcessError."""
    start = time.perf_counter()
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    return time.perf_counter() - start


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return what is measured, by its name."""
    config, facts = folder / "vllm-serve.toml", folder / "facts.json"
    config.write_text(CONFIG)
    machine = ROOT / "tests/roots/gx10-two"
    command = (*COMMAND, "facts", "--root", str(machine), "--json")
    looked = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    facts.write_bytes(looked.stdout)
    config.write_text(f"{CONFIG}[knobs]\nallow_stock = true\n")
    return {
        "--help": (*COMMAND, "--help"),
        "config check": (*COMMAND, "config", "check", str(config)),
        "plan": (*COMMAND, "plan", "--config", str(config), "--facts", str(facts), "--json"),
    }


def main() -> int:
    """Measure, print, and return 1 when something takes longer than it may."""
    with tempfile.TemporaryDirectory() as folder:
        measured = {"baseline": BASELINE, **commands(Path(folder))}
        times: dict[str, list[float]] = {name: [] for name in measured}
        for _ in range(ROUNDS):
            for name, command in measured.items():
                times[name].append(seconds(command))
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratios = {name: medians[name] / medians["baseline"] for name in MOST}
    for name, ratio in ratios.items():
        print(f"{name:<14} {ratio:5.1f} times python3 -I -c pass, at most {MOST[name]}")
    return int(any(ratio > MOST[name] for name, ratio in ratios.items()))


if __name__ == "__main__":
    sys.exit(main())
