"""How far a start of vLLM is, from the lines that it prints and the bytes that it reads."""

import dataclasses
import enum
import re
from collections.abc import Iterator

from appliance.core.record import record


class Stage(enum.IntEnum):
    """What a start does, in the order in which that happens: none begins twice, so a start never goes back."""

    IMPORTING = enum.auto()
    """From the first moment on: vLLM prints nothing for 6 to 20 s."""
    CONFIGURING = enum.auto()
    STARTING = enum.auto()
    GATHERING = enum.auto()
    """Processes of a group of several wait for each other."""
    LOADING = enum.auto()
    """The model is built; a loader without a bar, such as that of sharded states, says no more than this."""
    FETCHING = enum.auto()
    DOWNLOADING = enum.auto()
    PREFETCHING = enum.auto()
    READING = enum.auto()
    """No line says so: the engine's processes were seen to read, see `progress_read`."""
    LOADING_SHARDS = enum.auto()
    SHARDS_LOADED = enum.auto()
    LOADING_MORE = enum.auto()
    """A second checkpoint, such as a drafter's: the only place where the count of weights begins again."""
    LOADED = enum.auto()
    COMPILING = enum.auto()
    MEASURING = enum.auto()
    """Graphs are captured for their size and thrown away, before there is a KV cache."""
    CACHING = enum.auto()
    PREPARING = enum.auto()
    """vLLM 0.32 warms its kernels up before it captures graphs, 0.26 afterwards."""
    CAPTURING = enum.auto()
    WARMING = enum.auto()
    SERVING = enum.auto()
    TESTING = enum.auto()
    """No line says so: the engine has answered, see `progress_answered`."""

    @property
    def words(self) -> str:
        """What a person reads."""
        return WORDS[self]


WORDS = {
    Stage.IMPORTING: "importing",
    Stage.CONFIGURING: "reading the configuration",
    Stage.STARTING: "starting the engine core",
    Stage.GATHERING: "waiting for ranks",
    Stage.LOADING: "loading weights",
    Stage.FETCHING: "downloading files",
    Stage.DOWNLOADING: "downloading weights",
    Stage.PREFETCHING: "prefetching weights",
    Stage.READING: "reading weights",
    Stage.LOADING_SHARDS: "loading weights",
    Stage.SHARDS_LOADED: "weights loaded",
    Stage.LOADING_MORE: "loading more weights",
    Stage.LOADED: "weights loaded",
    Stage.COMPILING: "compiling",
    Stage.MEASURING: "measuring graphs",
    Stage.CACHING: "making the KV cache",
    Stage.PREPARING: "warming up",
    Stage.CAPTURING: "capturing graphs",
    Stage.WARMING: "warming up",
    Stage.SERVING: "starting the API server",
    Stage.TESTING: "asking the self-test",
}

SUMMED = frozenset({Stage.GATHERING, Stage.DOWNLOADING})
"""Stages whose bars go on side by side: ranks that have come, files on their way."""

DONE = frozenset({Stage.SHARDS_LOADED, Stage.LOADED})
"""Stages that keep the bars before them to tell theirs from those of another checkpoint; nothing is counted in them."""

GIB, MIB = 1 << 30, 1 << 20

HEADER = re.compile(
    r"(?:^|(?<=\) )|(?<=\]))(?P<level>[A-Z]+) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? "
    r"\[?[\w./-]+:\d+\] (?P<text>.*)"
)
"""How a logged line begins, before its text; it may follow the end of a bar, which another process drew."""

TELLING = ("INFO", "DEBUG")
"""Levels of lines that tell of progress: what is logged as a warning or an error tells of none."""

SENTENCES = tuple(
    (re.compile("|".join(beginnings)), stage)
    for stage, beginnings in (
        (Stage.CONFIGURING, (r"non-default args: ", r"vLLM (?:API )?server version ")),
        (Stage.STARTING, (r"Using max model len \d", r"Initializing a V\d LLM engine ")),
        (Stage.LOADING, (r"Starting to load model ", r"Loading model from scratch")),
        (Stage.SHARDS_LOADED, (r"Loading weights took ",)),
        (Stage.LOADING_MORE, (r"Loading drafter model",)),
        (Stage.LOADED, (r"Model loading took ", r"Loading model weights took ")),
        (
            Stage.COMPILING,
            (
                r"(?:\[[^\]]+\] )?(?:Starting torch\.compile|Dynamo bytecode |Cache the graph |Compiling a graph )",
                r"(?:\[[^\]]+\] )?(?:Directly load |torch\.compile took |saved AOT compiled )",
                r"(?:\[[^\]]+\] )?(?:Using cache directory: .* torch\.compile|vLLM's torch\.compile cache )",
                r"Warming up model for the compilation",
            ),
        ),
        (Stage.MEASURING, (r"Profiling CUDA graph memory",)),
        (Stage.CACHING, (r"Available KV cache memory", r"\w+ KV cache size: ", r"Explicitly set .* for KV cache ")),
        (Stage.WARMING, (r"Warming up (?!done)", r"JIT kernel warmup starting", r"Running FlashInfer autotune ")),
        (Stage.WARMING, (r"Compile and warming up model ", r"Graph capturing finished ")),
        (Stage.SERVING, (r"Supported[ _]tasks: ", r"Starting vLLM (?:API )?server ")),
    )
)
"""How the texts begin that vLLM logs, versions 0.9 to 0.32; the first that fits counts."""

