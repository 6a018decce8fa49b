"""One request to two servers, and what must be the same in their replies."""

import dataclasses
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

KEY = "a-key"
SAMPLE = re.compile(r"^(vllm:\w+)(?:\{(.*)\})? [0-9.e+-]+$", re.MULTILINE)
TOKENS_AS_KEYS = "top_logprobs"
"""Of a completion: its keys are what the tokens say."""


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request."""

    path: str
    body: Any = None
    """An object for JSON, bytes as they are; None is a GET."""
    key: str | None = KEY


@dataclasses.dataclass(frozen=True)
class Told:
    """What must be the same in two replies."""

    status: int
    kind: str
    body: Any
    """The shape of a reply; of one that refuses, its words without their numbers."""


def told(base: str, ask: Ask) -> Told:
    """Ask a server."""
    data = ask.body if ask.body is None or isinstance(ask.body, bytes) else json.dumps(ask.body).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {ask.key}"} if ask.key else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(base + ask.path, data, headers), timeout=120) as reply:
            status, kind, text = reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        status, kind, text = error.code, error.headers["Content-Type"], error.read().decode()
    if kind and kind.startswith("text/event-stream"):
        return Told(status, kind, events(text))
    body = json.loads(text) if text else None
    return Told(status, kind, words(body) if status >= 400 else shape(body))


def shape(value: Any, name: str = "") -> Any:
    """Return the keys and the types of a value; lists of a kind are alike however long.

    >>> shape({"a": [1, 2.5], "b": {"17": {"c": None}, "4": {"c": None}}})
    {'a': ['number'], 'b': {'token': [{'c': 'null'}]}}
    """
    if isinstance(value, dict):
        if value and (name == TOKENS_AS_KEYS or all(key.isdigit() for key in value)):
            return {"token": _kinds(value.values())}
        return {key: shape(part, key) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return _kinds(value, name)
    names = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "null"}
    return names[type(value)]


def _kinds(values: Iterable[Any], name: str = "") -> list[Any]:
    return [json.loads(text) for text in sorted({json.dumps(shape(value, name)) for value in values})]


def events(text: str) -> list[Any]:
    """Return the shapes of a stream's events, those in a row that are alike once.

    What the last piece says is left out: it may come with the end or before it, as the engine is ahead of the server.
    """
    found: list[Any] = []
    for line in (line for line in text.splitlines() if line):
        assert line.startswith("data: "), line
        said = line.removeprefix("data: ")
        form = said if said == "[DONE]" else shape(_without_last_words(json.loads(said)))
        if not found or found[-1] != form:
            found.append(form)
    return found


def _without_last_words(event: dict[str, Any]) -> dict[str, Any]:
    for choice in event.get("choices", ()):
        if choice["finish_reason"] and "delta" in choice:
            choice |= {"delta": {}, "logprobs": None, "token_ids": None}
    return event


def alike(real: Told, fake: Told) -> bool:
    """Tell whether two replies are of one form; the real server may send two pieces as one."""
    if not isinstance(real.body, list):
        return real == fake
    rest = iter(fake.body)
    together = all(event in rest for event in real.body) and len(real.body) > 1
    return together and real.body[-2:] == fake.body[-2:] and (real.status, real.kind) == (fake.status, fake.kind)


def metrics(base: str) -> dict[str, set[str]]:
    """Return the names of vLLM's metrics, each with its labels."""
    text = urllib.request.urlopen(f"{base}/metrics", timeout=30).read().decode()
    found: dict[str, set[str]] = {}
    for name, labels in SAMPLE.findall(text):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def words(body: Any) -> Any:
    """Return what a server says when it refuses, without numbers; of faults in a body, only that there are some.

    >>> words({"error": {"message": "at most 20 (value=21)", "code": 400}})
    {'error': {'message': 'at most N (value=N)', 'code': 400}}
    """
    error = body.get("error")
    if not isinstance(error, dict):
        return body
    message = re.sub(r"\d+(\.\d+)?", "N", error["message"])
    message = "a body that does not fit" if re.match("N validation errors?:", message) else message
    return {**body, "error": {**error, "message": message}}
