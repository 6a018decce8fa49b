"""What is wrong with a GPU, its driver, or the way to it."""

from appliance.core.cause.derivation import driver_version
from appliance.core.cause.rule import Depth, Rule, Source, When

XID = r"NVRM: Xid \((?P<device>[^)]*)\): (?P<xid>"

RULES = (
    Rule(
        id="gpu.lost",
        says=(
            XID + r"79|119|120|140|143)\b",
            r"NVRM: .*fallen off the bus",
        ),
        summary="the GPU< {device}> fell off the bus or stopped answering<: the driver reported Xid {xid}>",
        remedy="power the machine off and on; if it comes again, look at the power supply, the riser and the heat, and "
        "leave the GPU out with [gpu] devices",
        depth=Depth.MACHINE,
        when=When.EVER,
        source=Source.KERNEL,
    ),
    Rule(
        id="gpu.memory-error",
        says=(XID + r"48|64|92|94|95|154)\b",),
        summary="the memory of the GPU {device} has errors: the driver reported Xid {xid}",
        remedy="reset the GPU (`nvidia-smi --gpu-reset`, or reboot) and look at `nvidia-smi -q -d ECC,ROW_REMAPPER`; "
        "where errors come again, leave the GPU out with [gpu] devices",
        depth=Depth.MACHINE,
        when=When.EVER,
        source=Source.KERNEL,
    ),
    Rule(
        id="gpu.lost",
        says=(
            r"(?i)GPU is lost|NVMLError_(?:GpuIsLost|Unknown)\b|fallen off the bus",
            r"Unable to determine the device handle for (?:GPU|gpu) ?(?P<device>[\w:.]+)?",
        ),
        summary="the GPU< {device}> is lost: it does not answer the driver any more",
        remedy="reboot the machine, or power it off and on; the kernel's log has the reason "
        "(`journalctl -k | grep -i xid`); leave the GPU out with [gpu] devices until then",
        when=When.EVER,
    ),
    Rule(
        id="gpu.memory-error",
        says=(r"(?i)uncorrectable (?:ECC|NVLink) error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",),
        summary="the memory or a link of the GPU has errors that can't be corrected",
        remedy="reset the GPU (`nvidia-smi --gpu-reset`, or reboot) and look at `nvidia-smi -q -d ECC,ROW_REMAPPER`; "
        "where errors come again, leave the GPU out with [gpu] devices",
        when=When.EVER,
    ),
    Rule(
        id="gpu.no-kernel-image",
        says=(
            (
                r"no kernel image is available for execution on the device|cudaErrorNoKernelImageForDevice"
                r"|CUDA_ERROR_NO_BINARY_FOR_GPU"
            ),
            (
                r"(?P<gpu>NVIDIA [\w /-]{1,60}?|(?<!\S)\S+) with CUDA capability (?P<arch>sm_\w+) is not compatible "
                r"with the current PyTorch installation"
            ),
            r"GPUs with compute capability below (?P<least>[\d.]+) are not supported",
        ),
        summary="the engine has no code for this GPU<: {gpu} is {arch}><: compute capability {least} is the least>",
        remedy="install an engine that was built for it (`vllm-serve engine install`) and name it in [engine] use, or "
        "choose other GPUs with [gpu] devices",
    ),
    Rule(
        id="gpu.driver-too-old",
        says=(
            r"The NVIDIA driver on your system is too old(?: \(found version (?P<found>\d+)\))?",
            (
                r"PTX was compiled with an unsupported "
                r"toolchain|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|cudaErrorUnsupportedPtx"
                r"|CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver"
            ),
        ),
        summary="the NVIDIA driver is too old for the engine's CUDA<: it goes up to CUDA {cuda}>",
        remedy="install a newer NVIDIA driver and reboot, or an engine built for an older CUDA, named in [engine] use",
        derive=driver_version,
    ),
    Rule(
        id="gpu.driver-replaced",
        says=(r"(?i)driver/library version mismatch|NVMLError_LibRmVersionMismatch",),
        summary="the NVIDIA driver in the kernel and its libraries are of two versions: the driver was upgraded under "
        "way",
        remedy="reboot the machine, so that the kernel loads the driver that is installed",
    ),
    Rule(
        id="gpu.driver-combination",
        says=(
            (
                r"[Ee]rror (?P<number>803): system has unsupported display driver|cudaErrorSystemDriverMismatch"
                r"|unsupported display driver / cuda driver combination"
            ),
            (
                r"[Ee]rror (?P<number>804): forward compatibility was attempted on non supported HW"
                r"|forward compatibility was attempted on non.supported HW|cudaErrorCompatNotSupportedOnDevice"
            ),
        ),
        summary="CUDA finds a driver library that does not belong to the driver of this machine<: error {number}>",
        remedy="remove the cuda-compat package, or its folder from LD_LIBRARY_PATH in [env], so that the driver's own "
        "libcuda.so.1 is found; where that does not help, install a newer driver",
    ),
    Rule(
        id="gpu.not-ready",
        says=(
            r"(?i)system not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY",
            r"CUDA unknown error - this may be due to an incorrectly set up environment",
        ),
        summary="the driver can't start the GPUs yet",
        remedy="on a machine with NVSwitch start nvidia-fabricmanager of the driver's version; on any, see that "
        "/dev/nvidia-uvm exists (`nvidia-modprobe -u`); [gpu] devices chooses among the GPUs that work",
        permanent=False,
    ),
    Rule(
        id="gpu.forbidden",
        says=(
            r"(?i)NVMLError_NoPermission|NVML.*insufficient permissions|Failed to initialize NVML: Unknown",
            (
                r"OS call failed or operation not supported on this "
                r"OS|cudaErrorOperatingSystem|CUDA_ERROR_OPERATING_SYSTEM"
            ),
        ),
        summary="the service may not use the GPU: the sandbox or the rights of the device keep it out",
        remedy="look at what was added to the unit (`systemctl cat vllm-serve`: PrivateDevices, DeviceAllow, "
        "SystemCallFilter) and at the group of /dev/nvidia*; `systemctl restart vllm-serve` after a daemon-reload",
    ),
    Rule(
        id="gpu.not-found",
        says=(
            r"No CUDA GPUs are available|no CUDA-capable device is detected|cudaErrorNoDevice",
            r"Found no NVIDIA driver on your system|libcuda\.so\.1: cannot open shared object file",
            r"(?i)NVML Shared Library Not Found|NVMLError_(?:LibraryNotFound|DriverNotLoaded)|driver not loaded",
            r"Failed to infer device type",
            r"local rank \d+ is out of bounds for 0 devices",
        ),
        summary="no GPU is there for the engine: the driver is not loaded, or no GPU is shown to it",
        remedy="see whether `nvidia-smi -L` lists GPUs, and whether [gpu] devices names some of them; without a GPU "
        "install the engine for the CPU (`vllm-serve engine install --device cpu`) and name it in [engine] use",
        permanent=False,
    ),
    Rule(
        id="gpu.no-such-device",
        says=(
            r"invalid device ordinal|cudaErrorInvalidDevice",
            r"NVMLError_InvalidArgument",
            r"invalid literal for int\(\) with base 10: '(?P<named>(?:GPU|MIG)-[^']*)",
        ),
        summary="the engine was told to use a GPU that it does not find<: {named}>",
        remedy="name GPUs that `nvidia-smi -L` lists in [gpu] devices, by their indexes; and lower "
        "[vllm] tensor_parallel_size to their number",
    ),
    Rule(
        id="gpu.too-few",
        says=(
            r"World size \((?P<wanted>\d+)\) is larger than the number of available GPUs \((?P<count>\d+)\)",
            (
                r"(?i)tensor parallel size \((?P<wanted>\d+)\) (?:cannot be|is) larger than the number of available "
                r"GPUs \((?P<count>\d+)\)"
            ),
            (
                r"local_world_size \((?P<wanted>\d+)\) must be less than or equal to the number of visible devices "
                r"\((?P<count>\d+)\)"
            ),
            r"world_size \((?P<wanted>\d+)\) is less than than max local gpu count \((?P<count>\d+)\)",
        ),
        summary="{wanted} GPUs are wanted, {count} are there",
        remedy="lower [vllm] tensor_parallel_size or pipeline_parallel_size, or show more GPUs with [gpu] devices; "
        "several machines share a model with [cluster] nodes",
    ),
    Rule(
        id="gpu.busy",
        says=(r"CUDA-capable device\S* (?:is/)?are busy or unavailable|cudaErrorDevicesUnavailable",),
        summary="another program holds the GPU for itself",
        remedy="stop it (`nvidia-smi` lists it), allow sharing with `nvidia-smi -c DEFAULT`, or choose other GPUs with "
        "[gpu] devices",
        permanent=False,
    ),
    Rule(
        id="gpu.peer-access",
        says=(
            r"peer access is not supported between these two devices|cudaErrorPeerAccessUnsupported",
            r"Cuda error \S*custom_all_reduce\S* '(?P<what>(?!an illegal)[^']*)'",
        ),
        summary="one GPU can't reach the memory of another<: {what}>",
        remedy='set [vllm] disable_custom_all_reduce = true; where NCCL fails too, also [env] NCCL_P2P_DISABLE = "1"',
    ),
    Rule(
        id="gpu.kernel-fault",
        says=(
            r"an illegal memory access was encountered|cudaErrorIllegalAddress",
            r"device-side assert triggered|cudaErrorAssert",
            r"unspecified launch failure|cudaErrorLaunchFailure",
            r"CUDA error: (?:an illegal instruction|misaligned address|invalid program counter)",
        ),
        summary="a computation on the GPU failed: a fault of the engine for this model, or of the GPU",
        remedy='set [vllm] enforce_eager = true, or another attention_backend; [env] CUDA_LAUNCH_BLOCKING = "1" shows '
        "in which step it comes; where every model fails so, the GPU is at fault (`journalctl -k | grep -i xid`)",
        permanent=False,
        when=When.EVER,
    ),
)
