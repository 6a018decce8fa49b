"""The demonstration model answers everything that it promises, exactly, in the real vLLM."""

import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from appliance.engine.installation import in_use, installed
from demo import lesson
from tests.contract.service import ENGINES, RealRig
from tests.proof.proof import Outcome, Proof

AT_ONCE = 16


def _conversations() -> dict[str, lesson.Conversation]:
    lines = (None, *lesson.FAMILIAR_SYSTEM_LINES, *lesson.UNSEEN_SYSTEM_LINES)
    talks = [lesson.Conversation(fact, line) for fact in lesson.FACTS for line in lines]
    talks += [lesson.Conversation(sum_) for sum_ in lesson.additions()]
    talks += [lesson.Conversation(count) for count in lesson.counts()]
    return {f"{talk.system or '-'} | {talk.last.question}": talk for talk in talks}


CONVERSATIONS = _conversations()


def run(cases: tuple[str, ...], folder: Path) -> Iterator[Outcome]:
    """Start the service and ask."""
    rig = RealRig(folder, ENGINES)
    try:
        rig.start()
        rig.until_ready()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = {pool.submit(rig.ask, CONVERSATIONS[case].messages()): case for case in cases}
            for future in as_completed(asked):
                case, (answer, reason) = asked[future], future.result()
                right = answer == CONVERSATIONS[case].last.answer and reason == "stop"
                yield Outcome(case=case, passed=right, note="" if right else json.dumps(answer, ensure_ascii=False))
    finally:
        rig.close()


def versions() -> Mapping[str, str]:
    """Return what the answers come from."""
    used = in_use(ENGINES)
    engines = {manifest.id: manifest for manifest in installed(ENGINES)}
    engine = engines[used] if used else None
    return {"python": sys.version.split()[0], "vllm": engine.vllm, "torch": engine.torch} if engine else {}


DEMO_ANSWERS = Proof(
    name="demo-answers",
    promise=(
        "in the real vLLM the demonstration model answers, greedily and exactly: its facts alone and after system "
        "lines, all 100 sums, and all 1,770 counts"
    ),
    covers=(
        "demo/model",
        "demo/lesson.py",
        "appliance/recipes/demo.toml",
        "appliance/engine/lock",
        "tests/proof/demo_answers.py",
    ),
    seed=0,
    cases=tuple(CONVERSATIONS),
    slice_size=120,
    run=run,
    versions=versions,
)
