"""Readers of the machine below a root: checkpoint, engine, memory, port, and the snapshot of all."""

import json
import socket
import struct
from pathlib import Path

import pytest

from appliance.core.codec import json_of, record_of
from appliance.core.facts import Facts, FileFacts
from appliance.core.inquiry import Inquiry, plain_inquiry
from appliance.host.checkpoint import LARGEST_CONFIG, checkpoint_facts, config_line, header_fault
from appliance.host.engine import engine_facts
from appliance.host.gather import gather
from appliance.host.memory import memory_bytes
from appliance.host.network import port_facts


def safetensors(file: Path, tensors: int = 8, cut: int = 0) -> Path:
    header = json.dumps({"w": {"dtype": "U8", "shape": [tensors], "data_offsets": [0, tensors]}}).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(tensors)
    file.write_bytes(data[: len(data) - cut])
    return file


def checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    config = {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 1024}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer.json").write_text("{}")
    safetensors(folder / "model.safetensors")
    return folder


def test_a_whole_checkpoint_lacks_nothing(tmp_path: Path) -> None:
    checkpoint(tmp_path / "models/m")
    facts = checkpoint_facts(tmp_path, "/models/m")
    assert (facts.folder, facts.architecture, facts.max_position_embeddings) == ("/models/m", "Qwen3ForCausalLM", 1024)
    assert facts.missing == ()
    assert [(file.name, file.fault) for file in facts.weights] == [("model.safetensors", None)]


def test_the_config_is_kept_as_one_line(tmp_path: Path) -> None:
    checkpoint(tmp_path / "m")
    kept = '{"architectures":["Qwen3ForCausalLM"],"max_position_embeddings":1024}'
    assert checkpoint_facts(tmp_path, "/m").config == kept


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "\x00\xff", "[" * 5000])
def test_a_config_that_is_no_table_is_unknown(tmp_path: Path, text: str) -> None:
    (checkpoint(tmp_path / "m") / "config.json").write_text(text)
    facts = checkpoint_facts(tmp_path, "/m")
    assert (facts.config, facts.architecture, facts.max_position_embeddings) == (None, None, None)
    with pytest.raises(LookupError, match=r"/m/config\.json"):
        config_line(tmp_path, "/m")


def test_a_config_that_is_too_long_is_unknown_and_the_snapshot_says_so(tmp_path: Path) -> None:
    config = {"architectures": ["A"], "padding": "x" * LARGEST_CONFIG}
    (checkpoint(tmp_path / "m") / "config.json").write_text(json.dumps(config))
    inquiry = Inquiry(engines="/engines", engine=None, model="/m", host="127.0.0.1", port=8000, held=True)
    facts = gather(tmp_path, inquiry)
    assert facts.checkpoint is not None
    assert (facts.checkpoint.architecture, facts.checkpoint.config) == ("A", None)
    assert "more than 262144" in facts.why_unread("config of /m")


@pytest.mark.parametrize("positions", [True, "1024", 1.5, None, [1]])
def test_a_length_that_is_no_number_is_unknown(tmp_path: Path, positions: object) -> None:
    config = {"architectures": [7], "max_position_embeddings": positions}
    (checkpoint(tmp_path / "m") / "config.json").write_text(json.dumps(config))
    facts = checkpoint_facts(tmp_path, "/m")
    assert (facts.max_position_embeddings, facts.architecture) == (None, None)


def test_the_length_of_a_model_of_several_kinds_is_that_of_its_text(tmp_path: Path) -> None:
    config = {"max_position_embeddings": 1, "text_config": {"max_position_embeddings": 2048}}
    (checkpoint(tmp_path / "m") / "config.json").write_text(json.dumps(config))
    assert checkpoint_facts(tmp_path, "/m").max_position_embeddings == 2048


