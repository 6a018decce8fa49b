"""Settings that vLLM does not take, or not for this model and machine."""

from appliance.core.cause.rule import Depth, Rule

RULES = (
    Rule(
        id="setting.bad-json",
        says=(
            r"error: argument (?P<flag>--[\w-]+)\S*: Value (?P<value>.*?) cannot be converted to <function loads",
            r"^Invalid JSON: (?P<value>.*?)(?: \[type=.*)?$",
        ),
        summary="the value <of {flag} >is not JSON<: {value}>",
        remedy="write it as a table in [vllm], which becomes JSON, and not as a text in [engine] extra_args",
    ),
    Rule(
        id="setting.bad-value",
        says=(
            r"error: argument (?P<flag>--[\w-]+)\S*: invalid choice: (?P<value>\S+)",
            r"error: argument (?P<flag>--[\w-]+)\S*: invalid \S+ value: (?P<value>.*)",
            (
                r"error: argument (?P<flag>--[\w-]+)\S*: (?P<what>expected .*|.*cannot be converted to.*|not allowed "
                r"with.*)"
            ),
        ),
        summary="vLLM does not take the value of {flag}<: {value}><: {what}>",
        remedy="set it to a value that this vLLM takes, in [vllm] or [engine] extra_args; `vllm-serve config check` "
        "names the line",
    ),
    Rule(
        id="setting.unknown-flag",
        says=(
            r"error: unrecognized arguments?: (?P<flag>.*)",
            r"error: ambiguous option: (?P<flag>\S+) could match",
            r"Unknown vLLM environment variable detected: (?P<flag>\w+)",
        ),
        summary="this vLLM does not know {flag}",
        remedy="take it out of [vllm], [env] or [engine] extra_args, or name an engine that knows it in [engine] use",
    ),
    Rule(
        id="setting.parser-unknown",
        says=(
            r"invalid (?P<kind>tool call|reasoning) parser: (?P<name>[\w.-]+)",
            r"(?P<kind>[Rr]easoning|[Tt]ool) parser [`'\"]?(?P<name>[\w.-]+)[`'\"]? (?:is )?not found",
        ),
        summary="this vLLM has no {kind} parser {name}",
        remedy="set [vllm] tool_call_parser or reasoning_parser to one of the names in the line, or leave it out",
    ),
    Rule(
        id="setting.parser-missing",
        says=(r"--enable-auto-tool-choice requires --tool-call-parser",),
        summary="enable_auto_tool_choice needs to know how the model writes its calls",
        remedy="set [vllm] tool_call_parser, or take enable_auto_tool_choice out",
    ),
    Rule(
        id="setting.max-model-len",
        says=(
            (
                r"max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
                r"\((?:[^)]*?=(?P<most>\d+)(?:\.0)?)?"
            ),
        ),
        summary="max_model_len = {asked} is more than the model was made for<: {most}>",
        remedy="lower [vllm] max_model_len< to {most}>; longer texts take [vllm] hf_overrides with the rope_parameters "
        "that the model's authors name",
    ),
    Rule(
        id="setting.batch-too-small",
        says=(
            (
                r"max_num_batched_tokens \((?P<tokens>\d+)\) must be greater than or equal to max_num_seqs "
                r"\((?P<other>\d+)\)"
            ),
            r"max_num_batched_tokens \((?P<tokens>\d+)\) is smaller than max_model_len \((?P<other>\d+)\)",
        ),
        summary="max_num_batched_tokens = {tokens} is too small: it must be {other} at least",
        remedy="raise [vllm] max_num_batched_tokens to {other} or more, or lower max_num_seqs or max_model_len",
    ),
    Rule(
        id="setting.parallel-size",
        says=(
            r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<size>\d+)\)",
            r"(?<!\d)(?P<heads>\d+) is not divisible by (?P<size>\d+)",
            r"put_size_per_partition = (?P<part>\d+) is not divisible by (?P<unit>\w+ = \d+)",
            r"put size is not aligned with the quantized weight shape",
        ),
        summary="the model can't be shared evenly<: {heads} parts among {size} GPUs><: a share is {part}, {unit}>",
        remedy="set [vllm] tensor_parallel_size to a number that divides the model's attention heads and layers "
        "evenly, such as 1, 2, 4 or 8; pipeline_parallel_size shares whole layers",
    ),
    Rule(
        id="setting.quantization",
        says=(
            (
                r"\((?P<model>[\w-]+)\) does not match the quantization method specified in the `?quantization`? "
                r"argument \((?P<asked>[\w-]+)\)"
            ),
            r"Unknown quantization method: (?P<asked>[\w-]+)",
        ),
        summary="the quantization {asked} does not suit the model or this vLLM<: the model says {model}>",
        remedy="take [vllm] quantization out: vLLM reads it from the model",
    ),
    Rule(
        id="gpu.quantization-unsupported",
        says=(
            (
                r"[Qq]uantization (?:method (?P<asked>\S+)|scheme) is not supported for ['\", ]*the current GPU\. "
                r"Min(?:imum)? capability: (?P<least>\d+)\.[ '\",]*Current capability: (?P<has>[\w.]*\w)"
            ),
            r"fp8e4nv not supported in this architecture|type fp8e4nv not supported",
        ),
        summary="this GPU can't compute the model's quantization<: {asked}><: it needs capability {least}, this one "
        "has {has}>",
        remedy="serve a model with another quantization ([model] source), or choose newer GPUs with [gpu] devices",
    ),
    Rule(
        id="gpu.dtype-unsupported",
        says=(
            (
                r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<least>[\d.]+)\. Your "
                r"(?P<gpu>.+?) GPU has compute capability (?P<has>[\d.]+)"
            ),
            r"torch\.(?P<dtype>\w+) is not supported for quantization method (?P<method>[\w-]+)",
        ),
        summary="bfloat16 does not work here<: {gpu} has compute capability {has}, it needs {least}>"
        "<: not with quantization {method}>",
        remedy='set [vllm] dtype = "float16"',
    ),
    Rule(
        id="setting.attention-backend",
        says=(
            r"Invalid attention backend|No valid attention backend(?: found)?",
            r"Selected backend \S*?(?P<name>[A-Z][A-Z0-9_]+)\S* is not valid for this configuration",
            (
                r"FlashAttention only supports Ampere GPUs or newer|Unsupported attention backend|Unknown attention "
                r"backend"
            ),
        ),
        summary="no attention backend fits<: {name} does not take this model, its types, or this GPU>",
        remedy="take [vllm] attention_backend out, so that vLLM chooses; where it was not set, try another "
        "kv_cache_dtype or dtype",
    ),
    Rule(
        id="setting.chat-template",
        says=(
            r"supplied chat template (?:string |path )?\((?P<file>[^)]*)\) (?:appears|looks) path-like",
            r"jinja2\.exceptions\.(?P<what>Template\w+: .*)|chat template.*(?:failed to parse|syntax error)",
        ),
        summary="the chat template can't be used<: there is no file {file}><: {what}>",
        remedy="set [vllm] chat_template to a file that the service can read, or put chat_template.jinja into the "
        "folder that [model] source names",
    ),
    Rule(
        id="setting.tls",
        says=(r"FileNotFoundError|PermissionError|ssl\.SSLError|\[SSL\]|\[X509",),
        within=r"ssl|load_cert_chain",
        summary="the engine's TLS key or certificate can't be read, or they do not belong together",
        remedy="take ssl_keyfile and ssl_certfile out of [engine] extra_args, and put a TLS proxy in front: the "
        "self-test asks over plain HTTP",
    ),
    Rule(
        id="setting.file-missing",
        says=(r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<file>/[^']+)'",),
        summary="there is no file {file}",
        remedy="take what names it out of [vllm] or [engine] extra_args, or put the file there",
        depth=Depth.HINT,
    ),
    Rule(
        id="setting.unsupported-here",
        says=(r"(?<![\w-])(?P<what>\w[\w -]{0,60}?) is not supported on (?:the )?current platform",),
        summary="this engine can't do that on this machine: {what}",
        remedy="take the flag out of [vllm] or [engine] extra_args",
    ),
    Rule(
        id="setting.speculative",
        says=(
            r"num_speculative_tokens=?\S* must be divisible|num_speculative_tokens was provided (?:but )?without",
            r"Unsupported speculative method: '?(?P<method>\w+)",
        ),
        summary="the speculative decoding that was asked for does not fit<: {method}>",
        remedy="take [vllm] speculative_config out, or set it as the model's authors write",
    ),
    Rule(
        id="setting.refused",
        says=(
            r"^Value error, (?P<what>.*?)\.?(?: \[type=.*)?$",
            r"^(?P<what>(?:[\w.,\[\]]+: )?(?:Input should|Extra inputs|Unexpected keyword) .*?)\.?(?: \[type=.*)?$",
        ),
        summary="vLLM refuses the settings: {what}",
        remedy="change what the message names in [vllm]; `vllm-serve plan` shows where each setting comes from",
        depth=Depth.HINT,
    ),
)
