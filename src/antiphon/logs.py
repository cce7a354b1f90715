"""The log, on standard error: one JSON object or plain line for each message. Prompts, answers and keys are never logged."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from antiphon.log_lines import to_line

logger = logging.getLogger("antiphon")
# Members of every message of this process: which worker process it is, where there are several.
always: dict[str, Any] = {}


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "members", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            members["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(members, enc_hook=str).decode()


class PlainFormatter(logging.Formatter):
    """For people: the local time, and what happened."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.ERROR else ""
        line = f"{at} {level}{to_line(record.getMessage(), getattr(record, 'members', {}))}"
        if record.exc_info and record.exc_info[1] is not None:
            line += "\n" + self.formatException(record.exc_info)
        return line


def is_plain(format: str) -> bool:
    """Whether people read the log. `format`: the setting."""
    return format == "plain" or (format == "auto" and sys.stderr.isatty())


def configure(level: str, format: str = "auto") -> None:
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(PlainFormatter() if is_plain(format) else JsonFormatter())
    logger.handlers[:] = [stream]
    logger.propagate = False
    logger.setLevel(level.upper())


def log(event: str, *, level: int = logging.INFO, exc_info: BaseException | None = None, **members: Any) -> None:
    logger.log(level, event, exc_info=exc_info, extra={"members": {**always, **members} if always else members})
