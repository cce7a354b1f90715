"""A second client protocol: plain text in, plain text out, one line for each item. It is one class, and one row."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar, NamedTuple

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.raw_client import dialled, post

from antiphon.app.parts import Extensions
from antiphon.core.events.plain_deltas import AnyEvent, expand
from antiphon.core.protocols.client_protocol import ClientProtocol, ErrorAnswer, ReadRequest
from antiphon.core.protocols.responses.fields import RequestLimits, check_request
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.errors import ApiError, InvalidRequest
from antiphon.server.paths import ProtocolPaths
from antiphon.wire import events
from antiphon.wire.responses import CreateResponse, FunctionCall, Response

TEXT = "text/plain; charset=utf-8"


class Facts(NamedTuple):
    # In front of each call.
    dash: str


class TextEncoder:
    end: ClassVar[tuple[bytes, ...]] = (b"\n",)

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def encode(self, event: AnyEvent) -> bytes:
        match expand(event):
            case events.OutputTextDelta(delta=delta):
                return delta.encode()
            case events.OutputItemDone(item=FunctionCall(name=name, arguments=arguments)):
                return f"\n{self._facts.dash}{name}({arguments})".encode()
            case events.ResponseFailed(response=response) if response.error is not None:
                return f"\n! {response.error.message}".encode()
        return b""

    def heartbeat(self) -> bytes:
        return b"\n"


class PlainText(ClientProtocol):
    name = "plain text"
    paths: ClassVar[Mapping[str, str]] = {"/text": "POST", "/v1/lines": "POST"}
    own_headers = frozenset({"speaks-plain-text"})
    key_header = "text-key"
    whole_type = stream_type = TEXT
    reads_json = False

    def read(self, body: bytes, headers: Mapping[str, str], limits: RequestLimits, owner: str = "") -> ReadRequest:
        try:
            words = body.decode()
        except UnicodeDecodeError:
            raise InvalidRequest("This is no text.") from None
        tools = [{"type": "function", "name": "look"}]
        streams = headers.get("Accept") != TEXT
        request = CreateResponse(input=words, tools=tools, stream=streams, store=False, background=True)
        check_request(request, limits)
        # What it wants to know again when it answers.
        return ReadRequest(request, ["smell"], ["nothing is heard"], facts=Facts(headers.get("Dash", "")))

    def encoder(self, request: CreateResponse, facts: Facts) -> TextEncoder:
        return TextEncoder(facts)

    def whole(self, response: Response, request: CreateResponse, facts: Facts) -> bytes:
        calls = [f"{facts.dash}{item.name}({item.arguments})" for item in response.output if isinstance(item, FunctionCall)]
        return "\n".join([response.output_text or "", *calls, ""]).encode()

    def in_own_words(self, text: str, facts: Facts) -> str:
        return text.replace("`input`", "the text")

    def error(self, error: ApiError, request_id: str = "") -> ErrorAnswer:
        return ErrorAnswer(error.status, f"! {error.message}\n".encode(), {**error.headers, "Content-Type": TEXT})


# All that the server has to know of it.
ROW = (PlainText(),)


@pytest_asyncio.fixture
async def gateway(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    extensions = Extensions(checker=CHECKER, protocols=ROW)
    settings: dict[str, Any] = {"heartbeat": 0.05, "max_body_bytes": 1000, "api_key": ("right",)}
    async with running_gateway(engine, extensions=extensions, **settings) as made:
        made.client.headers["Authorization"] = "Bearer right"
        yield made


async def said(answered: aiohttp.ClientResponse) -> tuple[int, str]:
    assert answered.headers["Content-Type"] == TEXT
    assert answered.headers["x-request-id"]
    return answered.status, await answered.text()


async def test_an_answer_is_streamed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": "Let me "}), chunk({"content": "look."}), call("look", '{"at": "it"}')))
    async with gateway.client.post(f"{gateway.url}/text", data=b"What is there?") as answered:
        assert await said(answered) == (200, 'Let me look.\nlook({"at": "it"})\n')
        assert answered.headers["antiphon-notice"] == "field smell is unknown and was left out; nothing is heard"
    assert engine.last["messages"][-1]["content"] == "What is there?"


async def test_an_answer_is_written_whole(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": "Let me look."}), call("look", '{"at": "it"}')))
    headers = {"Accept": TEXT, "Dash": "-"}
    async with gateway.client.post(f"{gateway.url}/text", data=b"What?", headers=headers) as answered:
        assert await said(answered) == (200, 'Let me look.\n-look({"at": "it"})\n')


async def test_a_client_that_waits_gets_signs_of_life(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    seen = asyncio.Event()

    async def slowly(write: Writer) -> None:
        await write(chunk({"content": "Slow"}))
        await seen.wait()
        await write(answer(chunk({"content": "ly."})))

    engine.will(slowly)
    async with gateway.client.post(f"{gateway.url}/text", data=b"How?") as answered:
        assert await answered.content.readuntil(b"\n") == b"Slow\n"
        assert await answered.content.readuntil(b"\n") == b"\n"
        seen.set()
        assert (await answered.content.read()).strip() == b"ly."


async def test_what_cannot_be_read_is_refused_in_its_own_form(gateway: GatewayUnderTest) -> None:
    async with gateway.client.post(f"{gateway.url}/text", data=b"\xff") as answered:
        assert await said(answered) == (400, "! This is no text.\n")
        assert answered.headers["x-should-retry"] == "false"


async def test_what_no_route_takes_is_refused_in_its_own_form(gateway: GatewayUnderTest) -> None:
    client, url = gateway.client, gateway.url
    async with client.get(f"{url}/text") as answered:
        assert await said(answered) == (405, "! /text takes POST, not GET.\n")
        assert answered.headers["Allow"] == "POST"
    async with client.post(f"{url}/text/more", data=b"Hi") as answered:
        status, words = await said(answered)
        assert (status, words[:2]) == (404, "! ")
    async with client.post(f"{url}/txt", data=b"Hi", headers={"Speaks-Plain-Text": "1"}) as answered:
        assert await said(answered) == (404, "! There is no POST /txt here. Did you mean POST /text?\n")
    async with client.post(f"{url}/text", data=b"Hi", headers={"Authorization": "Bearer wrong"}) as answered:
        assert await said(answered) == (401, "! Incorrect API key provided.\n")
    async with client.post(f"{url}/texts", data=b"Hi") as answered:
        assert (answered.status, answered.content_type) == (404, "application/json")


async def test_what_reaches_no_middleware_is_refused_in_its_own_form(gateway: GatewayUnderTest) -> None:
    async with dialled(gateway) as client:
        await client.send(post(b"x" * 1001, b"Authorization: Bearer right", path=b"/text"))
        refused = await client.answer()
        assert (refused.status, refused.body) == (413, b"! The body is larger than 1000 bytes.\n")
    async with dialled(gateway) as client:
        await client.send(post(b"Hi", b"Expect: the unexpected", path=b"/text"))
        refused = await client.answer()
        assert (refused.status, refused.body) == (400, b"! The header `Expect` must be `100-continue`, or absent.\n")


async def test_an_engine_that_fails_is_reported_in_its_own_form(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "`input` is wrong."}}))
    async with gateway.client.post(f"{gateway.url}/text", data=b"Hi") as answered:
        status, words = await said(answered)
        assert (status, words[:2], "the text is wrong." in words) == (400, "! ", True)


async def test_the_other_protocols_are_as_they_were(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hello"))
    response = await gateway.create("Hi")
    assert response["output_text"] == "Hello"
    status, refused = await gateway.post({"input": 5})
    assert (status, refused["error"]["param"]) == (400, "input")


async def test_the_inspector_shows_what_was_sent_and_where(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hello"))
    # Text is shown as text, also if it could be read as JSON.
    async with gateway.client.post(f"{gateway.url}/text", data=b"null") as answered:
        await answered.read()
    async with gateway.client.get(f"{gateway.url}/inspector/requests/1") as shown:
        client = msgspec.json.decode(await shown.read())["client"]
    assert (client["path"], client["text"], client["body"]) == ("/text", "null", None)


def test_two_protocols_with_one_path_are_refused() -> None:
    class Other(PlainText):
        name = "other text"

    with pytest.raises(ValueError, match="have the path /text: plain text and other text"):
        ProtocolPaths((RESPONSES, PlainText(), Other()))


async def test_a_path_with_a_version_is_served_under_every_prefix(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for prefix in ("/v1", "", "/openai/v1", "/openai"):
        engine.will(text("Hello"))
        async with gateway.client.post(f"{gateway.url}{prefix}/lines", data=b"Hi") as answered:
            assert await said(answered) == (200, "Hello\n")
        async with gateway.client.get(f"{gateway.url}{prefix}/lines") as answered:
            assert await said(answered) == (405, f"! {prefix}/lines takes POST, not GET.\n")


async def test_a_key_may_come_in_its_own_header(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hello"))
    async with aiohttp.ClientSession() as client:
        async with client.post(f"{gateway.url}/text", data=b"Hi", headers={"Text-Key": "right"}) as answered:
            assert await said(answered) == (200, "Hello\n")
        async with client.post(f"{gateway.url}/text", data=b"Hi", headers={"Text-Key": "wrong"}) as answered:
            assert await said(answered) == (401, "! Incorrect API key provided.\n")
        async with client.post(f"{gateway.url}/text", data=b"Hi", headers={"Another-Key": "right"}) as answered:
            assert (await said(answered))[0] == 401
