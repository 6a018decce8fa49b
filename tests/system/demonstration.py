"""`make run`: the package, a real machine, a real model, and its answers, for a person to watch."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.appliance_machine import appliance_machine
from tests.system.cache import cache_folder
from tests.system.host import can_boot
from tests.system.machine import Machine
from tests.system.package import TREE, built_package
from tests.system.root import debian_root

ADDRESS = ("127.0.0.1", 8000)
URL = f"http://{ADDRESS[0]}:{ADDRESS[1]}/v1/chat/completions"
QUESTIONS = ("What is the capital of Japan?", "Count from 3 to 21.")
SECONDS_TO_START = 1800.0
"""The first start downloads and installs the engine."""


def say(text: str) -> None:
    """Tell the person what happens."""
    print(text, flush=True)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say what is being done, and how long it took."""
    say(f"\n== {what}")
    start = time.monotonic()
    yield
    say(f"== {time.monotonic() - start:.1f} s")


def curl(question: str) -> list[str]:
    """Return the command that asks the model a question over the OpenAI API."""
    body = {"model": "demo", "messages": [{"role": "user", "content": question}], "temperature": 0}
    return ["curl", "-sS", URL, "-H", "Content-Type: application/json", "-d", json.dumps(body, ensure_ascii=False)]


def answer_of(printed: str) -> str:
    """Return what the model said."""
    return str(json.loads(printed)["choices"][0]["message"]["content"])


def port_taken() -> bool:
    """Tell whether something of this machine listens where the model would."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(ADDRESS)
        except OSError:
            return True
    return False


def follow(machine: Machine, command: list[str]) -> None:
    """Run a command in the machine while its journal is shown. Raises SystemExit when it fails."""
    units = [f"--unit={unit}" for unit in ("vllm-serve", "vllm-serve-engine")]
    journal = machine.start(["journalctl", "--follow", "--no-hostname", "--output=short-precise", *units], output=1)
    try:
        done = machine.run(command, check=False, timeout=SECONDS_TO_START)
    finally:
        time.sleep(0.5)
        journal.terminate()
        journal.wait()
    if done.returncode:
        say(machine.run("systemctl status --no-pager --full vllm-serve vllm-serve-engine", check=False).stdout)
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")


def in_container() -> None:
    """Show the whole way, from the source tree to an answer, in a booted Debian container."""
    cache = cache_folder()
    with doing(f"Debian 12 with systemd (kept in {cache})"):
        debian = debian_root(cache)
    with doing("building the package"):
        package = built_package(cache / "packages")
        say(str(package.name))
    start = time.monotonic()
    say("\n== booting the container and installing the package with apt")
    with appliance_machine(debian, package, cache, "host") as machine:
        say(f"== {time.monotonic() - start:.1f} s")
        with doing("systemctl start vllm-serve (the first start ever installs the engine, which takes minutes)"):
            follow(machine, ["systemctl", "start", "vllm-serve"])
        for question in QUESTIONS:
            with doing(f"curl {URL}: {question}"):
                say(answer_of(machine.run(curl(question)).stdout))
        with doing("systemctl status vllm-serve"):
            say(machine.run("systemctl status --no-pager --lines=5 vllm-serve").stdout)
        with doing("systemctl stop vllm-serve"):
            follow(machine, ["systemctl", "stop", "vllm-serve"])
            say(machine.run("systemctl is-active vllm-serve", check=False).stdout.strip())


def in_foreground() -> None:
    """Show the same supervisor without a systemd: in the foreground, with a notify socket of our own."""
    command = [str(TREE / "bin/vllm-serve")]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "vllm-serve.toml"
        config.write_text(f'recipe = "demo"\n[paths]\nengines = "{cache_folder()}/engines"\n')
        with doing("vllm-serve engine install"):
            subprocess.run([*command, "engine", "--config", str(config), "install", "--if-missing"], check=True)
        with doing("vllm-serve serve"), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(f"{folder}/notify")
            environment = {**os.environ, "NOTIFY_SOCKET": f"{folder}/notify"}
            serve = [*command, "serve", "--config", str(config), "--runtime", folder]
            supervisor = subprocess.Popen(serve, env=environment)
            _wait_until_ready(notify, supervisor)
        try:
            for question in QUESTIONS:
                with doing(f"curl {URL}: {question}"):
                    say(answer_of(subprocess.run(curl(question), capture_output=True, text=True, check=True).stdout))
        finally:
            supervisor.send_signal(signal.SIGTERM)
            say(f"the supervisor ended with status {supervisor.wait()}")


def _wait_until_ready(notify: socket.socket, supervisor: "subprocess.Popen[bytes]") -> None:
    notify.settimeout(1)
    while supervisor.poll() is None:
        try:
            told = notify.recv(65536).decode()
        except TimeoutError:
            continue
        if "READY=1" in told.split("\n"):
            return
    raise SystemExit(f"the supervisor ended with status {supervisor.returncode} before it was ready")


def main() -> None:
    """Run the demonstration where and how it can be run here."""
    if port_taken():
        raise SystemExit(f"port {ADDRESS[1]} of {ADDRESS[0]} is taken; stop what listens there (ss -ltnp)")
    if not shutil.which("curl"):
        raise SystemExit("curl is missing: apt-get install curl")
    reason = can_boot()
    start = time.monotonic()
    if reason is None:
        in_container()
    else:
        say(f"no container can be booted here: {reason}\nthe same supervisor runs in the foreground instead")
        in_foreground()
    say(f"\nall of it took {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