RANK = re.compile(r"world_size=(?P<size>\d+) rank=(?P<rank>\d+) ")

LARGEST_WORLD = 4096
"""Ranks; a line with more of them only looks like vLLM's."""

PREFETCH = re.compile(r"Prefetching checkpoint files: +\d+% \((?P<done>\d+)/(?P<total>\d+)\)")

BAR = re.compile(
    r"(?:\([^()]*\)\s*)*(?P<name>\S.*?):\s+\d+%\s*(?:Completed \||\|[^|]*\|)\s*"
    r"(?P<done>\d+(?:\.\d+)?[kMGTP]?)/(?P<total>\d+(?:\.\d+)?(?P<unit>[kMGTP]?)) \["
)
"""A bar of tqdm's, in vLLM's form or its own; it may follow the name of the process that drew it."""

BARS = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"(?:Loading|Multi-thread loading) .*(?:shards|Streamer|loader)(?: \(eager\))?", Stage.LOADING_SHARDS),
        (r"Fetching \d+ files", Stage.FETCHING),
        (r"(?:Downloading \[)?(?P<file>\S+\.(?:safetensors|bin|pt|pth|gguf))\]?", Stage.DOWNLOADING),
        (r"(?:Downloading \[)?(?P<file>\S+-\d+-of-\d+\S*)\]?", Stage.DOWNLOADING),
        (r"Capturing CUDA graphs? ?(?:shapes|\((?:mixed prefill-decode, )?PIECEWISE\))?", Stage.CAPTURING),
        (r"Capturing (?P<of>[A-Za-z -]+ )?CUDA graphs?(?: \((?P<kind>[A-Za-z, _-]+)\))?", Stage.CAPTURING),
        (r"(?P<kind>DeepGEMM) warmup|Compiling (?P<other>CuTeDSL) kernels", Stage.WARMING),
        (r"(?P<kind>JIT kernel) warmup \(\d+ compile keys\)", Stage.WARMING),
    )
)
"""Names of bars: vLLM's, versions 0.9 to 0.32, those of loaders that are packages of their own, and huggingface_hub's.

What stands in a group tells one from others of its stage.
"""

POWERS = ("", "k", "M", "G", "T", "P")
"""What the numbers of a bar end with, by the power of their base."""


@record
class Bar:
    """A count that has an end."""

    name: str = ""
    """Which of several: a file, a rank, or a kind of graphs; empty where there is one."""
    done: int
    total: int
    """Above 0."""
    in_bytes: bool = False

    def __str__(self) -> str:
        if not self.in_bytes:
            return f"{self.done}/{self.total}"
        unit, size = ("GiB", GIB) if self.total >= GIB else ("MiB", MIB)
        return f"{self.done / size:.1f} of {self.total / size:.1f} {unit}"


@record
class Progress:
    """How far a start is.

    >>> Progress(stage=Stage.LOADING_SHARDS, bars=(Bar(done=7, total=12),)).words
    'loading weights 7/12'
    """

    stage: Stage = Stage.IMPORTING
    bars: tuple[Bar, ...] = ()
    """Those of this stage, in the order in which they began."""

    @property
    def bar(self) -> Bar | None:
        """What is counted now; None where nothing is."""
        if not self.bars or self.stage in DONE:
            return None
        if self.stage not in SUMMED:
            return self.bars[-1]
        done, total = sum(bar.done for bar in self.bars), sum(bar.total for bar in self.bars)
        return Bar(done=done, total=total, in_bytes=self.bars[-1].in_bytes)

    @property
    def words(self) -> str:
        """What a person reads: one line of ASCII."""
        bar = self.bar
        if bar is None:
            return self.stage.words
        return f"{self.stage.words} {bar}" + (f" ({bar.name})" if bar.name else "")

    @property
    def step(self) -> str:
        """The name of the work in hand, counts left out: the same in every start that does it."""
        bar = self.bar
        return f"{self.stage.name} {bar.name}" if bar and bar.name else self.stage.name


def progress_after(progress: Progress, line: str) -> Progress:
    """Return how far a start is when a line was printed, by whichever of its processes.

    >>> progress_after(Progress(), "Loading pt checkpoint shards:  27% Completed | 3/11 [00:04<00:11,  1.44s/it]").words
    'loading weights 3/11'
    """
    for told in told_by(line):
        placed = _placed(progress, told)
        progress = _merged(progress, placed) if placed else progress
    return progress


