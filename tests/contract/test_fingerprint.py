"""Fingerprints: transformers a layer at a time, the whole model at once, and the real vLLM say the same."""

import dataclasses
import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from appliance.core.codec import record_of
from appliance.core.fingerprint import PASSAGES, Passage, Prompt, Reference, change_of, passages_of
from appliance.engine.fingerprint import Computed, NoFingerprintError, computed
from appliance.engine.installation import in_use
from tests.contract.service import RealRig
from tests.rig import ROOT

DEMO = ROOT / "demo/model"
SHIPPED = ROOT / "demo/fingerprint.json"
PROGRAM = ROOT / "tests/contract/randommodel.py"
RANDOM = ("llama", "mixtral", "qwen3-moe", "gpt2", "gemma3", "gpt-oss", "mamba2", "llama-fp8", "qwen3-moe-fp8")

NOISE_MEAN, NOISE_LARGEST = 0.07, 0.6
"""Nats; measured in bfloat16: 0.045 and 0.31, while the smallest damage, a norm x1.1, makes 0.13 and 0.88."""

ROUNDING = 1e-4
"""Nats between two programs that both compute in float32."""


def engine(engines: Path) -> Path:
    return engines / str(in_use(engines))


def program(engines: Path, *arguments: object, given: str = "") -> str:
    command = [str(engine(engines) / "bin/python"), str(PROGRAM), *map(str, arguments)]
    environment = {"PATH": os.defpath, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def random_models(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    program(engines, "make", folder, DEMO)
    return folder


@pytest.fixture
def llama(random_models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(random_models / "llama", tmp_path / "llama"))


def served_passage(rig: RealRig, prompt: Prompt) -> Passage:
    body: dict[str, Any] = {"model": "demo", "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    path = "/v1/chat/completions" if prompt.chat else "/v1/completions"
    system = [{"role": "system", "content": prompt.system}] if prompt.system else []
    messages = [*system, {"role": "user", "content": prompt.text}]
    body |= {"messages": messages} if prompt.chat else {"prompt": prompt.text}
    data = json.dumps({**body, "return_token_ids": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{rig.port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=240) as reply:
        table = json.load(reply)
    found = table if prompt.chat else table["choices"][0]
    ids = found["prompt_token_ids"]
    logprobs = [
        entry[str(token)]["logprob"] for entry, token in zip(found["prompt_logprobs"], ids, strict=True) if entry
    ]
    asked = dataclasses.asdict(prompt)
    return Passage(**asked, ids=tuple(ids), logprobs=tuple(logprobs))


def test_the_real_vllm_agrees_with_the_shipped_fingerprint_to_the_noise(served: RealRig) -> None:
    reference = record_of(Reference, SHIPPED.read_text())
    found = [served_passage(served, passage.prompt) for passage in reference.passages]
    change = change_of(reference, found)
    print(f"mean {change.mean:.4f}, largest {change.largest:.3f} over {change.tokens} tokens; {change.place}")
    assert 0 < change.mean < NOISE_MEAN
    assert change.largest < NOISE_LARGEST


def test_a_passage_asked_for_again_gets_the_same_numbers(served: RealRig) -> None:
    first = served_passage(served, PASSAGES[0])
    assert served_passage(served, PASSAGES[0]) == first


def test_the_shipped_fingerprint_is_what_the_engine_computes(engines: Path) -> None:
    shipped = record_of(Reference, SHIPPED.read_text())
    more = passages_of((ROOT / "demo/passages.toml").read_text(), "passages.toml")
    again = computed(engine(engines), DEMO, (*PASSAGES, *more)).reference
    assert change_of(shipped, again.passages).largest < ROUNDING
    assert [passage.prompt for passage in shipped.passages] == [passage.prompt for passage in again.passages]


@pytest.fixture(scope="module")
def both(engines: Path, random_models: Path) -> dict[str, tuple[Computed, list[list[float]]]]:
    """Return what is computed of each model a layer at a time, and with all of the model in memory."""
    found = {name: computed(engine(engines), random_models / name, PASSAGES) for name in RANDOM}
    asked = {name: [passage.ids for passage in each.reference.passages] for name, each in found.items()}
    whole = json.loads(program(engines, "compute", random_models, given=json.dumps(asked)))
    return {name: (found[name], whole[name]) for name in RANDOM}


@pytest.mark.parametrize("name", RANDOM)
def test_a_layer_at_a_time_is_the_same_as_the_whole_model(
    both: dict[str, tuple[Computed, list[list[float]]]], name: str
) -> None:
    found, whole = both[name]
    for passage, logprobs in zip(found.reference.passages, whole, strict=True):
        assert passage.logprobs == pytest.approx(logprobs, abs=ROUNDING)
    assert found.most < found.whole / 2


def test_a_large_model_takes_the_memory_of_a_layer(engines: Path, llama: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    program(engines, "large", large, DEMO)
    most = {}
    for checkpoint in (llama, large):
        command = [str(engine(engines) / "bin/python"), "-I", str(ROOT / "appliance/engine/fingerprinter.py")]
        request = json.dumps({"folder": str(checkpoint), "passages": [dataclasses.asdict(PASSAGES[0])]}) + "\n"
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert process.stdin
        process.stdin.write(request)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        most[checkpoint.name] = usage.ru_maxrss * 1024
    size = sum(file.stat().st_size for file in large.glob("*.safetensors"))
    print(f"{size >> 20} MiB of weights, {(most['large'] - most['llama']) >> 20} MiB more than for three small layers")
    assert most["large"] - most["llama"] < size / 2


def refusal(engines: Path, checkpoint: Path) -> str:
    with pytest.raises(NoFingerprintError) as refused:
        computed(engine(engines), checkpoint, PASSAGES)
    assert refused.value.status == 78
    return str(refused.value)


def configure(checkpoint: Path, **values: object) -> None:
    file = checkpoint / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


OTHER_WAY = "accept the model with `vllm-serve selftest --record` while it serves instead"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model_type": "brandnew", "architectures": ["BrandNewForCausalLM"]}, "does not know model_type brandnew"),
        (
            {"architectures": ["BrandNewForCausalLM"]},
            "config.json names BrandNewForCausalLM, transformers makes a Llama",
        ),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "quantised weights (modelopt)"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, "GPTQ"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "AWQ"),
        ({"num_hidden_layers": 4}, "the checkpoint lacks model.layers.3."),
        ({"intermediate_size": 128}, "a tensor is not what the model needs"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "config.json names BertModel"),
    ],
)
def test_what_transformers_would_compute_wrongly_is_refused(
    engines: Path, llama: Path, values: dict[str, object], told: str
) -> None:
    configure(llama, **values)
    text = refusal(engines, llama)
    assert told in text
    assert OTHER_WAY in text


def test_fp8_weights_whose_scales_nobody_reads_are_refused(engines: Path, random_models: Path, tmp_path: Path) -> None:
    checkpoint = Path(shutil.copytree(random_models / "llama-fp8", tmp_path / "scaled"))
    configure(checkpoint, quantization_config=None)
    assert "is of F8_E4M3, and config.json names no quantisation" in refusal(engines, checkpoint)


NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}"


@pytest.mark.parametrize(
    ("template", "left"), [(None, 3), ("{{ strftime_now('%d') }}{{ messages[0].content }}", 3), (NO_SYSTEM, 4)]
)
def test_a_chat_that_can_not_be_repeated_is_left_out(
    engines: Path, llama: Path, template: str | None, left: int, capfd: pytest.CaptureFixture[str]
) -> None:
    file = llama / "chat_template.jinja"
    if template is None:
        file.unlink()
    else:
        file.write_text(template)
    assert len(computed(engine(engines), llama, PASSAGES).reference.passages) == left
    assert "a chat passage is left out" in capfd.readouterr().err
