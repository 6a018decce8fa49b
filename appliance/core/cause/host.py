"""What the machine lacks or refuses: disk, shared memory, rights, files, processes."""

from appliance.core.cause.rule import Depth, Rule, Source, When

FULL = r"No space left on device|\[Errno 28\]|ENOSPC|Disk quota exceeded|\[Errno 122\]"

SHARED = "the shared memory (/dev/shm) by which the processes of the engine talk is full or too small"
ENLARGE = (
    "enlarge it (`mount -o remount,size=16G /dev/shm`) and remove what dead engines left there; fewer processes need "
    "less: [vllm] tensor_parallel_size"
)

RULES = (
    Rule(
        id="host.shared-memory-full",
        says=(
            r"Insufficient space in /dev/shm\D*(?P<wanted>\d+ \w+) required(?:, (?P<free>\d+ \w+) free)?",
            r"Error while creating shared memory segment \S+ \(size \d+",
            r"ncclShm\w+.*(?:failed|[Ee]rror)",
        ),
        summary=f"{SHARED}<: {{wanted}} more were wanted><, {{free}} are free>",
        remedy=ENLARGE,
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="host.shared-memory-full",
        says=(FULL,),
        within=r"shared_memory|shm|ftruncate|SemLock|posix_fallocate",
        summary=SHARED,
        remedy=ENLARGE,
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="host.disk-full",
        says=(
            rf"(?:{FULL})(?:.*?: ['\"](?P<file>/[^'\"]+))?",
            r"is over \d+% full|not enough (?:free )?disk space",
        ),
        summary="a disk is full, or a quota is used up<: {file}>",
        remedy="make room: `df -h` shows where; [paths] cache and models may lie on a larger disk",
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="host.permission",
        says=(
            r"PermissionError: \[Errno (?:1|13)\][^:]*: ['\"](?P<file>[^'\"]+)",
            r"Read-only file system(?:: ['\"](?P<file>[^'\"]+))?",
        ),
        summary="the service may not read or write<: {file}>",
        remedy="give the user vllm-serve leave to read the folder of [model] source, and write nowhere but below "
        "[paths] cache; a folder in /home is hidden from the unit (man 8 vllm-serve)",
    ),
    Rule(
        id="host.open-files",
        says=(r"Too many open files|\[Errno 24\]|EMFILE",),
        summary="the engine may not open as many files as it needs",
        remedy="run the unit with LimitNOFILE=1048576, as it is shipped (`systemctl cat vllm-serve`)",
        when=When.EVER,
    ),
    Rule(
        id="host.processes",
        says=(
            r"can't start new thread|pthread_create\b.*(?:failed|unavailable)|libgomp: Thread creation failed",
            r"(?:^RuntimeError: |BlockingIOError: \[Errno 11\] |fork.*)Resource temporarily unavailable",
        ),
        summary="the engine may not start as many threads as it needs",
        remedy='run the unit with TasksMax=infinity, as it is shipped; or set [env] OMP_NUM_THREADS = "1"',
        permanent=False,
        when=When.EVER,
    ),
    Rule(
        id="host.processes",
        says=(r"fork rejected by pids controller in \S*vllm-serve",),
        summary="the engine may not start as many threads as it needs: the kernel refused one",
        remedy="run the unit with TasksMax=infinity, as it is shipped (`systemctl cat vllm-serve`)",
        permanent=False,
        depth=Depth.MACHINE,
        when=When.EVER,
        source=Source.KERNEL,
    ),
    Rule(
        id="host.numa-nodes",
        says=(
            r"Not enough allowed NUMA nodes to bind threads of (?P<wanted>\d+) local CPUWorkers",
            r"numactl: .*Invalid argument|(?:libnuma|set_mempolicy|mbind).*(?:[Ii]nvalid argument|not allowed)",
        ),
        summary="the machine has fewer NUMA nodes than was asked for<: {wanted} workers want one each>",
        remedy="lower [vllm] tensor_parallel_size to the number of NUMA nodes, or say which CPUs each worker uses with "
        "[env] VLLM_CPU_OMP_THREADS_BIND",
    ),
    Rule(
        id="host.cpu-too-old",
        says=(r"Illegal instruction|SIGILL|exit code: -4\b",),
        summary="the CPU lacks instructions that the engine was built with",
        remedy="use a machine with a newer CPU, or name an engine that was built for this one in [engine] use",
    ),
    Rule(
        id="host.cpu-too-old",
        says=(r"traps: (?P<process>VLLM::\S+|vllm|python[\d.]*|pt_main_thread)\[\d+\] trap invalid opcode",),
        summary="the CPU lacks instructions that the engine was built with: the kernel stopped {process}",
        remedy="use a machine with a newer CPU, or name an engine that was built for this one in [engine] use",
        depth=Depth.MACHINE,
        source=Source.KERNEL,
    ),
    Rule(
        id="host.storage",
        says=(
            r"\[Errno 5\]|Input/output error|Stale file handle|\[Errno 116\]|Transport endpoint is not connected",
            r"No such device \(os error 19\)",
        ),
        summary="a disk or a network file system does not do what is asked of it",
        remedy="look at the kernel's log (`journalctl -k`) and at the mount that holds [model] source or [paths] "
        "cache; weights must lie where files can be mapped into memory",
        permanent=False,
        depth=Depth.HINT,
        when=When.EVER,
    ),
)
