"""How the engine's own logging reaches the journal: cysystemd's handler in each of its processes."""

import json
from pathlib import Path

IDENTIFIER = "vllm"
"""SYSLOG_IDENTIFIER of the engine's lines: `journalctl -t vllm`."""

JOURNALED = "\x1e"
"""Marks a line on the engine's output that its own handler has sent to the journal already."""

FORMAT = (
    "(%(vllm_process_name)s pid=%(process)d) %(levelname)s %(asctime)s "  # as vLLM's own
    "[%(fileinfo)s:%(lineno)d] %(message)s"
)


def logging_config(journal: bool, level: str) -> str:
    """Return the JSON of vLLM's VLLM_LOGGING_CONFIG_PATH.

    Every line goes to standard output, where the supervisor follows the progress of a start. With a journal to
    write to, it goes there too, straight from the process that logs, with priority and fields, and the line on
    standard output is marked.
    """
    mark = JOURNALED if journal else ""
    formatter = {"()": "vllm.logging_utils.NewLineFormatter", "datefmt": "%m-%d %H:%M:%S", "format": mark + FORMAT}
    handlers: dict[str, dict[str, str]] = {
        "output": {"class": "logging.StreamHandler", "formatter": "vllm", "stream": "ext://sys.stdout"}
    }
    if journal:
        plain = {"format": "%(vllm_process_name)s: %(message)s"}
        handlers["journal"] = {
            "class": "cysystemd.journal.JournaldLogHandler",
            "identifier": IDENTIFIER,
            "formatter": "journal",
        }
    else:
        plain = {}
    logger = {"handlers": sorted(handlers), "level": level, "propagate": False}
    return json.dumps(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"vllm": formatter, "journal": plain},
            "handlers": handlers,
            "loggers": {"vllm": logger},
        }
    )


def write_logging_config(folder: Path, journal: bool, level: str) -> Path:
    """Write the file below a folder that only we write, and return its path."""
    file = folder / "vllm-logging.json"
    file.write_text(logging_config(journal, level))
    return file
