"""The log, on standard error: one JSON object or plain line for each message. Prompts, answers and keys are never logged."""

import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from antiphon.installation import as_typed

# ---- lines for a terminal --------------------------------------------------------------------------------------------

Members = Mapping[str, Any]
# The status of a request whose client left before its answer.
LEFT = 499


def to_line(event: str, members: Members) -> str:
    return printable(as_typed(LINES[event](members) if event in LINES else _other(event, members)))


def printable(text: str) -> str:
    """Names come from clients and engines: what they contain must not move the cursor or begin a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def _request(members: Members) -> str:
    status = members["status"]
    head = [members["method"], members["path"], "client left" if status == LEFT else status]
    return _answered(head, members)


def _background(members: Members) -> str:
    return _answered(["background", members["response_id"]], members)


def _answered(head: list[Any], members: Members) -> str:
    """`POST /v1/responses 200 qwen2.5-coder 812→96 tok, first 0.4 s, 6.1 s`"""
    shown = [*head, members.get("model"), *_ending(members), _tokens(members)]
    first, seconds, notices = members.get("first_output_seconds"), members.get("seconds"), members.get("notices") or ()
    parts = [
        " ".join(str(part) for part in shown if part is not None),
        f"first {duration(first)}" if first is not None else None,
        duration(seconds) if seconds is not None else None,
        f"{len(notices)} notice{'s' if len(notices) > 1 else ''}" if notices else None,
    ]
    return ", ".join(part for part in parts if part is not None)


def _ending(members: Members) -> list[str]:
    """What is out of the ordinary about how it ended."""
    outcome, error = members.get("outcome"), members.get("error")
    return [*([outcome] if outcome not in (None, "completed") else []), *([error] if error is not None else [])]


def _tokens(members: Members) -> str | None:
    if "input_tokens" not in members:
        return None
    return f"{members['input_tokens']}→{members['output_tokens']} tok"


def _waiting(members: Members) -> str:
    return f"Waiting for {members['engine']}: {members['reason']}. It is used as soon as it answers"


def _waiting_for_store(members: Members) -> str:
    return f"Waiting for Postgres at {members['store']}: {members['reason']}. Trying again for {members['seconds_at_most']:g} s"


def _listening(members: Members) -> str:
    """Who reads only this line must not take it for the one that says that it is ready."""
    model, engines = members.get("model"), _value(members["engines"])
    waits = f"loading {model}" if model is not None else f"looking for {engines or 'engines'}"
    return f"Listening at {members['url']}, not ready yet: {waits}"


def _loading(members: Members) -> str:
    if "percent" in members:
        return f"Loading {members['model']}: {members['percent']} %"
    return f"Loading {members['model']} ({_size(members['bytes'])}). Requests get a 503 until it is ready"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _probed(members: Members) -> str:
    """There are many facts, and another command explains them."""
    return f"Probed {members['model']} at {members['engine']}. `antiphon doctor` shows what it can do."


def _reloaded(members: Members) -> str:
    return f"Settings reloaded: {_value(members['changed']) or 'nothing'} changed"


def _other(event: str, members: Members) -> str:
    shown = ", ".join(f"{name} {_value(value)}" for name, value in members.items())
    words = event.replace("_", " ")
    return f"{words}: {shown}" if shown else words


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)


# Event → its line. The others are written as their name and their members.
LINES: Mapping[str, Callable[[Members], str]] = {
    "request": _request,
    "background": _background,
    "listening": _listening,
    "loading model": _loading,
    "probed": _probed,
    "engine started": lambda members: f"Started {members['model']} at {members['url']} (process {members['pid']})",
    "waiting for engine": _waiting,
    "waiting for store": _waiting_for_store,
    "settings reloaded": _reloaded,
    "keys changed": lambda members: f"The keys in the store have changed: {members['count']} can be used",
    "mcp server failed": lambda members: f"MCP server {members['server']}: {members['reason']} See `antiphon mcp`.",
    "engine cannot be used": lambda members: f"The engine at {members['engine']} {members['reason'].removeprefix('it ')}",
}


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
