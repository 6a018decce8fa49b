"""A supervisor with a fake engine."""

import json
import struct
import sys
from pathlib import Path

from tests.rig import ROOT, Rig

FAKE = ROOT / "tests/fakes/vllm.py"
LOG = ROOT / "tests/fixtures/engine-logs/ok_start_stop_sigterm.log"
MANIFEST = {"id": "fake", "vllm": "0.32.0", "torch": "2.13.0", "device": "cpu", "python": "3.11", "lock": "0"}


class FakeRig(Rig):
    """One supervisor, whose engine is the fake."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "engines")
        self._engine()
        self._checkpoint()
        self.write()

    def _engine(self) -> None:
        folder = self.engines / "fake"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").symlink_to(sys.executable)
        (folder / "bin/vllm").symlink_to(FAKE)
        (folder / "engine.json").write_text(json.dumps(MANIFEST))
        (self.engines / "current").symlink_to("fake")

    def _checkpoint(self) -> None:
        model = self.folder / "model"
        model.mkdir()
        (model / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
        (model / "tokenizer.json").write_text("{}")
        (model / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")

    def write(self, more: str = "", /, **knobs: str | int | Path) -> None:
        """Write the configuration; knobs are those of the fake engine."""
        env = "\n".join(f'FAKE_{name} = "{value}"' for name, value in {"LOG": LOG, **knobs}.items())
        super().write(f'{more}\n[model]\nsource = "{self.folder}/model"\n[env]\n{env}')
