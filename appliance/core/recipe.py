"""What is known of a model on a kind of hardware: flags, variables and questions with known answers."""

from collections.abc import Mapping
from typing import Any

from appliance.core.config import settings_of, variables_of
from appliance.core.document import Reader, document_of
from appliance.core.kind import COUNT, TEXT
from appliance.core.problem import RefusedError
from appliance.core.record import key, record
from appliance.core.setting import Setting, Variable


@record
class Question:
    """One question of the self-test and the answer that a sound model gives, greedily."""

    ask: str = key("what the user says", TEXT)
    answer: str = key("the whole answer", TEXT)
    max_tokens: int = key("where an answer that runs on is cut", COUNT, default=256)


@record
class RecipeModel:
    """[model] of a recipe."""

    source: str | None = key("folder of the checkpoint, below the package's data", TEXT, default=None)
    served_model_name: str | None = key("name that clients ask for", TEXT, default=None)


@record
class Recipe:
    """One file of recipes/, or of /etc/vllm-serve/recipes/."""

    id: str
    summary: str
    model: RecipeModel
    vllm: tuple[Setting, ...]
    env: tuple[Variable, ...]
    questions: tuple[Question, ...]


def recipe_of(text: str, file: str) -> Recipe:
    """Read the text of a recipe. Raises RefusedError with every problem in it."""
    document = document_of(text, file)
    reader = Reader(document)
    reader.unknown((), document.table, ("id", "summary", "model", "vllm", "env", "question"))
    identity, summary = (reader.required((name,), document.table, TEXT) for name in ("id", "summary"))
    model = reader.record(RecipeModel, ("model",), reader.table(("model",)))
    vllm, env = settings_of(reader, ("vllm",)), variables_of(reader, ("env",))
    questions = tuple(reader.record(Question, ("question",), table) for table in _question_tables(document.table))
    if not questions:
        reader.refuse(("question",), "missing", "a recipe asks at least one question with a known answer")
    if reader.problems or not (identity and summary and model):
        raise RefusedError(reader.problems)
    return Recipe(
        id=identity, summary=summary, model=model, vllm=vllm, env=env, questions=tuple(q for q in questions if q)
    )


def _question_tables(table: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    found = table.get("question", [])
    return tuple(item for item in found if isinstance(item, dict)) if isinstance(found, list) else ()
