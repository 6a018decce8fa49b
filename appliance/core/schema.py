"""The JSON Schema of vllm-serve.toml, for editors."""

import json
from typing import Any

from appliance.core.config import OPEN_SECTIONS, ORDER
from appliance.core.description import OPEN_EXAMPLES, QUESTION_SUMMARY, about_judge, default_of, summary_of
from appliance.core.judge import JUDGES
from appliance.core.kind import Schema
from appliance.core.opentable import FLAG_NAME, RESERVED_FLAGS, RESERVED_VARIABLES, SECRET_NAME, VARIABLE_NAME
from appliance.core.question import Common
from appliance.core.record import Key, keys_of
from appliance.core.section import SECTIONS, Top

DIALECT = "https://json-schema.org/draft/2020-12/schema"

END = r"\Z"
"""What Python has for `$`."""

ANY_VALUE = ["string", "number", "boolean", "array", "object"]


def schema() -> dict[str, Any]:
    """Return what JSON Schema can say of a vllm-serve.toml; `vllm-serve config check` says the rest."""
    top = {name: _key(key) for name, key in keys_of(Top).items()}
    return {
        "$schema": DIALECT,
        "title": "vllm-serve.toml",
        "description": "Configuration of vllm-serve; see vllm-serve.toml(5).",
        "type": "object",
        "additionalProperties": False,
        "properties": {**top, **{name: _section(name) for name in ORDER}, "question": _questions()},
    }


def schema_text() -> str:
    """Return the schema as the file that is shipped."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _questions() -> Schema:
    return {"description": QUESTION_SUMMARY, "type": "array", "items": {"oneOf": [_judge(name) for name in JUDGES]}}


def _judge(name: str) -> Schema:
    keys = {**keys_of(Common), **keys_of(JUDGES[name])}
    return {
        "title": name,
        "description": about_judge(JUDGES[name]),
        "type": "object",
        "required": ["judge", *(key.name for key in keys.values() if key.required)],
        "additionalProperties": False,
        "properties": {"judge": {"const": name}, **{key.name: _key(key) for key in keys.values()}},
    }


def _section(name: str) -> Schema:
    about: dict[str, Any] = {"description": summary_of(name), "type": "object"}
    if name in OPEN_SECTIONS:
        return {**about, "examples": [OPEN_EXAMPLES[name]], **_open(name)}
    properties = {key.name: _key(key) for key in keys_of(SECTIONS[name]).values()}
    return {**about, "additionalProperties": False, "properties": properties}


def _key(key: Key) -> Schema:
    default = default_of(key)
    about: dict[str, Any] = {"description": key.doc, "default": default}
    if key.required:
        about = {"description": key.doc}
    elif default is None:
        about = {"description": f"{key.doc} Default: {key.absent}."}
    if key.example is not None:
        about["examples"] = [key.example]
    return {**about, **key.kind.schema}


def _open(name: str) -> Schema:
    flag = FLAG_NAME.pattern
    if name == "env":
        allowed: Schema = {"pattern": _whole(VARIABLE_NAME.pattern)}
        refused: Schema = {"pattern": f"{_whole(RESERVED_VARIABLES.pattern)}|{_ends(SECRET_NAME.pattern)}"}
        return {"propertyNames": {**allowed, "not": refused}, "additionalProperties": {"type": ANY_VALUE[:3]}}
    if name == "knobs":
        return {"propertyNames": {"pattern": _whole(flag)}, "additionalProperties": {"type": ANY_VALUE}}
    spelled = sorted({spelling for flag in RESERVED_FLAGS for spelling in (flag, flag.replace("_", "-"))})
    return {
        "propertyNames": {"pattern": _whole(flag.replace("_", "_-")), "not": {"enum": spelled}},
        # A text that begins with a dash would be another flag.
        "additionalProperties": {"type": ANY_VALUE, "pattern": "^([^-]|$)"},
    }


def _whole(pattern: str) -> str:
    return f"^({pattern.removesuffix(END)})$"


def _ends(pattern: str) -> str:
    return pattern.replace(END, "$")
