"""The program that computes a model's fingerprint with transformers, on the CPU in float32, a layer at a time.

It runs on an engine's Python and imports nothing of this project. It reads one line of JSON, `{"folder": path,
"passages": [{"text": text, "chat": flag, "system": text}, ...]}`, tells its progress on stderr and writes one line of
JSON: a fingerprint, or an error.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

REFUSED, LATER = 78, 75

OTHER_WAY = "accept the model with `vllm-serve selftest --record` while it serves instead"

READABLE = ("fp8", "mxfp4")
"""The quantisations that transformers undoes while it loads, on any machine."""

# By name, for they are the engine's modules and none that this package depends on.
torch: Any = import_module("torch")
transformers: Any = import_module("transformers")
loading: Any = import_module("transformers.core_model_loading")
jinja2: Any = import_module("jinja2")


class RefusedError(Exception):
    """Why a checkpoint gets no fingerprint."""


class Prepared:
    """An empty model, the files of its weights, and how transformers would load them."""

    def __init__(self, model: Any, files: list[str], plan: Any) -> None:
        self.model, self.files, self.plan = model, files, plan


class MadeError(Exception):
    """Ends the loading of a model where it is made and still empty."""

    def __init__(self, prepared: Prepared) -> None:
        super().__init__("made")
        self.prepared = prepared


def tell(text: str) -> None:
    """Tell a person how far it is."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def size_of(count: int) -> str:
    """Return a number of bytes for a person."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.1f} MiB"


class Weights:
    """The weights of a checkpoint, brought into an empty model where they are used, and let go again.

    What a tensor of the file is called in the model, and what is made of it, is left to the loader of transformers.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.model, self.plan = prepared.model, prepared.plan
        self.empty: dict[str, Any] = dict(self.model.state_dict(keep_vars=True))
        self.files: dict[str, str] = {}
        self.keys: dict[str, list[str]] = defaultdict(list)
        """The tensors of the files by what they become in the model."""
        for file in prepared.files:
            with _opened(file) as stream:
                self.files |= dict.fromkeys(stream.keys(), file)
        for key in self.files:
            self.keys[self._name(key)].append(key)
        self.tied = dict(self._ties())
        self.held = self.most = 0

    def _name(self, key: str) -> str:
        """Return the name in the model of a tensor of the files, as convert_and_load_state_dict_in_model finds it."""
        rules = self.plan.weight_mapping or []
        renamings = [rule for rule in rules if isinstance(rule, loading.WeightRenaming)]
        converters = [rule for rule in rules if isinstance(rule, loading.WeightConverter)]
        prefix = self.model.base_model_prefix
        name, _ = loading.rename_source_key(key, renamings, converters, prefix, self.empty)
        if name not in self.empty and key in self.empty:
            name, _ = loading.rename_source_key(key, [], [], base_model_prefix=prefix, meta_state_dict=self.empty)
        return str(name)

    def _ties(self) -> Iterator[tuple[str, str]]:
        """Yield each weight that is another's, and the one of them that the files hold."""
        groups: dict[str, set[str]] = defaultdict(set)
        for target, source in self.model.all_tied_weights_keys.items():
            groups[source] |= {target, source}
        for source, names in groups.items():
            there = [name for name in (source, *sorted(names)) if name in self.keys]
            yield from ((name, there[0]) for name in names if there and name not in self.keys)

    def fill_constants(self) -> None:
        """Make what no file holds: rotary frequencies, masks and the like."""
        for name, tensor in (*self.model.named_parameters(), *self.model.named_buffers()):
            tensor._is_hf_initialized = name in self.keys or isinstance(tensor, torch.nn.Parameter)  # noqa: SLF001
        buffers = {name for name, _ in self.model.named_buffers() if name in self.empty and name not in self.keys}
        self.model._move_missing_keys_from_meta_to_device(buffers, None, None, None)  # noqa: SLF001  # no public way
        self.model._initialize_missing_keys(False)  # noqa: SLF001  # no public way
        self.empty = {name: tensor for name, tensor in self.empty.items() if name not in buffers}

    def bring(self, names: Iterable[str]) -> None:
        """Read what a part of the model needs. Raises RefusedError where the files do not hold it."""
        names = [name for name in names if name in self.empty]
        wanted = {self.tied.get(name, name) for name in names}
        with ExitStack() as stack:
            files = {self.files[key] for name in wanted for key in self.keys.get(name, ())}
            opened = {file: stack.enter_context(_opened(file)) for file in sorted(files)}
            slices = {key: opened[self.files[key]].get_slice(key) for name in wanted for key in self.keys.get(name, ())}
            info, _ = loading.convert_and_load_state_dict_in_model(self.model, slices, self.plan, None)
        for problem in (*info.mismatched_keys, *info.conversion_errors.values(), *info.error_msgs):
            raise RefusedError(f"a tensor is not what the model needs: {problem}")
        for name in self.tied.keys() & set(names):
            self._put(name, self._at(self.tied[name]))
        for name in wanted - set(names):
            self._put(name, self.empty[name])
        if lacking := [name for name in names if self._at(name).is_meta]:
            raise RefusedError(f"the checkpoint lacks {lacking[0]}" + _more(lacking))
        for name in names:
            if self._at(name).dtype in (torch.bfloat16, torch.float16):  # what a quantisation was undone to
                self._put(name, torch.nn.Parameter(self._at(name).float(), requires_grad=False))
        self.held += sum(self._at(name).nbytes for name in names)
        self.most = max(self.most, self.held)

    def drop(self, names: Iterable[str]) -> None:
        """Let go of what a part of the model needed."""
        for name in (name for name in names if name in self.empty):
            self.held -= self._at(name).nbytes
            self._put(name, self.empty[name])

    def _owner(self, name: str) -> tuple[dict[str, Any], str]:
        path, _, last = name.rpartition(".")
        module = self.model.get_submodule(path)
        return (module._parameters if last in module._parameters else module._buffers), last  # noqa: SLF001

    def _at(self, name: str) -> Any:
        tensors, last = self._owner(name)
        return tensors[last]

    def _put(self, name: str, tensor: Any) -> None:
        tensors, last = self._owner(name)
        tensors[last] = tensor


