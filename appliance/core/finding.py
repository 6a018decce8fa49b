"""What the checks yield for a person to act on."""

import enum

from appliance.core.record import record


class Severity(enum.StrEnum):
    """What a finding means for the start."""

    ERROR = "error"
    """Refuses the start."""
    WARNING = "warning"
    """Starts, and says so."""
    UNKNOWN = "unknown"
    """Could not tell."""


@record
class Finding:
    """Something a check found."""

    id: str
    """Stable name, `topic.subject`."""
    severity: Severity
    summary: str
    remedy: str = ""
    transient: bool = False
    """True when the same check may pass a little later."""

    def __str__(self) -> str:
        text = f"{self.id}: {self.summary}"
        return f"{text}; {self.remedy}" if self.remedy else text