def test_shards_that_the_index_names_must_be_there(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m")
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert checkpoint_facts(tmp_path, "/m").missing == ("model-2.safetensors",)


def test_weights_behind_links_are_found_as_a_hub_cache_keeps_them(tmp_path: Path) -> None:
    blob = safetensors(tmp_path / "blob")
    folder = checkpoint(tmp_path / "cache/snapshots/1")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/blob")
    (folder / "gone.safetensors").symlink_to("/nowhere")
    weights = checkpoint_facts(tmp_path, "/cache/snapshots/1").weights
    assert [(file.name, file.bytes, file.fault) for file in weights] == [
        ("model.safetensors", blob.stat().st_size, None)
    ]


def test_an_empty_folder_lacks_everything(tmp_path: Path) -> None:
    missing = ("config.json", "a tokenizer (tokenizer.json or the like)", "weights (*.safetensors)")
    assert checkpoint_facts(tmp_path, "/").missing == missing


def test_an_absent_folder_is_told() -> None:
    with pytest.raises(LookupError, match="there is no folder /nowhere"):
        checkpoint_facts(Path("/"), "/nowhere")


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("x")
    with pytest.raises(LookupError, match="the folder /m can't be read: Not a directory"):
        checkpoint_facts(tmp_path, "/m")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "too short for a header"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\xff" * 16, "its header claims 18446744073709551615 bytes in a file of 16"),
        (struct.pack("<Q", 2) + b"[]", "not a table of tensors"),
        (struct.pack("<Q", 2) + b"{}" + b"x", "is 11 bytes long, its header describes 10"),
    ],
)
def test_a_header_that_does_not_describe_its_file_is_a_fault(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "x.safetensors"
    file.write_bytes(content)
    assert told in (header_fault(file, len(content)) or "")


def test_a_truncated_file_is_a_fault(tmp_path: Path) -> None:
    file = safetensors(tmp_path / "x.safetensors", cut=3)
    assert "its header describes" in (header_fault(file, file.stat().st_size) or "")


def test_memory_is_read_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       24625136 kB\nMemAvailable:   23991292 kB\n")
    assert memory_bytes(tmp_path, "MemTotal") == 24625136 * 1024
    assert memory_bytes(tmp_path, "MemAvailable") == 23991292 * 1024


@pytest.mark.parametrize("text", ["MemTotal:\n", "MemTotal: x kB\n", "MemTotal: 12\n", "SwapTotal: 0 kB\n", "\n", "\0"])
def test_memory_is_unknown_where_the_kernel_is_silent(tmp_path: Path, text: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(text)
    with pytest.raises(LookupError, match=r"/proc/meminfo (has no line MemTotal|is empty)"):
        memory_bytes(tmp_path, "MemTotal")


def test_a_busy_port_is_told_and_may_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = port_facts("127.0.0.1", server.getsockname()[1])
    assert facts.fault == "Address already in use"
    assert facts.transient


def test_an_address_of_another_machine_is_told() -> None:
    assert port_facts("192.0.2.1", 8000).fault == "Cannot assign requested address"


def engine(engines: Path, manifest: str) -> Path:
    folder = engines / "e1"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    (folder / "engine.json").write_text(manifest)
    (engines / "current").symlink_to("e1")
    return folder


MANIFEST = '{"id": "e1", "vllm": "0.32.0+cpu", "torch": "2.13.0+cpu", "device": "cpu", "python": "3.11", "lock": "0"}'


def test_the_engine_in_use_is_found_through_its_link(tmp_path: Path) -> None:
    engine(tmp_path / "engines", MANIFEST)
    facts = engine_facts(tmp_path, "/engines", None)
    assert (facts.folder, facts.vllm, facts.tree, facts.options) == ("/engines/e1", "0.32.0+cpu", None, None)
    assert engine_facts(tmp_path, "/engines", "e1").id == "e1"


def test_an_engine_of_this_machine_is_named_by_its_folder_and_not_by_its_link(tmp_path: Path) -> None:
    folder = engine(tmp_path, MANIFEST)
    assert engine_facts(Path("/"), str(tmp_path), None).folder == str(folder)


def test_an_engine_with_a_source_tree_names_it(tmp_path: Path) -> None:
    engine(tmp_path, MANIFEST.replace("}", ', "tree": "/opt/vllm"}'))
    assert engine_facts(tmp_path, "/", None).tree == "/opt/vllm"


def test_a_copied_engine_may_hold_only_the_link_to_its_interpreter(tmp_path: Path) -> None:
    python = engine(tmp_path / "engines", MANIFEST) / "bin/python"
    python.unlink()
    with pytest.raises(LookupError, match="/engines/current/bin/python is gone"):
        engine_facts(tmp_path, "/engines", None)
    python.symlink_to("/usr/bin/no-such-python")
    assert engine_facts(tmp_path, "/engines", None).id == "e1"
    with pytest.raises(LookupError, match="bin/python is gone"):
        engine_facts(Path("/"), f"{tmp_path}/engines", None)


@pytest.mark.parametrize(
    ("wanted", "manifest", "told"),
    [
        ("other", MANIFEST, "engine other is not installed"),
        (None, "{}", "is damaged: it names no vllm"),
        (None, MANIFEST.replace('"e1"', "7"), "is damaged: it names no id"),
        (None, "", "is empty"),
        (None, "{", "is not JSON"),
        (None, "[]", "holds no table but"),
        (None, "[" * 100_000, "is not JSON"),
    ],
)
def test_an_engine_that_can_not_be_used_says_why(tmp_path: Path, wanted: str | None, manifest: str, told: str) -> None:
    engine(tmp_path, manifest)
    with pytest.raises(LookupError, match=told):
        engine_facts(tmp_path, "/", wanted)


def test_half_an_engine_is_none(tmp_path: Path) -> None:
    (engine(tmp_path, MANIFEST) / "engine.json").unlink()
    with pytest.raises(LookupError, match="no engine is installed"):
        engine_facts(tmp_path, "/", None)


def test_a_link_to_itself_is_no_engine(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("current")
    for root, engines in ((tmp_path, "/"), (Path("/"), str(tmp_path))):
        with pytest.raises(LookupError, match=r"links|can't be read: Too many levels"):
            engine_facts(root, engines, None)


def test_a_snapshot_survives_the_way_through_json(tmp_path: Path) -> None:
    checkpoint(tmp_path / "m")
    inquiry = Inquiry(engines="/engines", engine=None, model="/m", host="127.0.0.1", port=8000, held=True)
    facts = gather(tmp_path, inquiry)
    assert facts.checkpoint is not None
    assert facts.engine is None
    assert facts.why_unread("engine") == "no engine is installed"
    assert record_of(Facts, json_of(facts)) == facts


def test_of_this_machine_only_what_was_asked_for_is_looked_for(tmp_path: Path) -> None:
    checkpoint(tmp_path / "m")
    asked = (f"{tmp_path}/m/config.json", f"{tmp_path}/nothing")
    inquiry = Inquiry(engines=str(tmp_path), engine=None, model=None, host="127.0.0.1", port=0, held=False, files=asked)
    facts = gather(Path("/"), inquiry)
    assert facts.files == (FileFacts(path=asked[0], exists=True), FileFacts(path=asked[1], exists=False))
    assert (facts.searched, facts.checkpoints) == ((), ())
    assert (facts.has_file(asked[1]), facts.has_file("/elsewhere")) == (False, None)
    assert facts.port is not None
    assert facts.port.fault is None
    assert record_of(Facts, json_of(facts)) == facts


def test_without_a_configuration_nothing_is_asked_for_by_name() -> None:
    inquiry = plain_inquiry()
    assert (inquiry.engines, inquiry.engine, inquiry.model) == ("/var/lib/vllm-serve/engines", None, None)
    assert record_of(Inquiry, json_of(inquiry)) == inquiry


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"engine": 3}'])
def test_json_that_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        record_of(Facts, text)
