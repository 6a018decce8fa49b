"""Readers of the machine below a root."""

import json
import socket
import struct
from pathlib import Path

import pytest

from appliance.core.codec import json_of, record_of
from appliance.core.facts import Facts
from appliance.core.inquiry import Inquiry
from appliance.host.checkpoint import checkpoint_facts, header_fault
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
    folder.mkdir()
    config = {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 1024}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    safetensors(folder / "model.safetensors")
    return folder


def test_a_whole_checkpoint_lacks_nothing(tmp_path: Path) -> None:
    facts = checkpoint_facts(checkpoint(tmp_path / "m"))
    assert (facts.architecture, facts.max_position_embeddings, facts.missing) == ("Qwen3ForCausalLM", 1024, ())
    assert [file.fault for file in facts.weights] == [None]


def test_shards_that_the_index_names_must_be_there(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m")
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert checkpoint_facts(folder).missing == ("model-2.safetensors",)


def test_an_empty_folder_lacks_everything(tmp_path: Path) -> None:
    missing = ("config.json", "a tokenizer (tokenizer.json or the like)", "weights (*.safetensors)")
    assert checkpoint_facts(tmp_path).missing == missing


def test_an_absent_folder_is_told() -> None:
    with pytest.raises(LookupError, match="there is no folder /nowhere"):
        checkpoint_facts(Path("/nowhere"))


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


def test_memory_is_read_in_bytes_and_unknown_where_the_kernel_is_silent(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       24625136 kB\nMemAvailable:   23991292 kB\n")
    assert memory_bytes(tmp_path, "MemTotal") == 24625136 * 1024
    assert memory_bytes(tmp_path, "SwapTotal") is None
    assert memory_bytes(tmp_path / "nowhere", "MemTotal") is None


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
    folder = engine(tmp_path, MANIFEST)
    assert engine_facts(tmp_path, None).folder == str(folder)
    assert engine_facts(tmp_path, "e1").id == "e1"


@pytest.mark.parametrize(
    ("wanted", "manifest", "told"),
    [
        ("other", MANIFEST, "engine other is not installed"),
        (None, "{}", "is damaged"),
        (None, "", "is damaged"),
        (None, "[]", "is damaged"),
    ],
)
def test_an_engine_that_can_not_be_used_says_why(tmp_path: Path, wanted: str | None, manifest: str, told: str) -> None:
    engine(tmp_path, manifest)
    with pytest.raises(LookupError, match=told):
        engine_facts(tmp_path, wanted)


def test_half_an_engine_is_none(tmp_path: Path) -> None:
    (engine(tmp_path, MANIFEST) / "engine.json").unlink()
    with pytest.raises(LookupError, match="no engine is installed"):
        engine_facts(tmp_path, None)


def test_a_snapshot_survives_the_way_through_json(tmp_path: Path) -> None:
    checkpoint(tmp_path / "m")
    inquiry = Inquiry(engines="/engines", engine=None, model="/m", host="127.0.0.1", port=8000, held=True)
    facts = gather(tmp_path, inquiry)
    assert facts.checkpoint is not None
    assert facts.engine is None
    assert facts.why_unread("engine") == "no engine is installed"
    assert record_of(Facts, json_of(facts)) == facts


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"engine": 3}'])
def test_json_that_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        record_of(Facts, text)
