"""Ports, names, and the way between the processes and machines of an engine."""

from appliance.core.cause.rule import Depth, Rule, When

IN_USE = r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE"

RULES = (
    Rule(
        id="network.socket-left",
        says=(IN_USE,),
        within=r"unix_socket|\.uds\b|AF_UNIX",
        summary="the unix socket of the API exists already: an earlier engine left it, or another uses it",
        remedy="take uds out of [engine] extra_args: vllm-serve asks over [api] host and port",
    ),
    Rule(
        id="network.rendezvous-port",
        says=(
            (
                r"server socket has failed to (?:listen|bind).*?port: (?P<port>\d+).*(?:EADDRINUSE|[Aa]ddress already "
                r"in use)"
            ),
            r"server socket has failed to (?:listen|bind) .*\b(?:EADDRINUSE|[Aa]ddress already in use)",
        ),
        summary="the port< {port}> by which the engine's processes meet is taken",
        remedy='stop the other engine, or set [vllm] master_port, or [env] VLLM_PORT = "<a free port>"',
        permanent=False,
    ),
    Rule(
        id="network.port-taken",
        says=(IN_USE,),
        summary="another program listens on the port< {port}> already",
        remedy="stop what listens there (`ss -ltnp< 'sport = :{port}'>`), or set another [api] port",
        permanent=False,
    ),
    Rule(
        id="network.address",
        says=(
            r"\[Errno 99\]|[Cc]annot assign requested address|EADDRNOTAVAIL",
            (
                r"gaierror: \[Errno -\d\]|Name or service not known|Temporary failure in name resolution"
                r"|getaddrinfo.{0,40}(?:failed|error)"
            ),
        ),
        summary="an address that the engine was told does not exist on this machine, or its name is not known",
        remedy="set [api] host, and on several machines [cluster] head and host_address, to addresses that `ip addr` "
        "shows",
        permanent=False,
        depth=Depth.HINT,
    ),
    Rule(
        id="network.gloo-interface",
        says=(
            r"connectFullMesh failed(?:.*remote=\[?(?P<peer>127\.[\d.]+))?",
            r"gloo.*connect \[(?P<peer>127\.[\d.]+)\]:\d+: Connection refused",
            (
                r"Unable to (?:find (?:address|interface) for|resolve hostname to a \(local\) address)|unsupported "
                r"gloo device"
            ),
        ),
        summary="Gloo can't connect the machines: it looks for them in the wrong network<, at {peer}, which is each "
        "machine itself>",
        remedy="set [cluster] host_address to the address by which the others know this machine, or [env] "
        'GLOO_SOCKET_IFNAME = "<the interface between the machines>"',
    ),
    Rule(
        id="network.nccl-interface",
        says=(
            r"Bootstrap ?: no (?:socket )?interface found",
            r"ncclSocketInit: connecting to address  ?with family \d+ is neither",
        ),
        summary="NCCL finds no network to the other processes",
        remedy='set [env] NCCL_SOCKET_IFNAME = "<the interface between the machines>", as `ip addr` names it',
    ),
    Rule(
        id="network.rdma",
        says=(
            r"NCCL WARN .*Got completion (?:from peer (?P<peer>\S+) )?with (?:error|status=)",
            r"ibv_modify_qp failed with (?:error )?(?P<what>[\w ]+)",
        ),
        summary="the machines do not reach each other over RDMA<: no answer from {peer}><: {what}>",
        remedy="check the cables and that [cluster] subnets names networks that all machines share; [env] "
        'NCCL_IB_DISABLE = "1" goes over TCP instead',
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="network.duplicate-gpu",
        says=(
            r"Duplicate GPU detected ?: rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",
        ),
        summary="two processes of the engine were given the same GPU<: ranks {rank} and {other} both have {device}>",
        remedy="name each GPU once in [gpu] devices, and lower [vllm] tensor_parallel_size to their number",
    ),
    Rule(
        id="network.peers-missing",
        says=(
            r"Timed out after \d+ seconds waiting for clients\. (?P<came>\d+)/(?P<wanted>\d+) clients joined",
            r"client socket has timed out after \d+ ?ms while trying to connect to \(?(?P<head>[^)]*)\)",
        ),
        summary="the processes of the engine did not all find each other<: {came} of {wanted} came>"
        "<: nothing answers at {head}>",
        remedy="start the service on every machine of the cluster, and check that [cluster] head and nodes are the "
        "same on all of them and that no firewall stands between them",
        permanent=False,
        depth=Depth.WAIT,
    ),
    Rule(
        id="network.peers-missing",
        says=(r"world_size=(?P<wanted>[2-9]|\d{2,}) rank=(?P<rank>\d+)",),
        unless=r"rank \d+ in world size|is using nccl|Starting to load model",
        summary="rank {rank} waited for the other ranks, {wanted} in all, and not all of them came",
        remedy="start the service on every machine of the cluster, and check that [cluster] head and nodes are the "
        "same on all of them and that no firewall stands between them",
        permanent=False,
        when=When.STALL,
        quietly=True,
    ),
    Rule(
        id="network.nccl-start",
        says=(r"vLLM is using nccl==(?P<version>[\d.]+)",),
        unless=r"Starting to load model|rank \d+ in world size|custom allreduce|NCCL WARN",
        summary="the GPUs did not find a way to each other: NCCL {version} hung while it set up their connection",
        remedy='set [env] NCCL_P2P_DISABLE = "1" and [vllm] disable_custom_all_reduce = true; where that helps, the '
        "machine redirects traffic between its GPUs: switch off ACS or the IOMMU in its firmware",
        permanent=False,
        when=When.STALL,
        quietly=True,
    ),
    Rule(
        id="network.nccl-timeout",
        says=(
            r"collective operation timeout(?:: WorkNCCL\(.*OpType=(?P<what>\w+))?",
            r"ran for (?P<waited>\d+) milliseconds before timing out",
            r"NCCL.*(?:communicator was aborted|timed out)|wait timeout after \d+ ?ms",
        ),
        summary="a GPU waited too long for the others<: {what}><, {waited} ms>",
        remedy="look for the rank that said something else before; where none did, set [vllm] "
        'disable_custom_all_reduce = true and [env] NCCL_P2P_DISABLE = "1" to see whether the path between the GPUs '
        "is bad",
        permanent=False,
        depth=Depth.WAIT,
        when=When.EVER,
    ),
    Rule(
        id="network.peer-lost",
        says=(
            r"(?:Read|Write) error \[?(?P<peer>[\d.]+)\]?:\d+: Connection (?:reset|closed)",
            r"ncclRemoteError|remote process exited or there was a network error",
            r"NCCL WARN .*Connection closed by remote peer (?P<peer>[^\s<]+)",
            r"Call to (?:recv from|send to) (?P<peer>[^\s<]+)\S* failed",
        ),
        summary="the connection to another process of the engine broke<: {peer}>",
        remedy="look at the other machines of the cluster ([cluster] head, nodes): one stopped, or the network between "
        "them did",
        permanent=False,
        depth=Depth.LOSS,
        when=When.EVER,
    ),
    Rule(
        id="network.nccl",
        says=(
            (
                r"ncclUnhandledCudaError|unhandled cuda error|ncclSystemError|unhandled system error|ncclInternalError"
                r"|ncclInvalidUsage|NCCL error(?: in)?[ :]|internal error - please report this issue to the NCCL"
            ),
        ),
        summary="NCCL, by which the GPUs talk to each other, failed",
        remedy='set [env] NCCL_DEBUG = "WARN" for one start: NCCL then says which call failed; '
        'NCCL_P2P_DISABLE = "1" and NCCL_IB_DISABLE = "1" there go around a bad path',
        permanent=False,
        depth=Depth.LOSS,
        when=When.EVER,
    ),
)
