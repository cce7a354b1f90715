"""A second API of engines, in some thirty lines: text in, one JSON object a line out."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from support.gateway import running_gateway
from support.servers import LocalServer

from antiphon.core.events.deltas import Delta, Finished, TextDelta
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME
from antiphon.core.stream.answer_stream import AnswerStream
from antiphon.core.stream.engine_protocols import PROTOCOLS, EngineProtocol
from antiphon.errors import EngineFailure
from antiphon.wire.chat import ChatRequest


class LineStream(AnswerStream):
    """Its lines come whole."""

    def receive(self, data: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        for line in map(msgspec.json.decode, data.splitlines()):
            self.ended = "done" in line
            deltas.append(Finished("stop") if self.ended else TextDelta(line["text"]))
        return deltas


def last_text(chat: ChatRequest) -> bytes:
    return msgspec.json.encode({"text": chat.messages[-1].content})


def line_to_failure(status: int, body: bytes) -> EngineFailure:
    return EngineFailure(status, "", msgspec.json.decode(body)["wrong"])


LINES = EngineProtocol("/lines", last_text, LineStream, line_to_failure)


class LineEngine(LocalServer):
    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return [web.get("/v1/models", self._models), web.post("/lines", self._answer)]

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked["text"] == "Fail":
            return web.json_response({"wrong": "I may not fail."}, status=400)
        lines = [{"text": "You said: "}, {"text": asked["text"]}, {"done": True}]
        answer = web.StreamResponse()
        await answer.prepare(request)
        for line in lines:
            await answer.write(msgspec.json.encode(line) + b"\n")
        return answer


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, Any], PROTOCOLS), "lines", LINES)
    monkeypatch.setitem(cast(dict[str, Any], BY_NAME), "lines", Dialect("lines", protocol="lines", reports_usage=False))


async def test_a_toy_api_of_engines_is_asked_and_answers() -> None:
    async with LineEngine() as engine, running_gateway(engine.url, dialect="lines", probe=False) as gateway:
        response = await gateway.create(input="Hello")
        assert response["output"][0]["content"][0]["text"] == "You said: Hello"
        events = await gateway.stream(input="Hello")
        assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == ["You said: ", "Hello"]


async def test_its_failures_are_read_as_it_writes_them() -> None:
    async with LineEngine() as engine, running_gateway(engine.url, dialect="lines", probe=False) as gateway:
        status, refused = await gateway.post({"model": "m", "input": "Fail"})
        assert (status, refused["error"]["message"]) == (400, "The engine refused the request: I may not fail.")
