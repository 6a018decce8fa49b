"""What the server answers when it does not answer."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class Refusal(Exception):  # noqa: N818  # an answer, as far as the server is concerned
    """An answer with an error in it."""

    status: int
    message: str
    kind: str = "BadRequestError"
    param: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}


LOST = Refusal(
    500, "EngineCore encountered an issue. See stack trace (above) for the root cause.", "InternalServerError"
)
BUSY = Refusal(
    503,
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
    "Service Unavailable",
)


def missing(field: str) -> Refusal:
    said = f"{{'type': 'missing', 'loc': 'body.{field}', 'msg': 'Field required', 'input': '<dict of 1 items>'}}"
    return Refusal(400, f"1 validation error:\n  {said}", "Bad Request", f"body.{field}")


def misused(param: str, message: str, value: object) -> Refusal:
    return Refusal(400, f"{message} (parameter={param}, value={value})", param=param)
