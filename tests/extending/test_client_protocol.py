"""A second client protocol, in some thirty lines: plain text in, plain text out, one line for each item."""

from typing import ClassVar

import aiohttp
from aiohttp import web
from support.engine import MockEngine, answer, call, chunk
from support.gateway import CHECKER

from antiphon.app.app import Extensions, make_app, make_runner
from antiphon.core.events.plain_deltas import AnyEvent, expand
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.responses.limits import RequestLimits
from antiphon.gateway.runs.outbox import EncodedSink
from antiphon.server.app_keys import GATEWAY, TRANSPORT
from antiphon.server.request_state import OWNER
from antiphon.settings.settings import Settings
from antiphon.store import open_store
from antiphon.transport import make_session
from antiphon.wire import events
from antiphon.wire.responses import CreateResponse, FunctionCall


class TextEncoder:
    end: ClassVar[tuple[bytes, ...]] = (b"\n",)

    def encode(self, event: AnyEvent) -> bytes:
        match expand(event):
            case events.OutputTextDelta(delta=delta):
                return delta.encode()
            case events.OutputItemDone(item=FunctionCall(name=name, arguments=arguments)):
                return f"\n{name}({arguments})".encode()
            case events.ResponseFailed(response=response) if response.error is not None:
                return f"\n! {response.error.message}".encode()
        return b""


def read_text(body: bytes, limits: RequestLimits) -> tuple[CreateResponse, list[str]]:
    tools = [{"type": "function", "name": "look"}]
    return CreateResponse(input=body.decode(), tools=tools, stream=True, store=False), []


PLAIN_TEXT = ClientProtocol(read_text, TextEncoder)


async def speak(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    run = await gateway.begin(await request.read(), request[OWNER], protocol=PLAIN_TEXT)
    async with gateway.running(run):
        await run.connect(gateway.heartbeat)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        async with request.app[TRANSPORT].open_events(request, response) as stream:
            await run.run(EncodedSink(stream, PLAIN_TEXT.make_encoder()))
    return response


async def test_a_toy_protocol_streams_text_and_calls(engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": "Let me "}), chunk({"content": "look."}), call("look", '{"at": "it"}')))
    settings = Settings(upstream=(engine.url,), probe=False, seal_key="for the tests")
    async with make_session() as session, open_store("memory:") as store, aiohttp.ClientSession() as client:
        app = make_app(settings, session, store, extensions=Extensions(checker=CHECKER))
        app.router.add_post("/text", speak)
        runner = make_runner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/text"
            async with client.post(url, data=b"What is there?") as answered:
                assert await answered.text() == 'Let me look.\nlook({"at": "it"})\n'
        finally:
            await runner.cleanup()
    assert engine.last["messages"][-1]["content"] == "What is there?"
