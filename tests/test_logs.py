"""The log as people read it."""

import io
import json
import logging
import sys
from typing import Any

import pytest

from antiphon import logs
from antiphon.logs import to_line

REQUEST = {"method": "POST", "path": "/v1/responses", "status": 200, "seconds": 6.1234}


@pytest.mark.parametrize(
    ("event", "members", "line"),
    [
        (
            "request",
            REQUEST | {"model": "qwen2.5-coder", "outcome": "completed", "input_tokens": 812, "output_tokens": 96}
            | {"first_output_seconds": 0.41, "request_id": "req_1", "engine": "http://e", "stream": True},
            "POST /v1/responses 200 qwen2.5-coder 812→96 tok, first 0.4 s, 6.1 s",
        ),
        ("request", REQUEST | {"method": "GET", "path": "/v1/models", "seconds": 0.0031}, "GET /v1/models 200, 3 ms"),
        ("request", REQUEST | {"status": 400, "error": "invalid_value"}, "POST /v1/responses 400 invalid_value, 6.1 s"),
        ("request", REQUEST | {"status": 499, "model": "m"}, "POST /v1/responses client left m, 6.1 s"),
        ("request", REQUEST | {"outcome": "failed", "error": "cut"}, "POST /v1/responses 200 failed cut, 6.1 s"),
        ("request", REQUEST | {"outcome": "incomplete", "model": "m"}, "POST /v1/responses 200 m incomplete, 6.1 s"),
        ("request", REQUEST | {"notices": ["a"]}, "POST /v1/responses 200, 6.1 s, 1 notice"),
        ("request", REQUEST | {"notices": ["a", "b"]}, "POST /v1/responses 200, 6.1 s, 2 notices"),
        (
            "background",
            {"response_id": "resp_1", "model": "m", "input_tokens": 1, "output_tokens": 2, "seconds": 3},
            "background resp_1 m 1→2 tok, 3.0 s",
        ),
        ("background", {"response_id": "resp_1", "outcome": "not_begun"}, "background resp_1 not_begun"),
        (
            "waiting for engine",
            {"engine": "http://e", "reason": "refused"},
            "Waiting for http://e: refused. It is used as soon as it answers",
        ),
        ("listening", {"url": "http://u", "engines": ["http://e"]}, "Listening at http://u, not ready yet: looking for http://e"),
        (
            "listening",
            {"url": "http://u", "engines": ["http://e"], "model": "pebble"},
            "Listening at http://u, not ready yet: loading pebble",
        ),
        (
            "loading model",
            {"model": "pebble", "bytes": 1_117_320_768},
            "Loading pebble (1.1 GB). Requests get a 503 until it is ready",
        ),
        ("loading model", {"model": "pebble", "bytes": 98_362_432, "percent": 25}, "Loading pebble: 25 %"),
        (
            "probed",
            {"model": "m", "engine": "e", "learned": {"a": False}, "unknown": []},
            "Probed m at e. `antiphon doctor` shows what it can do.",
        ),
        ("engine started", {"model": "m", "url": "http://u", "pid": 3}, "Started m at http://u (process 3)"),
        ("engine cannot be used", {"engine": "e", "reason": "it is not ready."}, "The engine at e is not ready."),
        ("mcp server failed", {"server": "a", "reason": "It ended."}, "MCP server a: It ended. See `antiphon mcp`."),
        ("settings reloaded", {"changed": ["a", "b"]}, "Settings reloaded: a, b changed"),
        ("settings reloaded", {"changed": []}, "Settings reloaded: nothing changed"),
        ("keys changed", {"count": 2}, "The keys in the store have changed: 2 can be used"),
        ("store_timeout", {}, "store timeout"),
    ],
)  # fmt: skip
def test_a_message_is_one_short_line(event: str, members: dict[str, Any], line: str) -> None:
    assert to_line(event, members) == line


def test_a_name_cannot_forge_a_line_or_move_the_cursor() -> None:
    line = to_line("request", REQUEST | {"path": "/v1/\n12:00:00 GET", "model": "\x1b[2Jm\u202e\r"})
    assert line == "POST /v1/?12:00:00 GET 200 ?[2Jm??, 6.1 s"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _logger_restored() -> Any:
    logger = logs.logger
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate, logger.level = before


@pytest.mark.usefixtures("_logger_restored")
@pytest.mark.parametrize(
    ("stream", "format", "plain"),
    [
        (Terminal, "auto", True),
        (io.StringIO, "auto", False),
        (Terminal, "json", False),
        (io.StringIO, "plain", True),
    ],
)
def test_people_get_lines_and_programs_json(
    stream: type[io.StringIO], format: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    logs.configure("info", format)
    logs.log("swept", count=3)
    written = sys.stderr.getvalue()  # type: ignore[union-attr]
    assert written.count("\n") == 1
    if plain:
        at, _, line = written.partition(" ")
        assert len(at.split(":")) == 3
        assert line == "swept: count 3\n"
    else:
        assert json.loads(written)["event"] == "swept"


@pytest.mark.usefixtures("_logger_restored")
def test_an_error_is_named_as_one_and_its_trace_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    logs.configure("info", "plain")
    try:
        raise ValueError("why")
    except ValueError as error:
        logs.log("bug", level=logging.ERROR, exc_info=error)
    written = sys.stderr.getvalue()  # type: ignore[union-attr]
    assert written.splitlines()[0].endswith(" error: bug")
    assert written.endswith("ValueError: why\n")
