"""Structured logs: one JSON object per line, on standard error. Prompts, answers and keys are never logged."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

logger = logging.getLogger("antiphon")


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


def configure(level: str) -> None:
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonFormatter())
    logger.handlers[:] = [stream]
    logger.propagate = False
    logger.setLevel(level.upper())


def log(event: str, *, level: int = logging.INFO, exc_info: BaseException | None = None, **members: Any) -> None:
    logger.log(level, event, exc_info=exc_info, extra={"members": members})
