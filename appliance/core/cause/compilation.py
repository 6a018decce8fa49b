"""What must be compiled, linked or imported before an engine runs, and could not be."""

from appliance.core.cause.rule import Depth, Rule, When

RULES = (
    Rule(
        id="compile.no-c-compiler",
        says=(
            r"Failed to find C compiler|InvalidCxxCompiler|[Nn]o working C\+\+ compiler found",
            r"fatal error: [\w/.+-]+\.h: No such file",
        ),
        summary="the engine must compile a part of itself, and there is no C compiler, or not all of it",
        remedy="install it: `apt-get install g++ python3-dev`; or set [vllm] enforce_eager = true, with which less is "
        "compiled",
    ),
    Rule(
        id="compile.toolkit-too-old",
        says=(
            r"ptxas fatal\s*: Value '(?P<arch>sm_\w+)' is not defined for option 'gpu-name'",
            r"nvcc fatal\s*: Unsupported gpu architecture '(?P<arch>\w+)'",
        ),
        summary="the compiler for the GPU is older than the GPU: it does not know {arch}",
        remedy="name the ptxas of a newer CUDA toolkit in [env] TRITON_PTXAS_PATH, and its folder as CUDA_HOME, or an "
        "engine with a newer Triton in [engine] use",
    ),
    Rule(
        id="compile.no-cuda-compiler",
        says=(
            r"[Cc]ould not find (?:a )?nvcc|CUDA_HOME environment variable is not set",
            r"(?:\b(?:nvcc|ninja): (?:command )?not found|No such file or directory: '\S*(?:nvcc|ninja)')",
        ),
        summary="the engine must compile a part of itself for this GPU, and there is no CUDA compiler",
        remedy='set [env] VLLM_USE_FLASHINFER_SAMPLER = "0", or install the CUDA toolkit of the engine\'s version and '
        "name its folder in [env] CUDA_HOME",
    ),
    Rule(
        id="compile.flashinfer",
        says=(r"Ninja build failed|ninja: build stopped: subcommand failed",),
        summary="a part of the engine could not be compiled for this GPU",
        remedy='the compiler\'s messages stand before; set [env] VLLM_USE_FLASHINFER_SAMPLER = "0" and another [vllm] '
        "attention_backend to do without it, and empty the folder that [paths] cache names",
        depth=Depth.HINT,
        when=When.EVER,
    ),
    Rule(
        id="compile.flashinfer-lock",
        says=(r"(?i)flashinfer\.jit: Loading JIT ops: (?P<name>\w+)",),
        unless=r"(?i)Finished loading JIT ops|KV cache size|Graph capturing finished|Application startup complete",
        summary="the engine hung while it loaded a compiled part ({name}): a build that was killed left its lock",
        remedy="stop the service and empty the folder that [paths] cache names",
        permanent=False,
        when=When.STALL,
        quietly=True,
    ),
    Rule(
        id="compile.triton",
        says=(
            r"triton\.\S*(?:CompilationError|PTXASError)|out of resource: (?P<what>[\w ]+)",
            r"cannot find -lcuda|CalledProcessError: Command '\[.*(?:cuda_utils|__triton_launcher)",
        ),
        summary="Triton can't compile a part of the engine for this GPU<: out of {what}>",
        remedy="set another [vllm] attention_backend, or enforce_eager = true; see that libcuda.so is where the linker "
        "looks",
        depth=Depth.HINT,
        when=When.EVER,
    ),
    Rule(
        id="compile.cache",
        says=(r"expected size \S+, stride \S+ at dim|failed to get the hash of the compiled graph",),
        summary="what was compiled at an earlier start does not fit any more",
        remedy="stop the service and empty the folder that [paths] cache names; the next start compiles anew",
    ),
    Rule(
        id="compile.graph",
        says=(
            r"torch\._inductor\.exc\.\w+|BackendCompilerFailed|InductorError",
            r"torch\._dynamo\.exc\.(?P<what>\w+)",
        ),
        summary="torch.compile can't compile this model<: {what}>",
        remedy="set [vllm] enforce_eager = true, which is slower; where it worked before, first empty the folder that "
        "[paths] cache names",
        depth=Depth.HINT,
    ),
    Rule(
        id="engine.library-missing",
        says=(r"(?P<library>lib[\w.+-]+\.so[.\d]*): cannot open shared object file",),
        summary="the library {library} is missing",
        remedy="install the package that has it (for libnuma.so.1: `apt-get install libnuma1`); a library of CUDA "
        "comes with the engine: `vllm-serve engine install` anew, or another in [engine] use",
    ),
    Rule(
        id="engine.abi-mismatch",
        says=(
            r"undefined symbol:? (?P<symbol>\w+)",
            r"version `(?P<symbol>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found",
            r"operator (?P<symbol>torchvision::\w+) does not exist",
            r"'_OpNamespace' '\w+' object has no attribute '(?P<symbol>\w+)'",
        ),
        summary="parts of the engine do not fit together: {symbol} is not there",
        remedy="install the engine anew as a whole (`vllm-serve engine install`) and name it in [engine] use; never "
        "install single packages into it",
    ),
    Rule(
        id="engine.package-missing",
        says=(
            r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'",
            r"ImportError: cannot import name '(?P<name>\w+)' from",
        ),
        summary="the engine lacks the Python package {name}, or has another version of it",
        remedy="install the engine anew as a whole (`vllm-serve engine install`) and name it in [engine] use, or "
        "switch off what needs the package in [vllm] or [env]",
    ),
)
