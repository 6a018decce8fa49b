"""What looks like a secret, and values without it."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from appliance.core.opentable import reserved_flag

HIDDEN = "(hidden)"

NAME = re.compile(
    r"(TOKEN|KEY|PASS|PWD|AUTH)\Z|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|COOKIE|AUTHORIZATION", re.IGNORECASE
)
FLAGS = ("api_key", "hf_token")
"""Flags that hold one, also by the abbreviations that vLLM takes."""

VALUE = re.compile(
    r"(?<=://)[^/\s@]+(?=@)"  # https://user:password@host
    r"|(?<![A-Za-z0-9])(hf_|sk-|gh[oprsu]_|github_pat_|glpat-)[A-Za-z0-9_-]{16,}"
    r"|(?<=Bearer )\S+"
)


def is_secret(name: str) -> bool:
    """Tell whether a name of a key, a flag or a variable says that its value is a secret.

    >>> is_secret("max_tokens"), is_secret("MY_API_KEY")
    (False, True)
    """
    return bool(NAME.search(name))


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a value as it may be shown: text, number, list or table.

    >>> without_secrets({"url": "http://me:abc@proxy/", "nested": {"password": "x"}})
    {'url': 'http://(hidden)@proxy/', 'nested': {'password': '(hidden)'}}
    """
    if is_secret(name) and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, dict):
        return {key: without_secrets(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Return a text without what looks like a secret in it; JSON is looked into."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            found = json.loads(text)
            clean = without_secrets(found)
        except (ValueError, RecursionError):
            pass
        else:
            return text if clean == found else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
    return VALUE.sub(HIDDEN, text)


def arguments_without_secrets(arguments: Iterable[str]) -> Iterator[str]:
    """Yield a command line as it may be shown.

    >>> list(arguments_without_secrets(["--api-key", "a", "b", "--seed", "1", "--api-key=c"]))
    ['--api-key', '(hidden)', '(hidden)', '--seed', '1', '--api-key=(hidden)']
    """
    hide = False
    for argument in arguments:
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            name = flag.removeprefix("--").replace("-", "_")
            secret = is_secret(name) or reserved_flag(name) in FLAGS
            hide = secret and not equals
            yield f"{flag}={HIDDEN if secret else _text(value)}" if equals else argument
        else:
            yield HIDDEN if hide else _text(argument)