def _opened(file: str) -> Any:
    """Open a file of tensors to be read, not mapped: mapped pages would count as memory of this program."""
    return import_module("safetensors").safe_open(file, framework="pt", device="cpu", backend="pread")


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def parts_of(path: str, module: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield what is loaded at once: path, module, whether it is a layer, which is loaded with all that is in it."""
    listed = isinstance(module, torch.nn.ModuleList | torch.nn.ModuleDict)
    for name, child in module.named_children():
        below = f"{path}.{name}" if path else name
        if listed and not isinstance(child, torch.nn.ModuleList | torch.nn.ModuleDict):
            yield below, child, True
        else:
            yield from parts_of(below, child)
    if not listed:
        yield path, module, False


def attach(weights: Weights) -> None:
    """Have every part of the model filled before it computes and emptied after."""
    parts = list(parts_of("", weights.model))
    for path, module, whole in parts:
        tensors = module.state_dict(keep_vars=True) if whole else (*module._parameters, *module._buffers)  # noqa: SLF001
        names = [f"{path}.{name}" if path else name for name in tensors]
        if names:
            text = f"{path or 'model'}" if whole else ""
            module.register_forward_pre_hook(_bringer(weights, names, text))
            module.register_forward_hook(_dropper(weights, names))


def _bringer(weights: Weights, names: list[str], text: str) -> Callable[..., None]:
    def bring(*_: Any) -> None:
        weights.bring(names)
        if text:
            tell(f"{text}: {size_of(weights.held)} in memory")

    return bring


def _dropper(weights: Weights, names: list[str]) -> Callable[..., None]:
    def drop(*_: Any) -> None:
        weights.drop(names)

    return drop


def prepared_of(folder: Path) -> Prepared:
    """Return the empty model of a checkpoint and what is to be loaded into it. Raises RefusedError."""
    config = config_of(folder)
    known = transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText
    kinds = [kind for kind in known if type(config) in kind._model_mapping]  # noqa: SLF001  # no public way
    if not kinds:
        raise RefusedError(f"transformers {transformers.__version__} has no {config.model_type} that writes text")
    base = transformers.PreTrainedModel
    if not hasattr(base, "_load_pretrained_model"):
        raise RefusedError(f"transformers {transformers.__version__} loads models in a way that is not known here")

    def stop(model: Any, _state: Any, files: list[str], plan: Any, *_: Any, **__: Any) -> None:
        raise MadeError(Prepared(model, files, plan))

    # It is asked for by the loader of fp8, and not used by what is done here.
    fp8: Any = import_module("transformers.quantizers.quantizer_finegrained_fp8")
    fp8.is_accelerate_available = lambda *_: True
    base._load_pretrained_model = staticmethod(stop)  # noqa: SLF001  # no public way
    options = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}
    quantised = getattr(config, "quantization_config", None)
    if isinstance(quantised, dict) and quantised.get("quant_method") in READABLE:
        config.quantization_config = {**quantised, "dequantize": True}
    try:
        kinds[0].from_pretrained(folder, config=config, use_safetensors=True, local_files_only=True, **options)
    except MadeError as made:
        return made.prepared
    except (ImportError, OSError, ValueError, RuntimeError, AttributeError, KeyError, TypeError) as error:
        raise RefusedError(f"transformers {transformers.__version__} can't make the model: {_line(error)}") from error
    raise RefusedError(f"transformers {transformers.__version__} made the model without its weights")


def config_of(folder: Path) -> Any:
    """Return the checkpoint's configuration. Raises RefusedError where there is none that transformers knows."""
    try:
        table = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = table.get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise RefusedError(f"{folder}/config.json can't be read: {_line(error)}") from error
    if kind not in transformers.CONFIG_MAPPING:
        named = ", ".join(table.get("architectures") or []) or "no architecture"
        raise RefusedError(f"transformers {transformers.__version__} does not know model_type {kind} ({named})")
    try:
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{folder}/config.json is not what transformers reads: {_line(error)}") from error


def refuse_unreadable(prepared: Prepared) -> None:
    """Raise RefusedError for a model that would be another one, or whose weights can't be brought to float32."""
    named = prepared.model.config.architectures or []
    made = type(prepared.model).__name__
    if named and made.lower() not in (name.lower() for name in named):
        raise RefusedError(f"config.json names {', '.join(named)}, transformers makes a {made} of it")
    quantizer = prepared.plan.hf_quantizer
    if quantizer is None:
        _refuse_scaled(prepared)
        return
    method = getattr(quantizer.quantization_config.quant_method, "value", quantizer.quantization_config.quant_method)
    if method not in READABLE or not quantizer.quantization_config.dequantize:
        raise RefusedError(f"quantised weights ({method}) are not turned into float32 a layer at a time")


def _refuse_scaled(prepared: Prepared) -> None:
    """Raise RefusedError for quantised weights that transformers would read as if they were plain ones."""
    if table := getattr(prepared.model.config, "quantization_config", None):
        method = table.get("quant_method") if isinstance(table, dict) else table
        raise RefusedError(f"transformers {transformers.__version__} does not read quantised weights ({method})")
    for file in prepared.files:
        with _opened(file) as stream:
            for key in stream.keys():  # noqa: SIM118  # it is no mapping
                if (kind := stream.get_slice(key).get_dtype()) not in ("F64", "F32", "F16", "BF16", "I64", "BOOL"):
                    raise RefusedError(f"{key} is of {kind}, and config.json names no quantisation")


def tokens_of(tokenizer: Any, prompt: dict[str, Any]) -> list[int]:
    """Return the tokens of a prompt as vLLM makes them of a completion or of a chat with one message."""
    if not prompt["chat"]:
        return list(tokenizer(prompt["text"], add_special_tokens=True)["input_ids"])
    messages = [{"role": "user", "content": prompt["text"]}]
    if prompt["system"]:
        messages.insert(0, {"role": "system", "content": prompt["system"]})
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return list(tokenizer(rendered, add_special_tokens=False)["input_ids"])


def asked(tokenizer: Any, passages: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Yield the passages that can be asked for, with their tokens."""
    template = str(tokenizer.chat_template or "")
    for prompt in passages:
        if prompt["chat"] and not template:
            tell("no chat template: a chat passage is left out")
        elif prompt["chat"] and "strftime_now" in template:
            tell("the chat template writes the date: a chat passage is left out")
        else:
            try:
                yield prompt, tokens_of(tokenizer, prompt)
            except jinja2.TemplateError as error:
                if not prompt["system"]:
                    raise RefusedError(f"the chat template can't render a message: {_line(error)}") from error
                tell(f"the chat template takes no system line: a chat passage is left out ({_line(error)})")


def logprobs_of(model: Any, prompts: list[list[int]]) -> list[list[float]]:
    """Return the logprob of each token but the first; all prompts go through a layer together."""
    longest = max(map(len, prompts))
    # What is added at the end changes nothing before it: each token sees only those before.
    batch = torch.tensor([[*prompt, *[prompt[-1]] * (longest - len(prompt))] for prompt in prompts])
    with torch.no_grad():
        logits = model(input_ids=batch, use_cache=False).logits
    if logits.is_meta:
        raise RefusedError(f"{type(model).__name__} does not use its layers one after the other")
    found = []
    for row, prompt in zip(logits, prompts, strict=True):
        logprobs = row[: len(prompt) - 1].float().log_softmax(-1)
        found.append(logprobs.gather(1, torch.tensor(prompt[1:])[:, None])[:, 0].tolist())
    return found


def fingerprint(folder: Path, passages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the fingerprint of a checkpoint as JSON holds it. Raises RefusedError."""
    prepared = prepared_of(folder)
    refuse_unreadable(prepared)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        texts = list(asked(tokenizer, passages))
    except (ImportError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"the tokenizer can't be read: {_line(error)}") from error
    if not texts or min(len(ids) for _, ids in texts) < 2:
        raise RefusedError("no passage is left, or one has fewer than 2 tokens")
    prepared.model.eval()
    weights = Weights(prepared)
    weights.fill_constants()
    attach(weights)
    found = logprobs_of(prepared.model, [ids for _, ids in texts])
    reference = {
        "format": 1,
        "model": name_of(folder.resolve()),
        "made_by": f"transformers {transformers.__version__}, float32",
        "passages": [
            {**prompt, "ids": ids, "logprobs": [round(value, 5) for value in logprobs]}
            for (prompt, ids), logprobs in zip(texts, found, strict=True)
        ],
    }
    whole = sum(tensor.nbytes for name, tensor in weights.empty.items() if name not in weights.tied)
    return {"reference": reference, "most": weights.most, "whole": whole}


def name_of(folder: Path) -> str:
    """Return what a checkpoint is called: its folder, or what a cache of downloads has above the folder.

    >>> name_of(Path("/var/lib/model")), name_of(Path("/hub/models--Qwen--Qwen3-8B/snapshots/b968826d"))
    ('model', 'Qwen/Qwen3-8B')
    """
    if folder.parent.name == "snapshots":
        return folder.parents[1].name.removeprefix("models--").replace("--", "/")
    return folder.name


def _line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def answer(request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the answer to one request."""
    try:
        return 0, fingerprint(Path(request["folder"]), request["passages"])
    except RefusedError as error:
        return REFUSED, {"error": f"{error}; {OTHER_WAY}"}
    except MemoryError:
        return LATER, {"error": "there is not enough memory for a layer in float32"}
    except (RuntimeError, NotImplementedError) as error:
        if "memory" in str(error):
            return LATER, {"error": f"there is not enough memory for a layer in float32: {_line(error)}"}
        return REFUSED, {"error": f"transformers can't compute it a layer at a time: {_line(error)}; {OTHER_WAY}"}
    except OSError as error:
        return LATER, {"error": f"the checkpoint can't be read: {_line(error)}"}


if __name__ == "__main__":
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w")  # What a library prints must not get between.
    os.dup2(2, 1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    code, table = answer(json.loads(sys.stdin.readline()))
    out.write(json.dumps(table, ensure_ascii=False) + "\n")
    out.close()
    sys.exit(code)
