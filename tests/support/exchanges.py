"""Exchanges without an event loop: driven by deltas, by bytes, or by a scripted engine."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from antiphon.core.events.deltas import Delta
from antiphon.core.events.encode import SseEncoder
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Check
from antiphon.core.exchange.sync_run import ListServer, RunTool, no_servers, no_tools
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.errors import ApiError
from antiphon.gateway.runs.check_process import run_check
from antiphon.wire.responses import CreateResponse
from support.streams import check_stream, parse
from support.sync_runs import run_exchange

Event = dict[str, Any]
# One engine answer: its bytes, their pieces, or the error that it refuses with.
ScriptedAnswer = bytes | Sequence[bytes] | ApiError

REQUEST = CreateResponse(model="m", input="Hi", stream=True, store=False)
# Everything that changes how deltas look.
FULL_REQUEST = msgspec.convert(
    {
        "model": "replay",
        "input": "Hi",
        "stream": True,
        "store": False,
        "reasoning": {"summary": "auto"},
        "include": ["message.output_text.logprobs"],
        "stream_options": {"include_obfuscation": True},
    },
    CreateResponse,
)


class Recorder:
    """Keeps the chat requests that an engine is asked with."""

    def __init__(self) -> None:
        self.chats: list[dict[str, Any]] = []
        self.engines: list[int] = []

    def __call__(self, step: Ask) -> None:
        self.chats.append(msgspec.json.decode(msgspec.json.encode(step.chat)))
        self.engines.append(step.engine)


def make_environment(**options: Any) -> Environment:
    """Ids are counted, and time stands still."""
    numbers = itertools.count()
    return Environment(new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 1, **options)


class GivenDeltas:
    """Takes the place of an engine's stream: whatever it receives, it means these deltas."""

    template_opens_thought = False
    has_logprobs = False
    failed = False
    left_out = ""
    is_behind = False
    has_large_end = False
    has_cut = False
    is_cut = False

    def __init__(self, deltas: Iterable[Delta], *, ended: bool) -> None:
        self._deltas = list(deltas)
        self.ended = ended

    def continuation(self, path: object, numbering: object) -> None:
        return None

    def receive(self, data: bytes) -> list[Delta]:
        return self._deltas

    def close(self) -> list[Delta]:
        return []


def run_deltas(*deltas: Delta, request: CreateResponse = REQUEST, ended: bool = True, dialect: Dialect = PLAIN) -> list[Event]:
    """The events of a response whose one engine answer is these deltas, every invariant checked."""
    exchange = Exchange(request, [EngineKnowledge(dialect)], make_environment(), response_id="resp_1", may_ask_again=False)
    events = [*_run_checks(exchange), *exchange.start()]
    exchange.answer._stream = GivenDeltas(deltas, ended=ended)  # type: ignore[assignment]
    events += exchange.receive(b"")
    events += _run_checks(exchange)
    events += exchange.finish()
    events += _run_checks(exchange)
    return checked([*events, *exchange.end()])


def _run_checks(exchange: Exchange) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    while exchange.check is not None or isinstance(exchange.step, Check):
        work = exchange.step.work if isinstance(exchange.step, Check) else exchange.check
        assert work is not None
        events += exchange.checked(run_check(work))
    return events


def run_answers(
    request: dict[str, Any],
    *answers: ScriptedAnswer,
    dialect: Dialect = PLAIN,
    run_tool: RunTool = no_tools,
    engines: Sequence[EngineKnowledge] = (),
    on_ask: Callable[[Ask], None] = lambda step: None,
    list_tools: ListServer = no_servers,
    history: Sequence[dict[str, Any]] = (),
    attached: Sequence[dict[str, Any]] = (),
    for_sdk: bool | None = None,
    **options: Any,
) -> list[Event]:
    """The events of a response to this request, whose engine gives these answers, every invariant checked."""
    script = iter(answers)

    def ask(step: Ask) -> Sequence[bytes]:
        on_ask(step)
        answer = next(script)
        if isinstance(answer, ApiError):
            raise answer
        return [answer] if isinstance(answer, bytes) else answer

    converted = msgspec.convert({"model": "m", "input": "Hi", "stream": True, "store": False, **request}, CreateResponse)
    exchange = Exchange(
        converted,
        engines or [EngineKnowledge(dialect)],
        make_environment(**options),
        response_id="resp_1",
        history=history,
        attached=attached,
    )
    is_known = run_tool is no_tools if for_sdk is None else for_sdk
    events = checked(run_exchange(exchange, ask, run_tool, list_tools), for_sdk=is_known)
    assert next(script, None) is None, "every answer was asked for"
    return events


def checked(events: Iterable[Any], *, for_sdk: bool = True) -> list[Event]:
    """As a client would read them. `for_sdk`: the openai SDK knows all of them."""
    encoder = SseEncoder()
    parsed = parse(b"".join(map(encoder.encode, events)), done=False)
    check_stream(parsed, for_sdk=for_sdk)
    return parsed
