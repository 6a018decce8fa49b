"""What is wrong with the files of a model, or with the way to them."""

from appliance.core.cause.derivation import first_file
from appliance.core.cause.rule import Depth, Rule

FETCH = "fetch the model again, whole, into the folder that [model] source names"

RULES = (
    Rule(
        id="checkpoint.shard-missing",
        says=(r"Weight files referenced in index but missing: \{(?P<files>[^}]*)",),
        summary="a file of weights is missing: {file}< and {more} more>",
        remedy=f"{FETCH}: every file that model.safetensors.index.json names",
        derive=first_file,
    ),
    Rule(
        id="checkpoint.no-weights",
        says=(r"Cannot find any model weights with [`'\"](?P<folder>[^`'\"]*)",),
        summary="the folder {folder} holds no weights",
        remedy=f"{FETCH}; what [vllm] load_format asks for must be there too",
    ),
    Rule(
        id="checkpoint.lfs-pointer",
        says=(r"invalid load key, 'v'|Unsupported operand 118\b",),
        summary="a file of the model is a git-lfs pointer: the text that stands for a file which was not fetched",
        remedy="fetch the files themselves (`git lfs pull`) into the folder that [model] source names",
    ),
    Rule(
        id="checkpoint.shard-corrupt",
        says=(
            r"SafetensorError: Error while deserializing(?: header)?: (?P<what>.*)",
            (
                r"PytorchStreamReader failed|invalid load key|Unsupported operand \d|unexpected EOF, expected \d+ more "
                r"bytes|not a ZIP archive"
            ),
        ),
        summary="a file of weights is damaged: cut off, or something else in its place, such as a git-lfs pointer< "
        "({what})>",
        remedy=f"{FETCH}, and compare the sizes and checksums of its files with those of their source",
    ),
    Rule(
        id="checkpoint.shard-corrupt",
        says=(r"^MemoryError|JSONDecodeError|UnicodeDecodeError|struct\.error|OverflowError",),
        within=r"safetensors",
        summary="the header of a file of weights makes no sense: the file is cut off, or something else stands in its "
        "place, such as a git-lfs pointer",
        remedy=f"{FETCH}, and compare the sizes and checksums of its files with those of their source",
    ),
    Rule(
        id="checkpoint.config-corrupt",
        says=(r"JSONDecodeError",),
        within=r"config|_dict_from_json_file",
        summary="a file of the model's configuration is not JSON",
        remedy=FETCH,
    ),
    Rule(
        id="checkpoint.config-missing",
        says=(
            r"Invalid repository ID or local directory specified: '(?P<folder>[^']*)'",
            r"(?<!\S)(?P<folder>\S+) does not appear to have a file named config\.json",
            r"Unrecognized model in (?P<folder>\S+?)\. Should have a `?model_type",
        ),
        summary="the folder {folder} has no config.json that vLLM can read and use",
        remedy=f"{FETCH}; the user vllm-serve must be able to read it",
    ),
    Rule(
        id="checkpoint.tokenizer-missing",
        says=(r"Can't load tokenizer for '(?P<folder>[^']*)'",),
        summary="the tokenizer of the model is missing or can't be read<: {folder}>",
        remedy="put the tokenizer's files (tokenizer.json, tokenizer_config.json) into the folder that [model] source "
        "names, or set [vllm] tokenizer, or tokenizer_mode where the model is Mistral's",
    ),
    Rule(
        id="checkpoint.tokenizer-missing",
        says=(r"IndexError|TypeError|AttributeError|KeyError|OSError|ValueError",),
        within=r"_tokenizer\(|get_tokenizer|tokenizer_from_file|TokenizerFast|label_ids\(tokenizer|sentencepiece",
        summary="the tokenizer of the model is missing or can't be used",
        remedy="put the tokenizer's files (tokenizer.json, tokenizer_config.json) into the folder that [model] source "
        "names, or set [vllm] tokenizer",
        depth=Depth.HINT,
    ),
    Rule(
        id="checkpoint.gated",
        says=(
            r"(?i)gated repo|GatedRepoError|is a gated repository",
            r"401 Client Error|403 Client Error|RepositoryNotFoundError|Repository Not Found for url",
        ),
        summary="the hub does not hand the model out without a licence or a token",
        remedy="fetch it yourself into a folder and name that as [model] source",
    ),
    Rule(
        id="checkpoint.not-there",
        says=(r"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '(?P<folder>[^']*)'",),
        summary="there is no folder {folder}",
        remedy="set [model] source to the folder that holds the model's config.json; the service reads it as its own "
        "user",
    ),
    Rule(
        id="checkpoint.hub-offline",
        says=(r"Cannot find an appropriate cached snapshot folder|LocalEntryNotFoundError|OfflineModeIsEnabled",),
        summary="the model, or a part of it, is not on this machine, and the hub is not asked or can't be reached",
        remedy="fetch the model into a folder and name that as [model] source; where the engine may fetch it itself, "
        'set [env] HF_HUB_OFFLINE = "0"',
    ),
    Rule(
        id="checkpoint.unknown-architecture",
        says=(
            r"Model architectures? (?P<name>\[[^]]*\]|\S+) (?:are|is) not supported(?: for now)?",
            r"Cannot find model module\. '?(?P<name>\w+)'? is not a registered model",
        ),
        summary="this vLLM does not know the architecture {name}",
        remedy="name an engine with a newer vLLM in [engine] use (`vllm-serve engine list`), or serve another model: "
        "[model] source",
        depth=Depth.HINT,
    ),
    Rule(
        id="checkpoint.unknown-model-type",
        says=(r"has model type [`'\"]?(?P<type>[\w.-]+)[`'\"]? but Transformers does not recognize",),
        summary="the engine's Transformers does not know the model type {type}",
        remedy="name an engine with a newer vLLM in [engine] use (`vllm-serve engine list`), or serve another model: "
        "[model] source",
    ),
    Rule(
        id="checkpoint.remote-code",
        says=(r"requires you to execute (?:the configuration file|custom code)|custom code which must be executed",),
        summary="the model brings Python code of its own, which is not run unasked",
        remedy="read that code, and set [vllm] trust_remote_code = true if you trust it",
    ),
    Rule(
        id="checkpoint.shape-mismatch",
        says=(
            r"start \(\d+\) \+ length \(\d+\) exceeds dimension size \(\d+\)",
            r"Attempted to load weight \(.*\) into parameter \(",
            r"The (?:expanded )?size of (?:the )?tensor(?: a)? \(\d+\) must match",
        ),
        summary="the weights have other shapes than config.json says: they do not belong together",
        remedy=FETCH,
    ),
    Rule(
        id="checkpoint.shape-mismatch",
        says=(r"^AssertionError",),
        within=r"(?:loaded_weight|param\w*(?:\.data)?)\.(?:shape|size\(\))",
        summary="the weights have other shapes than config.json says: they do not belong together",
        remedy=FETCH,
    ),
    Rule(
        id="checkpoint.names-mismatch",
        says=(
            r"Following weights were not initialized from checkpoint: \{?'?(?P<name>[\w.]+)",
            r"There is no module or parameter named '(?P<name>[\w.]+)'",
            r"KeyError: '(?P<name>(?:model\.|language_model\.|lm_head|layers\.|transformer\.)[\w.]+)'",
        ),
        summary="the weights have other names than this architecture: {name}",
        remedy="check that config.json and the weights in the folder of [model] source belong together, and that their "
        "quantization is one that this vLLM loads (`vllm-serve engine list`, [engine] use)",
    ),
    Rule(
        id="checkpoint.config-unfit",
        says=(
            r"rope_(?:scaling|parameters)\S* (?:should|must) (?:have|be)|rope_scaling.*(?:rope_type|`type`)",
            r"Unknown RoPE scaling type (?P<rope>\w+)",
        ),
        summary="config.json does not say what this vLLM expects of it<: the rope_type {rope} is unknown>",
        remedy="use the config.json of the model's source as it is, or mend it with [vllm] hf_overrides",
    ),
    Rule(
        id="checkpoint.packages",
        says=(r"requires the following packages that were not found in your environment: (?P<name>[\w, -]+)",),
        summary="the model needs a Python package that the engine does not have: {name}",
        remedy="serve a model whose code is part of vLLM ([model] source), or name an engine that has the package in "
        "[engine] use",
    ),
)
