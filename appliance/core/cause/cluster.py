"""Ray, by which an engine may span several machines."""

from appliance.core.cause.rule import Depth, Rule, When

NODES = "see with `ray status` that every machine of [cluster] nodes is there with its GPUs"

RULES = (
    Rule(
        id="ray.placement",
        says=(
            r"number of required \w+s exceeds the total number of available \w+s in the placement group",
            r"Tensor parallel size \((?P<wanted>\d+)\) exceeds available GPUs \((?P<count>\d+)\)",
        ),
        unless=r"Starting to load model|RayWorker\w* .*rank|KV cache size",
        summary="Ray has not as many GPUs as the engine wants<: {wanted} are wanted, {count} are there>",
        remedy=f"{NODES}, or lower [vllm] tensor_parallel_size or pipeline_parallel_size",
        permanent=False,
        quietly=True,
        depth=Depth.HINT,
    ),
    Rule(
        id="ray.placement",
        says=(r"Waiting for creating a placement group of specs for (?P<waited>\d+) seconds",),
        unless=r"Starting to load model|RayWorker\w* .*rank|KV cache size",
        summary="the engine waited for Ray to give it GPUs, more than {waited} s",
        remedy=f"{NODES}, and that [cluster] host_address is the address under which Ray knows the machine",
        permanent=False,
        when=When.STALL,
        quietly=True,
    ),
    Rule(
        id="ray.no-gpu",
        says=(
            r"[Cc]urrent node has no (?P<device>\w+) available",
            r"does not allocate any (?P<device>\w+)s on the driver node|Every node should have a unique IP address",
        ),
        summary="Ray counts no GPU on this machine, or counts it twice",
        remedy="start Ray anew on this machine, so that it sees its GPUs, with the address that [cluster] host_address "
        "says",
    ),
    Rule(
        id="ray.unsupported",
        says=(
            r"current platform (?P<platform>\w+) does not support ray",
            r"[Ff]ailed to import Ray",
        ),
        summary="this engine can't use Ray<: it is for {platform}>",
        remedy="take [vllm] distributed_executor_backend out, or name an engine that has Ray in [engine] use",
    ),
    Rule(
        id="ray.version",
        says=(r"Version mismatch: The cluster was started with",),
        summary="the machines of the Ray cluster have different versions of Ray or Python",
        remedy="use the same engine on all machines, [engine] use, and start Ray from it",
    ),
    Rule(
        id="ray.not-running",
        says=(r"Could not find any running Ray instance|Failed to connect to GCS|Unable to connect to GCS",),
        summary="there is no Ray to join",
        remedy="start Ray on all machines of [cluster] nodes before the service, or take "
        "[vllm] distributed_executor_backend out",
        permanent=False,
    ),
    Rule(
        id="ray.node-lost",
        says=(
            r"RayWorker\w* rank=\[?(?P<rank>[\d, ]+)\]? died unexpectedly",
            r"(?:Ray)?ActorDiedError|The actor (?:is dead|died)|RayActorError|worker died or was killed",
        ),
        summary="a process of the engine on another machine is gone<: rank {rank}>",
        remedy="look at the other machines of the cluster ([cluster] nodes): one stopped, or the network between them "
        "did",
        permanent=False,
        depth=Depth.LOSS,
        when=When.EVER,
    ),
)
