"""One snapshot of the machine; run in a process of its own, because a driver can hang for good."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from appliance.core.facts import CheckpointFacts, Facts, FileFacts, PortFacts
from appliance.core.inquiry import Inquiry
from appliance.host.address import addresses
from appliance.host.cgroup import own_pids
from appliance.host.checkpoint import checkpoint_facts, config_line
from appliance.host.cuda import nvcc_release, toolkit_below
from appliance.host.engine import engine_facts, packages_of
from appliance.host.filesystem import file_systems
from appliance.host.gpu import driver_of
from appliance.host.inventory import Inventory, inventory
from appliance.host.memory import memory_bytes
from appliance.host.network import port_facts
from appliance.host.notebook import Notebook
from appliance.host.numa import numa_nodes
from appliance.host.rdma import rdma_ports
from appliance.host.source import is_file, is_this_machine

MOST_CHECKPOINTS = 256

CUDA_HOME = "/usr/local/cuda"
"""Where a toolkit lies that did not come with the engine's wheels."""


def gather(root: Path, inquiry: Inquiry) -> Facts:
    """Return what the machine below a root is and has. Folders in the inquiry are taken below the root too."""
    notebook = Notebook()
    ask = notebook.ask
    model = inquiry.model
    driver = driver_of(root, notebook, own_pids(inquiry.supervisor) if inquiry.engine_runs else frozenset())
    found = inventory(root)
    folders = [folder for folder in (model, inquiry.cache, inquiry.engines) if folder]
    engine = ask("engine", lambda: engine_facts(root, inquiry.engines, inquiry.engine))
    packages = packages_of(root, engine)
    home = inquiry.cuda_home or next((home for folder in packages if (home := toolkit_below(root, folder))), CUDA_HOME)
    return Facts(
        engine=engine,
        checkpoint=ask("checkpoint", lambda: _checkpoint(root, model, notebook)) if model else None,
        gpus=driver.gpus,
        memory_total=ask("memory_total", lambda: memory_bytes(root, "MemTotal")),
        memory_available=ask("memory_available", lambda: memory_bytes(root, "MemAvailable")),
        engine_runs=inquiry.engine_runs,
        port=ask("port", lambda: _port(root, inquiry)) if not inquiry.held else None,
        checkpoints=_others(root, model, found, notebook),
        driver_cuda=driver.cuda,
        nvcc_cuda=ask("nvcc_cuda", lambda: nvcc_release(root, home)),
        numa=ask("numa", lambda: numa_nodes(root, notebook)),
        addresses=ask("addresses", lambda: addresses(root)),
        rdma=ask("rdma", lambda: rdma_ports(root, notebook)),
        file_systems=ask("file_systems", lambda: file_systems(root, folders, notebook)),
        files=_files(root, (*inquiry.files, *_below(packages, inquiry.packaged)), found, notebook),
        searched=("/",) if found.complete else (),
        unread=tuple(notebook.unread),
    )


def _checkpoint(root: Path, folder: str, notebook: Notebook) -> CheckpointFacts:
    facts = checkpoint_facts(root, folder)
    if facts.config is None and "config.json" not in facts.missing:
        notebook.ask(f"config of {folder}", lambda: config_line(root, folder))
    return facts


def _others(root: Path, model: str | None, found: Inventory, notebook: Notebook) -> tuple[CheckpointFacts, ...]:
    """Return the folders below a root that hold a config.json, save the one that was asked for."""
    folders = [file.removesuffix("/config.json") for file in found.files if file.endswith("/config.json")]
    others = [folder for folder in folders if folder and folder != (model or "").rstrip("/")]
    if len(others) > MOST_CHECKPOINTS:
        notebook.note("checkpoints", f"{len(others)} folders hold a config.json, {MOST_CHECKPOINTS} were read")
    asked = (
        notebook.ask(f"checkpoint {folder}", partial(_checkpoint, root, folder, notebook))
        for folder in others[:MOST_CHECKPOINTS]
    )
    return tuple(facts for facts in asked if facts)


def _files(root: Path, asked: tuple[str, ...], found: Inventory, notebook: Notebook) -> tuple[FileFacts, ...]:
    """Return the files that were asked for, then those that a walk found besides."""
    there = {path: notebook.ask(f"file {path}", partial(is_file, root, path)) for path in asked}
    return (
        *(FileFacts(path=path, exists=exists) for path, exists in there.items() if exists is not None),
        *(FileFacts(path=path, exists=True) for path in found.files if path not in there),
    )


def _below(folders: tuple[str, ...], names: tuple[str, ...]) -> Iterator[str]:
    return (f"{folder}/{name}" for folder in folders for name in names)


def _port(root: Path, inquiry: Inquiry) -> PortFacts:
    if not is_this_machine(root):
        raise LookupError("only the machine itself can tell")
    return port_facts(inquiry.host, inquiry.port)
