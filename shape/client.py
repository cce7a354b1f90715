"""One connection to a gateway, which asks the requests that are measured, one after another."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from shape.engine import MODEL, Chat, Engine, read_message

Input = str | list[dict[str, Any]]
TOOL = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


class Api(NamedTuple):
    """How an API of clients is asked, and what its answers have."""

    path: str
    # The members of a body beside `model` and `stream`.
    ask: Callable[[Input], dict[str, Any]]
    # In each delta, in the last event of a stream, and in an answer that is not streamed.
    delta: bytes
    completed: bytes
    whole: bytes


RESPONSES = Api(
    "/v1/responses",
    lambda input: {"input": input},
    b"event: response.output_text.delta\n",
    b"event: response.completed\n",
    b'"completed"',
)
MESSAGES = Api(
    "/v1/messages",
    lambda input: {"max_tokens": 100, "messages": [{"role": "user", "content": input}]},
    b'"text_delta"',
    b"event: message_stop\n",
    b'"end_turn"',
)
# Two ways of one path. What is passed on is a stream, as all answers that the gateway asks for.
PASSED = Api(
    "/v1/chat/completions",
    lambda input: {"messages": [{"role": "user", "content": input}]},
    b'"assistant","content":"',
    b"data: [DONE]\n",
    b"",
)
CHAT = PASSED._replace(
    ask=lambda input: {**PASSED.ask(input), "tools": [{"type": "function", "function": TOOL}]},
    delta=b'{"content":"',
    whole=b'"finish_reason":"stop"',
)
RESPONSES_WITH_TOOLS = RESPONSES._replace(ask=lambda input: {"input": input, "tools": [{"type": "function", **TOOL}]})
HEAD = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
END = b"\r\n0\r\n\r\n"
READ = 2**20
HELLO = "Hello"
# Seconds, with which a gateway that runs under Valgrind on a busy machine gets along.
ASKED_WITHIN = 60


class Client:
    """Its requests are answered by the engine, in step with what the client has read."""

    def __init__(
        self, engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked_within: float = ASKED_WITHIN
    ) -> None:
        self._engine = engine
        self._asked_within = asked_within
        self._reader = reader
        self._writer = writer
        self._received = b""

    @classmethod
    async def connect(cls, engine: Engine, port: int, asked_within: float = ASKED_WITHIN) -> "Client":
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=READ)
        return cls(engine, reader, writer, asked_within)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def whole(self, input: Input = "Hi", api: Api = RESPONSES) -> bytes:
        """An answer that is not streamed; the engine sends its own in one piece."""
        chat = await self._ask(input, api, stream=False)
        chat.send(HELLO, last=True)
        head, body = await read_message(self._reader)
        if b" 200 " not in head.partition(b"\r\n")[0] or api.whole not in body:
            raise ValueError(f"not a completed answer: {head + body!r}")
        return body

    async def passed(self) -> bytes:
        """An answer that is passed on, and not streamed."""
        chat = await self._ask("Hi", PASSED, stream=False)
        chat.send_whole(HELLO)
        return await self._end(PASSED._replace(completed=b'"Hello"'))

    async def hello(self) -> bytes:
        """A streamed answer of one delta; the engine sends its own in one piece."""
        chat = await self._ask("Hi", RESPONSES, stream=True)
        chat.send(HELLO, last=True)
        return await self._end(RESPONSES)

    async def stream(self, deltas: int, api: Api = RESPONSES) -> bytes:
        """A streamed answer of so many deltas, each in a read of its own."""
        chat = await self.open_stream(api)
        for number in range(1, deltas):
            chat.send(f" word{number % 10}")
            await self._until(api.delta, number + 1)
        chat.send(last=True)
        return await self._end(api)

    async def open_stream(self, api: Api = RESPONSES) -> Chat:
        """A stream in mid-answer: its first delta has come."""
        chat = await self._ask("Hi", api, stream=True)
        chat.send(HELLO)
        await self._until(api.delta, 1)
        return chat

    async def _ask(self, input: Input, api: Api, *, stream: bool) -> Chat:
        members = {"model": MODEL, **api.ask(input), "stream": stream}
        body = json.dumps(members, separators=(",", ":")).encode()
        self._received = b""
        self._writer.write(HEAD % (api.path.encode(), len(body)) + body)
        try:
            return await asyncio.wait_for(self._engine.chats.get(), self._asked_within)
        except TimeoutError:
            await asyncio.wait_for(self._read(), ASKED_WITHIN)
            raise ConnectionError(f"the gateway did not ask its engine, and answered {self._received!r}") from None

    async def _until(self, mark: bytes, times: int) -> None:
        while self._received.count(mark) < times:
            await self._read()

    async def _end(self, api: Api) -> bytes:
        while not self._received.endswith(END):
            await self._read()
        if api.completed not in self._received:
            raise ValueError(f"not a completed stream: {self._received!r}")
        return self._received

    async def _read(self) -> None:
        data = await self._reader.read(READ)
        if not data:
            raise ConnectionError(f"the gateway closed the connection after {self._received!r}")
        self._received += data


def history(items: int) -> list[dict[str, Any]]:
    """Turns of a question and an answer, and the next question."""
    sides = ("user", "input_text"), ("assistant", "output_text")
    turns = []
    for number in range(items - 1):
        role, type = sides[number % 2]
        text = f"This is line {number} of a conversation. " * 5
        turns.append({"type": "message", "role": role, "content": [{"type": type, "text": text}]})
    return [*turns, {"role": "user", "content": "And now?"}]
