"""A process of the engine that died, hung, or only reports that another did."""

from appliance.core.cause.derivation import exit_words
from appliance.core.cause.rule import Depth, Rule, Source, When

WORKER = r"Worker(?:Proc| proc)? (?P<name>\S+)(?: pid \d+)? died(?: unexpectedly)?,? ?\(?exit code: "
AGAIN = "what it said before is in the journal (`journalctl -t vllm`); "

RULES = (
    Rule(
        id="engine.crashed",
        says=(
            (
                r"(?P<process>VLLM::\S+|vllm|python[\d.]*|pt_main_thread|ray::\S+)\[\d+\]:? (?P<what>segfault "
                r"at|general protection fault)"
            ),
        ),
        summary="{process} of the engine crashed: {what}, says the kernel",
        remedy="report it to vLLM with the lines before; [vllm] enforce_eager = true or another attention_backend may "
        "go around it",
        permanent=False,
        depth=Depth.LOSS,
        when=When.EVER,
        source=Source.KERNEL,
    ),
    Rule(
        id="engine.crashed",
        says=(
            r"Fatal Python error: (?P<what>[^\n]*)",
            r"!!!+ Segfault encountered|Segmentation fault(?: \(core dumped\))?",
            (
                r"terminate called (?:after throwing an instance of '(?P<what>[^']*)'|without an active exception)"
                r"|double free or corruption|(?:free|malloc|realloc)\(\): |corrupted size vs"
            ),
            r"\*\*\* (?P<what>SIGSEGV|SIGABRT|SIGBUS|SIGFPE) received at",
        ),
        summary="a process of the engine crashed<: {what}>",
        remedy="report it to vLLM with the lines before; [vllm] enforce_eager = true or another attention_backend may "
        "go around it",
        permanent=False,
        depth=Depth.LOSS,
        when=When.EVER,
    ),
    Rule(
        id="engine.worker-lost",
        says=(rf"{WORKER}(?P<code>-(?:4|7|9|11)\b)",),
        summary="the process {name} of the engine died< ({how})> and did not say why<; {killer}>",
        remedy=f"{AGAIN}where it was killed for its memory, lower [vllm] max_num_seqs, on a CPU kv_cache_memory_bytes",
        permanent=False,
        depth=Depth.LOSS,
        when=When.EVER,
        derive=exit_words,
    ),
    Rule(
        id="engine.worker-lost",
        says=(
            rf"{WORKER}(?P<code>-?\d+)",
            r"Process (?P<name>\S+) \(PID: \d+\) died with exit code (?P<code>-?\d+)",
        ),
        summary="the process {name} of the engine ended< ({how})>",
        remedy=f"{AGAIN}look for what it or another process said before it",
        permanent=False,
        depth=Depth.ECHO,
        when=When.EVER,
        derive=exit_words,
    ),
    Rule(
        id="engine.worker-lost",
        says=(
            rf"{WORKER}None",
            r"Worker(?:Proc| proc)? (?P<name>\S+) died(?: unexpectedly)?, shutting down",
            r"WorkerProc initialization failed due to an exception in a background process",
        ),
        summary="a process of the engine ended< ({name})> and did not say why<; {killer}>",
        remedy=f"{AGAIN}look for what it or another process said before it",
        permanent=False,
        depth=Depth.ECHO,
        when=When.EVER,
    ),
    Rule(
        id="engine.worker-hung",
        says=(r"RPC call to (?P<call>\w+) timed out",),
        summary="a worker did not answer {call} in time: it hangs, or another rank or machine is gone",
        remedy="look whether `nvidia-smi` answers, and at the other machines of [cluster] nodes; [env] "
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS is how long it may take",
        permanent=False,
        depth=Depth.WAIT,
        when=When.EVER,
    ),
    Rule(
        id="engine.worker-hung",
        says=(r"No available shared memory broadcast block found in (?P<waited>\d+) ?s",),
        unless=r"Graph capturing finished|Loading weights took|Application startup complete",
        summary="a worker did not take the next step for {waited} s or more: it hangs, or compiles",
        remedy="look whether `nvidia-smi` answers; where only the first start takes so long, raise [patience] loading",
        permanent=False,
        depth=Depth.WAIT,
        when=When.STALL,
        quietly=True,
    ),
    Rule(
        id="engine.handshake",
        says=(
            r"[Tt]imed out waiting for engine(?:s| core)[\w ]* (?:to|processes)(?:.*Waited (?P<seconds>\d+) ?s)?",
            r"Did not receive response from front-end process within (?P<minutes>\d+) minute",
        ),
        summary="the processes of the engine waited too long for each other at the start<, {seconds} s><, {minutes} "
        "min>",
        remedy="raise [env] VLLM_ENGINE_READY_TIMEOUT_S, a number of seconds; slow storage below [model] source is the "
        "usual reason",
        permanent=False,
        depth=Depth.WAIT,
    ),
    Rule(
        id="engine.pipeline-broken",
        says=(r"^AssertionError|^KeyError: '(?:chat)?cmpl-",),
        within=r"intermediate_tensors|req_id_to_index",
        summary="a step of the engine lost a request between its stages",
        remedy="set [vllm] pipeline_parallel_size = 1, and share the model with tensor_parallel_size instead",
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="engine.core-lost",
        says=(
            r"engine core(?: proc (?P<name>\S+))? (?:exited|died) unexpectedly|Engine core proc (?P<core>\S+) died",
            r"Failed core proc\(s\): \{'(?P<name>\w+)': (?P<code>-\d+)",
        ),
        summary="the engine core died< ({how})> and did not say why<; {killer}>",
        remedy=f"{AGAIN}where it was killed for its memory, lower [vllm] max_num_seqs, on a CPU kv_cache_memory_bytes",
        permanent=False,
        depth=Depth.ECHO,
        when=When.EVER,
        quietly=True,
        derive=exit_words,
    ),
)
