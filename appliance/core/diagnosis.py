"""Why an engine failed: from its last lines and what else is known to one cause, with a remedy."""

import re
from collections.abc import Iterable, Iterator, Sequence

from appliance.core.cause import RULES
from appliance.core.cause.derivation import how_it_ended
from appliance.core.cause.rule import Depth, Rule, Source, When, filled
from appliance.core.phase import ExitStatus
from appliance.core.plan import Plan
from appliance.core.record import record
from appliance.core.secret import arguments_without_secrets
from appliance.core.setting import Json, Setting
from appliance.core.testimony import MOST, lines_that_matter, root_of, signed, survived, without_noise
from appliance.core.utterance import Utterance, utterances

LONGEST_QUOTE = 500
"""Characters of a quoted line; vLLM lists all of its parsers on one."""

OOM = "host.out-of-memory"
UNKNOWN = "engine.unknown"

KILLED = -9
"""How a process ends that the kernel, or somebody, killed."""

SHUTDOWN = re.compile(r"\[shutdown\] API server: shutdown triggered|^KeyboardInterrupt(?:: terminated)?$")
"""What an API server says that was asked to stop, or whose engine core died; the latter says so before."""

STACKS = re.compile(rf"{SHUTDOWN.pattern}|^Fatal Python error: Aborted")
"""What a hung engine says that was ended: SIGABRT makes Python show where it stands."""

PROCESSES = re.compile(r"\((?:VLLM::|vllm|python|pt_main_thread|ray::|nvcc|cicc|cc1plus|ptxas)|/vllm-serve")
"""Names of processes, as the kernel prints them, that may be the engine's; or the control group of the unit."""

VICTIM = re.compile(r"(?:Killed|Kill) process \d+")


@record
class Evidence:
    """What is known of a failure beside the engine's lines."""

    status: int | None = None
    """How the API server ended: an exit status, negative for a signal; None where it did not end by itself."""
    ready: bool = False
    """Whether this engine ever answered."""
    stalled: bool = False
    """Whether it was ended because nothing moved any more."""
    oom_kills: int | None = None
    """How many processes of the unit the kernel killed for their memory since the launch; None where unknown."""
    kernel: tuple[str, ...] | None = None
    """What the kernel said since the launch; None where it could not be read."""
    settings: tuple[Setting, ...] = ()
    port: int | None = None
    model: str = ""
    """The folder of the model."""


@record
class Diagnosis:
    """Why an engine failed."""

    id: str
    """Stable name, `topic.subject`; `engine.unknown` where no rule knows it."""
    summary: str
    remedy: str = ""
    line: str = ""
    """What was said, without its prefix."""
    speaker: str = ""
    """Which process said it, `kernel` for the kernel; empty where that is not known."""
    permanent: bool = False
    """Whether nothing mends itself."""
    lines: tuple[str, ...] = ()
    """The last lines that matter, oldest first, without the frames of tracebacks."""

    @property
    def status(self) -> ExitStatus:
        """How the service should end, where this is not to be tried again."""
        return ExitStatus.CONFIGURATION if self.permanent else ExitStatus.TRY_LATER

    def __str__(self) -> str:
        text = f"{self.id}: {self.summary}"
        return f"{text}; {self.remedy}" if self.remedy else text


@record
class Sighting:
    """A rule that was seen in a line."""

    rule: Rule
    depth: Depth
    place: int
    line: str
    speaker: str
    fields: tuple[tuple[str, str], ...]


def evidence_of(plan: Plan, seen: Evidence) -> Evidence:
    """Return the evidence with what the plan says."""
    return Evidence(
        status=seen.status,
        ready=seen.ready,
        stalled=seen.stalled,
        oom_kills=seen.oom_kills,
        kernel=seen.kernel,
        settings=plan.settings,
        port=plan.port,
        model=plan.model_folder,
    )


