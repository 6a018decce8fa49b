"""Too little memory, on the GPU and on the host."""

from appliance.core.cause.derivation import kibibytes, old_names, share_that_fits
from appliance.core.cause.rule import Depth, Rule, Source, When

GIB = r"-?[\d.]+"

RULES = (
    Rule(
        id="host.out-of-memory",
        says=(
            r"Out of memory: Killed process \d+ \((?P<process>[^)]*)\)(?:.*anon-rss:(?P<resident>\d+)kB)?",
            (
                r"[Mm]emory cgroup out of memory: Kill(?:ed)? process \d+ \((?P<process>[^)]*)\)"
                r"(?:.*anon-rss:(?P<resident>\d+)kB)?"
            ),
        ),
        summary="the kernel killed {process} of the engine because the memory of the machine, or what the unit may use "
        "of it, ran out<; it held {held}>",
        remedy="give the engine less to hold: lower [vllm] max_num_seqs or cpu_offload_gb, on a CPU "
        "[vllm] kv_cache_memory_bytes; or stop other programs, or raise MemoryMax of the unit where it has one",
        permanent=False,
        depth=Depth.MACHINE,
        when=When.EVER,
        source=Source.KERNEL,
        derive=kibibytes,
    ),
    Rule(
        id="host.out-of-memory",
        says=(
            r"Killed signal terminated program (?P<process>\w+)",
            r"(?:killed|died) due to (?:the node running low on memory|memory pressure \(OOM\)|memory pressure)",
            r"exceeds the memory usage threshold of",
        ),
        summary="the memory of the machine ran out<: {process} was killed>",
        remedy="stop other programs, or let less compile at once: set [env] MAX_JOBS = 2; "
        "for Ray's own limit see RAY_memory_usage_threshold in [env]",
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="engine.gpu-memory-taken",
        says=(
            (
                rf"Free memory on device (?:(?P<device>\S+) )?\((?P<free>{GIB})/(?P<total>{GIB}) GiB\) on startup is "
                rf"less than desired GPU memory utilization \((?P<share>{GIB}), (?P<wanted>{GIB}) GiB\)"
            ),
        ),
        summary="{free} of {total} GiB of the GPU's memory are free, {wanted} GiB "
        "(gpu_memory_utilization = {share}) are wanted<, on {device}>",
        remedy="stop what else holds memory there (`nvidia-smi` lists it), or set [vllm] gpu_memory_utilization = "
        "{fits}",
        permanent=False,
        derive=share_that_fits,
    ),
    Rule(
        id="engine.gpu-memory-changed",
        says=(
            (
                r"Error in memory profiling(?:\. Initial (?:used|free) memory (?P<before>[\d.]+(?: GiB)?)"
                r"(?:, current (?:used|free) memory (?P<after>[\d.]+(?: GiB)?))?)?"
            ),
        ),
        summary="the free memory of the GPU changed while vLLM measured it<: {before}, then {after}>; "
        "another program came or went",
        remedy="start programs that share a GPU one after the other, or set [vllm] kv_cache_memory_bytes, "
        "so that nothing is measured",
        permanent=False,
    ),
    Rule(
        id="engine.kv-cache-too-small",
        says=(
            (
                rf"max seq len \((?P<length>\d+)\), \(?(?P<needed>{GIB}) GiB KV cache is needed, which is larger than "
                rf"the available KV cache memory \((?P<available>{GIB}) GiB\)"
                r"(?:.*estimated maximum model length is (?P<fits>\d+))?"
            ),
            (
                r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in "
                r"KV cache \((?P<fits>\d+)\)"
            ),
        ),
        summary="one request of max_model_len = {length} does not fit into the KV cache<: it takes {needed} GiB, "
        "{available} GiB are there><; {fits} tokens are the most that fit, by vLLM's estimate>",
        remedy="lower [vllm] max_model_len< to {fits} or less><, or raise [vllm] gpu_memory_utilization (now "
        "{gpu_memory_utilization})><, or raise [vllm] kv_cache_memory_bytes (now {kv_cache_memory_bytes})>, "
        "or share the model among more GPUs with [vllm] tensor_parallel_size",
    ),
    Rule(
        id="engine.no-room-for-kv-cache",
        says=(r"No available memory for the cache blocks|is less than requested memory for kv \(-",),
        summary="after the weights no memory is left for the KV cache",
        remedy="raise [vllm] gpu_memory_utilization<, now {gpu_memory_utilization}>, lower [vllm] max_num_seqs and "
        "max_model_len, or share the model among more GPUs with [vllm] tensor_parallel_size",
    ),
    Rule(
        id="engine.out-of-gpu-memory",
        says=(
            (
                r"CUDA out of memory\. Tried to allocate (?P<wanted>[\d.]+ \w+)"
                r"(?:\.? GPU (?P<gpu>\d+) has a total capaci?ty of (?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) "
                r"is free"
                r"| \(GPU (?P<old_gpu>\d+); (?P<old_total>[\d.]+ \w+) total capacity;.*?(?P<old_free>[\d.]+ \w+) free)?"
            ),
            r"CUDA out of memory occurred when warming up sampler with (?P<requests>\d+) dummy requests",
            r"C(?:UDA|uda)(?: driver)? (?:[Ee]rror|failure).{0,4}out of memory|CUDA_ERROR_OUT_OF_MEMORY",
            r"cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED",
        ),
        summary="GPU memory ran out< on GPU {gpu}><: {wanted} more were asked for><, {free} of {total} were free>"
        "<, at the warm-up with {requests} requests>",
        remedy="lower [vllm] gpu_memory_utilization<, now {gpu_memory_utilization}>, or [vllm] max_num_seqs and "
        "max_num_batched_tokens; look with `nvidia-smi` whether another program uses the GPU",
        permanent=False,
        when=When.EVER,
        derive=old_names,
    ),
    Rule(
        id="host.memory-short",
        says=(
            (
                rf"Available memory on node (?P<node>\d+) \((?P<free>{GIB})/(?P<total>{GIB}) GiB\) on (?:startup|kv "
                rf"cache "
                rf"allocation) is less than (?:desired CPU memory utilization \((?P<share>{GIB}), |requested memory "
                rf"for kv \()(?P<wanted>[\d.]+)"
            ),
        ),
        summary="{free} of {total} GiB of the machine's memory are free, {wanted} GiB are wanted",
        remedy="lower [vllm] <gpu_memory_utilization, now {share}, which counts for a CPU too><kv_cache_memory_bytes, "
        "now {kv_cache_memory_bytes}>, or [env] VLLM_CPU_KVCACHE_SPACE; or stop other programs",
        permanent=False,
    ),
    Rule(
        id="host.locked-memory",
        says=(r"ibv_(?:reg_mr\w*|create_\w+|alloc_\w+).*Cannot allocate memory",),
        summary="memory for RDMA can't be locked: the limit of locked memory is too low",
        remedy="run the unit with LimitMEMLOCK=infinity, as it is shipped (`systemctl cat vllm-serve`)",
    ),
    Rule(
        id="host.allocation-failed",
        says=(
            r"DefaultCPUAllocator: (?:not enough|can't allocate) memory: you tried to allocate (?P<wanted>\d+) bytes",
            r"Cannot allocate memory|std::bad_alloc|^(?:numpy\.\S+: )?(?:Array)?MemoryError\b",
        ),
        summary="the machine has no memory left<: {wanted} bytes more were asked for>",
        remedy="stop other programs, or lower what the engine holds: [vllm] max_num_seqs, cpu_offload_gb, and on a CPU "
        "kv_cache_memory_bytes",
        permanent=False,
        depth=Depth.HINT,
    ),
)
