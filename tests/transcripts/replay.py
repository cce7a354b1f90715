"""A transcript replayed: a real gateway, the client's requests, and an engine that gives the recorded answers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from msgspec import structs
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway, started
from support.streams import check_stream, parse
from transcripts.differences import Body
from transcripts.normal_forms import Normaliser
from transcripts.transcript import RecordedEngine, Transcript

from antiphon.core.knowledge.dialect import Dialect
from antiphon.engines.embedded.process import EngineProcess, ModelOptions

# What the gateway of a recording and that of its replay have in common.
SETTINGS: dict[str, Any] = {"help": "auto", "heartbeat": 3600.0}
TIMEOUT = 30.0


class StandIn(EngineProcess):
    """An embedded engine that somebody else runs, at this address."""

    def __init__(self, model: str, url: str) -> None:
        super().__init__(model, ModelOptions(folder=Path("nowhere")))
        self.address = url

    @property
    def url(self) -> str:
        return self.address


async def replayed(transcript: Transcript, recorded: RecordedEngine) -> Transcript:
    """The same requests and answers, with what the gateway makes of them now."""
    models = msgspec.json.encode(recorded.documents["/v1/models"])
    engine = MockEngine(owned_by="llamacpp", paths=recorded.documents)
    engine.list_answer = models
    # A real engine took these requests, or its refusal is one of the answers.
    engine.objects_to = lambda body: None
    engine.will(*(answer.for_mock() for answer in transcript.answers))
    beyond: list[Body] = []
    engine.otherwise = lambda body: _too_many(beyond, body)
    async with started(engine), running_gateway(embedded=StandIn(recorded.model, engine.url), **SETTINGS) as gateway:
        await gateway.probed()
        pin_facts(gateway, recorded.facts)
        events = [await stream(gateway, request) for request in transcript.requests]
    assert not engine.answers, "the gateway did not ask for all of the recorded answers"
    assert not beyond, "the gateway asked for more answers than were recorded"
    # Of their own: what is numbered in one file does not depend on the others.
    numbered, chats = Normaliser(), Normaliser()
    return Transcript(
        transcript.requests,
        transcript.answers,
        [chats.normal(chat) for chat in engine.requests],
        [[numbered.normal(event, is_event=True) for event in each] for each in events],
    )


def _too_many(beyond: list[Body], body: Body) -> bytes:
    """What is raised here becomes an answer of the mock: it is also noted."""
    beyond.append(body)
    raise AssertionError("the gateway asked for more answers than were recorded")


async def stream(gateway: GatewayUnderTest, request: Body) -> list[Body]:
    """The events; of a request that was rejected, the error alone."""
    body = msgspec.json.encode(request)
    async with asyncio.timeout(TIMEOUT), gateway.client.post(f"{gateway.url}/v1/responses", data=body) as answer:
        raw = await answer.read()
    if answer.status != 200:
        return [{"type": f"HTTP {answer.status}", **msgspec.json.decode(raw)}]
    events = parse(raw)
    check_stream(events)
    return events


# ---- what is known of the engine -------------------------------------------------------------------------------------


def facts_of(gateway: GatewayUnderTest) -> dict[str, Any]:
    """What differs from the dialect of its kind."""
    (engine,) = gateway.gateway.pool.engines
    known = engine.knowledge.dialect_for(engine.knowledge.default_model)
    facts = {each.name: getattr(known, each.name) for each in structs.fields(Dialect)}
    return {name: msgspec.to_builtins(value) for name, value in facts.items() if value != getattr(engine.dialect, name)}


def pin_facts(gateway: GatewayUnderTest, facts: Mapping[str, Any]) -> None:
    """No matter what this engine shows by itself, it counts what was recorded."""
    (engine,) = gateway.gateway.pool.engines
    hints = get_type_hints(Dialect)
    usual = {name: getattr(engine.dialect, name) for name in facts_of(gateway)}
    recorded = {name: msgspec.convert(value, hints[name]) for name, value in facts.items()}
    engine.knowledge.learn(engine.knowledge.default_model, usual | recorded)