def diagnosed(lines: Iterable[str], evidence: Evidence, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Return why an engine failed. `lines` are its last ones, of all processes, as they were printed."""
    said = utterances(lines)
    matter = lines_that_matter(_before_stop(said, evidence))
    cause = cause_seen(said, evidence, rules)
    if cause is None or _is_of_another(cause, said, evidence, rules):
        return _unknown(said, tuple(map(quoted, matter)), evidence)
    if not any(cause.line in text for text in matter):
        matter = (signed(cause.speaker, cause.line), *matter)[:MOST]
    fields = {**_known(evidence), **dict(cause.fields)}
    return Diagnosis(
        id=cause.rule.id,
        summary=filled(cause.rule.summary, fields),
        remedy=filled(cause.rule.remedy, fields),
        line=quoted(cause.line),
        speaker=cause.speaker,
        permanent=cause.rule.permanent and not evidence.ready,
        lines=tuple(map(quoted, matter)),
    )


def cause_seen(said: Sequence[Utterance], evidence: Evidence, rules: Sequence[Rule] = RULES) -> Sighting | None:
    """Return the cause nearest to the root: by its depth, then by the order of the lines, then of the rules."""
    sightings = [*_by_kernel(evidence, rules), *_by_engine(_before_stop(said, evidence), evidence, rules)]
    return min(sightings, key=lambda seen: (seen.depth, seen.rule.depth, seen.place), default=None)


def _is_of_another(cause: Sighting, said: Sequence[Utterance], evidence: Evidence, rules: Sequence[Rule]) -> bool:
    """Tell whether a cause only reports an error that stands there as well and that no rule knows."""
    root = root_of(_before_stop(said, evidence)) if cause.depth >= Depth.WAIT else None
    known = (rule for rule in rules if rule.source is Source.ENGINE and _counts(rule, evidence))
    return root is not None and not any(_sighting(rule, root.utterance) for rule in known)


def _before_stop(said: Sequence[Utterance], evidence: Evidence) -> Sequence[Utterance]:
    """Return what was said before an engine was asked to stop, or to show its stacks: then it may say anything."""
    end = STACKS if evidence.stalled else SHUTDOWN
    stops = (index for index, one in enumerate(said) if end.search(one.text))
    return said[: next(stops, len(said))]


def _by_engine(said: Sequence[Utterance], evidence: Evidence, rules: Sequence[Rule]) -> Iterator[Sighting]:
    heard = without_noise(said)
    past = survived(said)
    loud = tuple(_first_of_each((one for one in heard if one.level not in ("DEBUG", "INFO", "WARNING")), past))
    for rule in rules:
        if rule.source is Source.ENGINE and _counts(rule, evidence):
            for seen in _seen(rule, heard if rule.quietly else loud, said):
                yield _demoted(seen) if seen.place in past else seen


def _first_of_each(said: Iterable[Utterance], past: frozenset[int]) -> Iterator[Utterance]:
    """Yield what was said, each text once for each process: handlers of errors say the same again."""
    heard = set()
    for one in said:
        key = (one.process, one.text, one.frames, one.place in past)
        if key not in heard:
            heard.add(key)
            yield one


def _demoted(seen: Sighting) -> Sighting:
    """Return a cause that its process lived on with: anything that ended one outweighs it."""
    depth = max(seen.depth, Depth.WAIT)
    return Sighting(
        rule=seen.rule, depth=depth, place=seen.place, line=seen.line, speaker=seen.speaker, fields=seen.fields
    )


def _counts(rule: Rule, evidence: Evidence) -> bool:
    if rule.when is When.STALL:
        return evidence.stalled
    return rule.when is When.EVER or not evidence.ready


def _seen(rule: Rule, heard: Sequence[Utterance], said: Sequence[Utterance]) -> Iterator[Sighting]:
    """Yield the lines that a rule reads; where it may be contradicted, the last one, and only if nothing does."""
    found = [seen for one in heard if (seen := _sighting(rule, one))]
    if rule.unless and found:
        later = (one for one in said if one.place > found[-1].place)
        found = [] if any(re.search(rule.unless, one.text) for one in later) else found[-1:]
    yield from found


def _sighting(rule: Rule, one: Utterance) -> Sighting | None:
    if rule.within and not any(re.search(rule.within, frame) for frame in one.frames):
        return None
    matches = [found for pattern in rule.says if (found := re.search(pattern, one.text))]
    if not matches:
        return None
    fields = {name: value for found in reversed(matches) for name, value in found.groupdict().items() if value}
    fields |= rule.derive(fields) if rule.derive else {}
    return Sighting(
        rule=rule,
        depth=rule.depth,
        place=one.place,
        line=one.text,
        speaker=one.speaker,
        fields=tuple(fields.items()),
    )


def _by_kernel(evidence: Evidence, rules: Sequence[Rule]) -> Iterator[Sighting]:
    """Yield what the kernel said of this engine; the count of its kills stands where its words can't be read."""
    words = [line for line in evidence.kernel or () if not VICTIM.search(line) or _is_ours(line, evidence)]
    said = tuple(
        Utterance(place=place - len(words), speaker="kernel", process="kernel", level="", text=line)
        for place, line in enumerate(words)
    )
    found = [
        seen
        for rule in rules
        if rule.source is Source.KERNEL and _counts(rule, evidence)
        for one in said
        if (seen := _sighting(rule, one))
    ]
    yield from found
    counted = next((rule for rule in rules if rule.id == OOM and rule.source is Source.KERNEL), None)
    if evidence.oom_kills and counted and not any(seen.rule.id == OOM for seen in found):
        line = f"memory.events: oom_kill {evidence.oom_kills}"
        fields = (("process", "a process"),)
        yield Sighting(rule=counted, depth=counted.depth, place=-1, line=line, speaker="kernel", fields=fields)


def _is_ours(line: str, evidence: Evidence) -> bool:
    """Tell whether a process that the kernel killed may be the engine's: by its name, and by the unit's own count."""
    return evidence.oom_kills != 0 and PROCESSES.search(line) is not None


def _known(evidence: Evidence) -> dict[str, str]:
    """Return what is known by name: the settings, the port, the folder, and whether the kernel killed anything."""
    fields = {
        setting.name: str(setting.value).lower() if isinstance(setting.value, bool) else str(setting.value)
        for setting in evidence.settings
        if not isinstance(setting.value, (Json, tuple))
    }
    if evidence.port is not None:
        fields["port"] = str(evidence.port)
    if evidence.model:
        fields["folder"] = evidence.model
    if evidence.oom_kills == 0:
        fields["killer"] = "it was not the kernel for lack of memory, by its own count"
    elif evidence.oom_kills is None:
        fields["killer"] = "whether the kernel killed it for lack of memory could not be told"
    return fields


def _unknown(said: Sequence[Utterance], matter: tuple[str, ...], evidence: Evidence) -> Diagnosis:
    """Return what is to be said where no rule knows the cause: the error that a person would look for."""
    root = root_of(_before_stop(said, evidence))
    if root:
        summary = root.shown
        return Diagnosis(
            id=UNKNOWN,
            summary=f"the engine failed: {quoted(summary)}",
            remedy="the journal has all of its lines: `journalctl -t vllm`",
            line=quoted(root.utterance.text),
            speaker=root.utterance.speaker,
            lines=matter,
        )
    return Diagnosis(id=UNKNOWN, summary=_silent(said, evidence), lines=matter)


def _silent(said: Sequence[Utterance], evidence: Evidence) -> str:
    """Return what is known of an engine that named no error."""
    how = "" if evidence.status is None else f" ({how_it_ended(evidence.status)})"
    if evidence.stalled:
        return "the engine hung: nothing moved any more, and it named no error"
    if any(SHUTDOWN.search(one.text) for one in said):
        return f"the engine ended{how}: it was asked to stop, but not by vllm-serve"
    killer = _known(evidence).get("killer") if evidence.status == KILLED else None
    return f"the engine ended by itself{how} and named no error{f'; {killer}' if killer else ''}"


def quoted(text: str) -> str:
    """Return a text as it may be shown: without secrets, and not endless."""
    clean = " ".join(arguments_without_secrets(text.split(" ")))
    return clean if len(clean) <= LONGEST_QUOTE else f"{clean[: LONGEST_QUOTE - 3]}..."
