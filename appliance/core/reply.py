"""What goes wrong between a question and its answer."""


class ReplyError(Exception):
    """No answer, or one that is not what the API promises; the text says what came."""

    def __init__(self, what: str, *, final: bool = False) -> None:
        super().__init__(what)
        self.final = final
        """True when asking again can't help: the engine understood the question and will not take it."""