def progress_read(progress: Progress, read: int, size: int) -> Progress:
    """Return how far a start is when its processes have fetched so many bytes since it began to load, of so many.

    It counts only while the log is silent. Reading is said from one part in a hundred on: pages of libraries are
    fetched too, also where no weights are, and what lies in the page cache is not fetched at all.
    """
    bar = progress.bar
    silent = progress.stage in (Stage.LOADING, Stage.READING)
    downloaded = progress.stage in (Stage.FETCHING, Stage.DOWNLOADING) and bar is not None and bar.done == bar.total
    if not (silent or downloaded) or size <= 0 or read * 100 < size:
        return progress
    reading = Bar(done=min(read, size), total=size, in_bytes=True)
    return _merged(progress, Progress(stage=Stage.READING, bars=(reading,)))


def progress_answered(progress: Progress) -> Progress:
    """Return how far a start is when its engine has answered for the first time."""
    return _merged(progress, Progress(stage=Stage.TESTING))


def progress_of(line: str) -> str | None:
    """Return what a line says by itself about the progress of a start; None when it says nothing."""
    told = next(told_by(line), None)
    return told.words if told else None


def _placed(before: Progress, told: Progress) -> Progress | None:
    """Return what a line tells at this point of a start; None where it tells nothing."""
    match told.stage:
        case Stage.CAPTURING if before.stage < Stage.CACHING:
            return dataclasses.replace(told, stage=Stage.MEASURING)
        case Stage.WARMING if before.stage < Stage.CACHING:
            return None
        case Stage.WARMING if before.stage < Stage.CAPTURING:
            return dataclasses.replace(told, stage=Stage.PREPARING)
        case Stage.FETCHING | Stage.DOWNLOADING if before.stage < Stage.LOADING:
            return None
        case Stage.LOADING_SHARDS if _begins_again(before, told.bars):
            return dataclasses.replace(told, stage=Stage.LOADING_MORE)
        case Stage.SHARDS_LOADED if before.stage is Stage.LOADING_SHARDS:
            return dataclasses.replace(told, bars=before.bars)
        case _:
            return told


def _begins_again(before: Progress, bars: tuple[Bar, ...]) -> bool:
    """Tell whether a bar of shards is that of a second checkpoint, and not a slower process's of the first.

    That of the first has as many shards, and a process that is behind is rarely so far behind that it begins when
    another has ended. A checkpoint whose parts are loaded one after the other has a bar for each.
    """
    if before.stage is Stage.LOADING_MORE or (before.stage is Stage.SHARDS_LOADED and not before.bars):
        return True
    if before.stage not in (Stage.LOADING_SHARDS, Stage.SHARDS_LOADED):
        return False
    first, now = before.bars[0], bars[0]
    ended = before.stage is Stage.SHARDS_LOADED
    return (first.total != now.total and (ended or first.done == first.total)) or (ended and now.done == 0)


def _merged(before: Progress, told: Progress) -> Progress:
    """Return the farther one of two; within a stage that of every bar."""
    if told.stage is not before.stage:
        return max(before, told, key=lambda progress: progress.stage)
    bars = {bar.name: bar for bar in before.bars}
    for bar in told.bars:
        known = bars.setdefault(bar.name, bar)
        if known.total == bar.total and known.done < bar.done:
            bars[bar.name] = bar
    return dataclasses.replace(before, bars=tuple(bars.values()))


def told_by(line: str) -> Iterator[Progress]:
    """Yield what a line says by itself: a bar, a sentence, or the one and then the other."""
    header = HEADER.search(line)
    drawn = BAR.match(line[: header.start()] if header else line)
    if drawn and (told := _drawn(drawn)):
        yield told
    if header and header["level"] in TELLING and (told := _said(header["text"])):
        yield told


def _said(text: str) -> Progress | None:
    """Return what a sentence of the log tells."""
    if found := RANK.match(text):
        size, rank = int(found["size"]), int(found["rank"])
        ranks = tuple(Bar(name=str(number), done=int(number == rank), total=1) for number in range(size))
        return Progress(stage=Stage.GATHERING, bars=ranks) if 1 < size <= LARGEST_WORLD else None
    if found := PREFETCH.match(text):
        bar = Bar(done=int(found["done"]), total=int(found["total"]))
        return Progress(stage=Stage.PREFETCHING, bars=(bar,))
    return next((Progress(stage=stage) for pattern, stage in SENTENCES if pattern.match(text)), None)


def _drawn(drawn: re.Match[str]) -> Progress | None:
    """Return what a bar tells; None for one of something else, and where there is nothing to count."""
    for pattern, stage in BARS:
        if found := pattern.fullmatch(drawn["name"]):
            base = 1000 if stage is Stage.DOWNLOADING else 1024  # as huggingface_hub and InstantTensor count
            done, total = _number(drawn["done"], base), _number(drawn["total"], base)
            name = ", ".join(word.strip() for word in found.groups() if word)
            bar = Bar(name=name, done=min(done, total), total=total, in_bytes=bool(drawn["unit"]))
            return Progress(stage=stage, bars=(bar,)) if total else None
    return None


def _number(text: str, base: int) -> int:
    """Return a number of a bar.

    >>> _number("51", 1024), _number("1.5k", 1000)
    (51, 1500)
    """
    unit = text[-1] if text[-1].isalpha() else ""
    return round(float(text.removesuffix(unit)) * int(base) ** POWERS.index(unit))
