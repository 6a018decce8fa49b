"""A supervisor as a real process, with a notify socket of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]


def reserved_port() -> socket.socket:
    """Return a socket that keeps a port from everyone but those who ask for it by number."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Rig:
    """One supervisor, the folder that it lives in, and the engines that it may start."""

    patience = 20.0
    """Seconds that a wait may last."""

    tries, losses = 1, 1
    """How many launches may fail in a row, and how many engines that were ready may be lost: fewer than by default."""

    def __init__(self, folder: Path, engines: Path) -> None:
        self.folder = folder
        self.engines = engines
        self.runtime = folder / "run"
        self.runtime.mkdir()
        self.config = folder / "vllm-serve.toml"
        self._holder = reserved_port()
        self.port: int = self._holder.getsockname()[1]
        self.told: list[str] = []
        """Every line that systemd would have heard."""
        self.process: subprocess.Popen[str] | None = None
        self._listen()
        self.write()

    def _listen(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.folder / "notify"))
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        while datagram := self._socket.recv(65536):
            self.told += datagram.decode("ascii").splitlines()

    def write(self, more: str = "", /) -> None:
        """Write the configuration: the demonstration on our port, and more."""
        self.config.write_text(
            f'recipe = "demo"\n[api]\nport = {self.port}\n'
            f'[restart]\ntries = {self.tries}\nlosses = {self.losses}\npause = "200ms"\n'
            f'[paths]\nengines = "{self.engines}"\n{more}\n'
        )

    def start(self) -> None:
        """Start the supervisor."""
        command = [sys.executable, "-m", "appliance.cli.main", "serve"]
        command += ["--config", str(self.config), "--runtime", str(self.runtime)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NOTIFY_SOCKET": str(self.folder / "notify")}
        environment.pop("JOURNAL_STREAM", None)
        log = (self.folder / "log").open("w")
        self.process = subprocess.Popen(command, env=environment, stderr=log, stdout=log, text=True)
        log.close()

    @property
    def log(self) -> str:
        """What the supervisor and the engine printed."""
        return (self.folder / "log").read_text()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something, or fail with everything that was said."""
        deadline = time.monotonic() + self.patience
        while not condition():
            late = time.monotonic() >= deadline
            assert not late, f"waited {self.patience:g} s for {what}; told {self.told}; log:\n{self.log}"
            time.sleep(0.02)

    def until_ready(self, times: int = 1) -> None:
        self.until(lambda: self.told.count("READY=1") >= times, f"READY=1, {times} times")

    def signal(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end of the supervisor; return its exit status."""
        assert self.process
        try:
            return self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the supervisor did not end; log:\n{self.log}") from None

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def family(self) -> list[psutil.Process]:
        """Return the living processes below the supervisor, and those that it should have ended."""
        marked = []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if str(self.folder) in " ".join(words) and process.status() != psutil.STATUS_ZOMBIE:
                marked.append(process)
        return marked

    def engine(self, title: str) -> psutil.Process:
        """Return a process of the engine by its title; of several, the newest."""
        assert self.process
        found = [p for p in psutil.Process(self.process.pid).children(recursive=True) if title in " ".join(p.cmdline())]
        return max(found, key=lambda process: process.create_time())

    def status(self) -> dict[str, object]:
        table: dict[str, object] = json.loads((self.runtime / "status.json").read_text())
        return table

    def close(self) -> None:
        """End whatever is left, also after a failed test."""
        if self.process and self.process.poll() is None:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.kill()
            self.process.wait()
        self._socket.close()
        self._holder.close()
