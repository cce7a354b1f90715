"""An engine on loopback that sends each piece of an answer when it is asked to.

The gateway gets one piece in one read, and the next one when its client has seen what became of it. So the same request is
always the same work, however busy the machine is.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

MODEL = "mock"
MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "nobody"}]}
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Chat:
    """A chat request that waits for its answer. All that one call sends goes out in one write."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._head = STREAM_HEAD
        self.ended = asyncio.Event()

    def send(self, *texts: str, last: bool = False) -> None:
        """One chunk of HTTP for each text. `last`: with the usage and the end of the answer."""
        frames = [_frame(_piece({"role": "assistant", "content": text})) for text in texts]
        if last:
            end = _frame(_piece({}, "stop")) + _frame({**_piece({}), "choices": [], "usage": USAGE}) + b"data: [DONE]\n\n"
            frames.append(end)
        head, self._head = self._head, b""
        self._writer.write(head + b"".join(b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames) + b"0\r\n\r\n" * last)
        if last:
            self.ended.set()

    def send_whole(self, text: str) -> None:
        """An answer that is not streamed, as one object."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        answer = {**_piece({}), "object": "chat.completion", "choices": [choice], "usage": USAGE}
        self._writer.write(_json_answer(b"200 OK", answer))
        self.ended.set()


class Engine:
    """`chats` has the requests that nobody has answered yet."""

    def __init__(self) -> None:
        self.chats: asyncio.Queue[Chat] = asyncio.Queue()
        self.port = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._unanswered: set[Chat] = set()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            for chat in self._unanswered:
                chat.ended.set()
            await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(await read_message(reader), writer)
        self._writers.discard(writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self._serving.discard(task)

    async def _answer(self, request: tuple[bytes, bytes], writer: asyncio.StreamWriter) -> None:
        method, path, _ = request[0].split(maxsplit=2)
        if path.endswith(b"/chat/completions"):
            chat = Chat(writer)
            self._unanswered.add(chat)
            self.chats.put_nowait(chat)
            await chat.ended.wait()
            self._unanswered.discard(chat)
            return
        found = path == b"/v1/models"
        answer = (
            _json_answer(b"200 OK", MODELS) if found else _json_answer(b"404 Not Found", {"error": {"message": "not found"}})
        )
        head, end, body = answer.partition(b"\r\n\r\n")
        writer.write(head + end + (b"" if method == b"HEAD" else body))


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of a request or an answer that states its length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head, await reader.readexactly(length)


def _piece(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}


def _frame(data: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(data, separators=(",", ":")).encode()


def _json_answer(status: bytes, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data)
