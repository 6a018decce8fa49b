"""The supervisor with the real vLLM: the engine of the cache, which the system tests or `make run` installed."""

import json
import urllib.request

from tests.rig import Rig
from tests.system.cache import cache_folder

ENGINES = cache_folder() / "engines"


class RealRig(Rig):
    """One supervisor, whose engine is vLLM."""

    patience = 240.0

    def ask(self, messages: list[dict[str, str]]) -> tuple[str, str]:
        """Return the answer to a conversation, greedily, and its finish_reason."""
        body = {"model": "demo", "messages": messages, "temperature": 0, "max_tokens": 300}
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=240) as reply:
            choice = json.load(reply)["choices"][0]
        return str(choice["message"]["content"]), str(choice["finish_reason"])
