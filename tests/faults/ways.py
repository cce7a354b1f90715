"""How a client asks, and what it gets: each way gives one outcome, read from the bytes of the connection."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http.client import HTTPMessage, parse_headers
from typing import Any

import msgspec
from support import chat, completions, messages
from support.background import Background
from support.gateway import GatewayUnderTest
from support.sockets import Socket
from support.streams import TERMINAL, check_response, check_stream, parse


@dataclass(frozen=True, slots=True)
class Outcome:
    # Of the response, or "error" if the request got an error in its place.
    ended: str
    # The code of the error, and the HTTP status, if there is one.
    code: str | None = None
    status: int = 200
    retry_after: bool = False
    # The client is asked not to try again.
    futile: bool = False


Ask = Callable[[GatewayUnderTest, Socket], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: HTTPMessage
    body: bytes


async def answer_of(gateway: GatewayUnderTest, body: dict[str, Any], path: str = "/v1/responses") -> Answer:
    """All that the gateway writes to one connection, which must be exactly one HTTP answer."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    data = msgspec.json.encode({"model": "mock", **({"input": "Hi"} if path == "/v1/responses" else {}), **body})
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    try:
        return _to_answer(await reader.read())
    finally:
        writer.close()
        await writer.wait_closed()


def _to_answer(raw: bytes) -> Answer:
    first, _, rest = raw.partition(b"\r\n")
    head, _, body = rest.partition(b"\r\n\r\n")
    headers = parse_headers(io.BytesIO(head + b"\r\n\r\n"))
    if headers.get("Transfer-Encoding") == "chunked":
        body = _unchunked(body)
    else:
        assert len(body) == int(headers["Content-Length"]), "one answer, and nothing after it"
    return Answer(int(first.split(b" ")[1]), headers, body)


def _unchunked(raw: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        line, _, raw = raw.partition(b"\r\n")
        size = int(line, 16)
        if not size:
            assert raw == b"\r\n", "one answer, and nothing after it"
            return b"".join(pieces)
        pieces.append(raw[:size])
        assert raw[size : size + 2] == b"\r\n"
        raw = raw[size + 2 :]


# ---- what it got -----------------------------------------------------------------------------------------------------


def _error_of(answer: Answer) -> Outcome:
    """An HTTP error, in the envelope that all of them have."""
    error = msgspec.json.decode(answer.body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    wait = answer.headers.get("Retry-After")
    assert wait is None or 0 <= float(wait) <= 3600
    return Outcome("error", error["code"], answer.status, wait is not None, answer.headers.get("x-should-retry") == "false")


def _end_of(response: dict[str, Any]) -> Outcome:
    check_response(response)
    return Outcome(response["status"], response["error"]["code"] if response["error"] else None)


async def streamed(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, {"stream": True})
    return _end_of(check_stream(parse(answer.body))) if answer.status == 200 else _error_of(answer)


async def whole(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, {})
    return _end_of(msgspec.json.decode(answer.body)) if answer.status == 200 else _error_of(answer)


async def by_websocket(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    """An event after the end would be read as the first one of the next response, which is wrong there."""
    await socket.send()
    events = [await socket.event()]
    if events[0]["type"] == "error":
        error = events[0]["error"]
        assert error.keys() >= {"message", "type", "param", "code"}
        return Outcome("error", error["code"], events[0]["status"], "retry-after" in events[0].get("headers", {}))
    while events[-1]["type"] not in TERMINAL:
        events.append(await socket.event())
    return _end_of(check_stream(events))


async def followed(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, {"background": True, "stream": True})
    assert answer.status == 200, answer.body
    events = parse(answer.body)
    response = check_stream(events)
    assert await Background(gateway).follow(response["id"]) == events, "what is followed later is the same"
    return _end_of(response)


async def polled(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, {"background": True})
    assert answer.status == 200, answer.body
    return _end_of(await Background(gateway).ended(msgspec.json.decode(answer.body)["id"]))


# ---- Anthropic Messages ----------------------------------------------------------------------------------------------

MESSAGE = {"max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
# Why a message has stopped → how the response has ended.
STOPPED = {"end_turn": "completed", "tool_use": "completed", "max_tokens": "incomplete", "refusal": "incomplete"}


def _message_error(answer: Answer) -> Outcome:
    """An HTTP error in Anthropic's envelope. It has a type, and no code."""
    error = msgspec.json.decode(answer.body)
    assert error.keys() == {"type", "error", "request_id"}
    futile = answer.headers.get("x-should-retry") == "false"
    return Outcome("error", error["error"]["type"], answer.status, "Retry-After" in answer.headers, futile)


async def message_streamed(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, {**MESSAGE, "stream": True}, "/v1/messages")
    if answer.status != 200:
        return _message_error(answer)
    events = messages.parse(answer.body)
    messages.check_events(events)
    last = events[-1]
    if last["type"] == "error":
        return Outcome("failed", last["error"]["type"])
    return Outcome(STOPPED[messages.fold(events)["stop_reason"]])


async def message_whole(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, MESSAGE, "/v1/messages")
    if answer.status != 200:
        return _message_error(answer)
    return Outcome(STOPPED[msgspec.json.decode(answer.body)["stop_reason"]])


# ---- Chat Completions, of requests that are not passed through -------------------------------------------------------

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "tools": [chat.WEATHER]}
# Why a completion has finished → how the response has ended.
FINISHED = {"stop": "completed", "tool_calls": "completed", "length": "incomplete", "content_filter": "incomplete"}
CHAT_PATH = "/v1/chat/completions"


async def chat_streamed(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, {**CHAT, "stream": True}, CHAT_PATH)
    if answer.status != 200:
        return _error_of(answer)
    chunks = completions.chunks_of(answer.body)
    if "error" in chunks[-1]:
        return Outcome("failed", chunks[-1]["error"]["code"])
    (reason,) = completions.finish_of(chunks)
    return Outcome(FINISHED[reason])


async def chat_whole(gateway: GatewayUnderTest, socket: Socket) -> Outcome:
    answer = await answer_of(gateway, CHAT, CHAT_PATH)
    if answer.status != 200:
        return _error_of(answer)
    return Outcome(FINISHED[msgspec.json.decode(answer.body)["choices"][0]["finish_reason"]])


WAYS: dict[str, Ask] = {
    "stream": streamed,
    "whole": whole,
    "websocket": by_websocket,
    "background, followed": followed,
    "background, polled": polled,
    "message, stream": message_streamed,
    "message, whole": message_whole,
    "chat, stream": chat_streamed,
    "chat, whole": chat_whole,
}
# Both have no HTTP answer of their own to be an error.
IN_BACKGROUND = {"background, followed", "background, polled"}
# A way of another protocol → the way that it is like.
MESSAGES = {"message, stream": "stream", "message, whole": "whole"}
CHATS = {"chat, stream": "stream", "chat, whole": "whole"}
