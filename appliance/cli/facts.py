"""`vllm-serve facts`: what the machine is and has."""

from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from appliance.cli.option import CONFIG, config_option
from appliance.core.codec import json_of, record_of
from appliance.core.facts import CheckpointFacts, Facts, FileSystem, GpuFacts, RdmaPort
from appliance.core.inquiry import Inquiry, inquiry_of, plain_inquiry
from appliance.core.problem import Problem, RefusedError
from appliance.core.redaction import redacted
from appliance.core.unit import shown_bytes
from appliance.host.gather import gather
from appliance.host.source import is_there, is_this_machine, place
from appliance.service.configfile import read_config
from appliance.service.share import SHARE, chosen_recipe

INSTALLED = "/usr/share/vllm-serve"
"""Where another machine has the files that come with the program."""


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option("--inquiry", hidden=True, help="What to look at, as JSON; the supervisor uses it.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    help="Look below this folder, a copy of another machine's files.",
)
@click.option("--redact", is_flag=True, help="Replace addresses, GPU UUIDs and user names, to show it to others.")
def command(config_file: Path, as_json: bool, inquiry: str | None, root: Path, redact: bool) -> None:
    """Show what vllm-serve sees of this machine: one snapshot, as each start takes it."""
    facts = gather(root, _inquiry(inquiry) if inquiry else _wanted(root, config_file))
    facts = redacted(facts) if redact else facts
    click.echo(json_of(facts) if as_json else "\n".join(_lines(facts)))


def _inquiry(text: str) -> Inquiry:
    try:
        return record_of(Inquiry, text)
    except ValueError as error:
        raise click.UsageError(f"--inquiry: {error}") from None


def _wanted(root: Path, config_file: Path) -> Inquiry:
    """Return what a configuration names; nothing by name where none was given and there is none below the root."""
    if click.get_current_context().get_parameter_source("config_file") == ParameterSource.DEFAULT:
        try:
            if not is_there(root, str(CONFIG)):
                return plain_inquiry()
            config_file = place(root, str(CONFIG))
        except LookupError as error:
            raise RefusedError([Problem(file=str(CONFIG), line=None, key="", what=str(error))]) from None
    config = read_config(config_file)
    return inquiry_of(config, chosen_recipe(config, str(SHARE) if is_this_machine(root) else INSTALLED))


def _lines(facts: Facts) -> Iterator[str]:
    """Yield what was found, a line each, what stayed unknown last."""
    if facts.engine:
        tree = f", tree {facts.engine.tree}" if facts.engine.tree else ""
        yield f"engine      {facts.engine.id}: vllm {facts.engine.vllm}, torch {facts.engine.torch}{tree}"
    if facts.checkpoint:
        yield f"checkpoint  {_checkpoint(facts.checkpoint)}"
    yield from (f"found       {_checkpoint(other)}" for other in facts.checkpoints)
    yield from (f"{f'gpu {gpu.index}':11} {_gpu(gpu)}" for gpu in facts.gpus or ())
    if facts.gpus == ():
        yield "gpu         none"
    yield f"cuda        driver {facts.driver_cuda or 'unknown'}, nvcc {facts.nvcc_cuda or 'unknown'}"
    yield f"memory      {_size(facts.memory_available)} of {_size(facts.memory_total)} available"
    for node in facts.numa or ():
        yield f"{f'numa {node.index}':11} cpus {node.cpus or 'none'}, {_size(node.memory_total)}"
    for address in facts.addresses or ():
        yield f"address     {address.interface} {address.address}/{address.prefix} {address.scope}"
    yield from (f"rdma        {_rdma_port(port)}" for port in facts.rdma or ())
    if facts.rdma == ():
        yield "rdma        none"
    yield from (f"disk        {_file_system(system)}" for system in facts.file_systems or ())
    if facts.files:
        yield f"files       {sum(file.exists for file in facts.files)} found"
    yield from (f"no file     {file.path}" for file in facts.files if not file.exists)
    if facts.port:
        yield f"port        {facts.port.host} port {facts.port.port}: {facts.port.fault or 'free'}"
    yield from (f"unknown     {entry.what}: {entry.reason}" for entry in facts.unread)


def _checkpoint(checkpoint: CheckpointFacts) -> str:
    weights = shown_bytes(sum(file.bytes for file in checkpoint.weights))
    faults = [f"{file.name} {file.fault}" for file in checkpoint.weights if file.fault]
    lacks = [f"lacks {', '.join(checkpoint.missing)}"] if checkpoint.missing else []
    return "; ".join([f"{checkpoint.folder}: {checkpoint.architecture or 'unknown'}, {weights}", *lacks, *faults])


def _gpu(gpu: GpuFacts) -> str:
    parts = [f"{_size(gpu.memory_free)} of {_size(gpu.memory_total)} free"]
    parts += [f"compute capability {gpu.compute_capability}"] if gpu.compute_capability else []
    parts += [f"at {gpu.pci_address}"] if gpu.pci_address else []
    parts += [f"NUMA node {gpu.numa_node}"] if gpu.numa_node is not None else []
    return f"{gpu.name or 'without a name'}: {', '.join(parts)}"


def _rdma_port(port: RdmaPort) -> str:
    rate = f"{port.rate:g} Gb/s" if port.rate is not None else "unknown rate"
    gids = ", ".join(f"{gid.index} {gid.kind} {gid.gid} {gid.interface or ''}".rstrip() for gid in port.gids)
    state = f"{port.state or 'unknown'}, {port.physical_state or 'unknown'}"
    return f"{port.device} port {port.port}: {state}, {rate}, at {port.pci_address or 'no bus'}; gid {gids or 'none'}"


def _file_system(system: FileSystem) -> str:
    return f"{system.mount} ({system.kind or 'unknown'}): {_size(system.free)} of {_size(system.total)} free"


def _size(size: int | None) -> str:
    return shown_bytes(size) if size is not None else "unknown"
