"""Exchanges that are recorded while they run, without an event loop."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.steps import Ask
from antiphon.core.exchange.sync_run import ListServer, RunTool, no_servers, no_tools
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.recording.recording import ASKED, Recording
from antiphon.errors import ApiError
from support.exchanges import ScriptedAnswer, make_environment
from support.sync_runs import run_exchange

ENGINE = "http://engine"
Split = Callable[[bytes], Sequence[bytes]]


def whole(data: bytes) -> Sequence[bytes]:
    return [data]


def record(
    request: dict[str, Any],
    *answers: ScriptedAnswer,
    dialect: Dialect = PLAIN,
    run_tool: RunTool = no_tools,
    history: Sequence[dict[str, Any]] = (),
    split: Split = whole,
    engines: Sequence[EngineKnowledge] = (),
    list_tools: ListServer = no_servers,
    attached: Sequence[dict[str, Any]] = (),
    **options: Any,
) -> tuple[Recording, list[AnyEvent]]:
    """The recording of a response to this request, whose engine gives these answers, and its events. Time is counted."""
    script, ticks = iter(answers), itertools.count()
    body = msgspec.json.encode({"model": "m", "input": "Hi", "stream": True, "store": False, **request})
    environment = make_environment(**options)
    recording = Recording(body, lambda: float(next(ticks)), environment=environment)

    def ask(step: Ask) -> Iterator[bytes]:
        recording.note(recording.part + ASKED, ENGINE)
        answer = next(script)
        if isinstance(answer, ApiError):
            raise answer
        for piece in split(answer) if isinstance(answer, bytes) else answer:
            recording.receive(piece)
            yield piece

    converted, _ = body_to_request(body)
    known = engines or [EngineKnowledge(dialect, name=ENGINE)]
    exchange = recording.make_exchange(converted, known, environment, history=history, response_id="resp_1", attached=attached)
    return recording, list(run_exchange(exchange, ask, run_tool, list_tools))
