"""A paced engine that costs next to nothing: every chat request is answered with prepared chunks, one delta per interval."""

import asyncio
import itertools
import json
import re
import sys
from typing import Any, cast

TICK = 0.001
WORDS = " the", " answer", " to", " that", " is", " a", " matter", " of", " how", " one", " looks", " at", " it", ","
MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","owned_by":"bench"}]}'
MODELS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(MODELS)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_WANTED = re.compile(rb'"max_tokens": *(\d+)')


def _framed(data: str) -> bytes:
    """One event as one HTTP chunk."""
    return f"{len(data) + 8:x}\r\ndata: {data}\n\n\r\n".encode()


def _chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
    chunk = {
        "id": "chatcmpl-8c2f1e0b7a6d4c59b1f0e3d2a4c5b697",
        "object": "chat.completion.chunk",
        "created": 1763170000,
        "model": "bench",
        "system_fingerprint": "b6710-d1e355648",
        "choices": choices,
    }
    return _framed(json.dumps(chunk | more, separators=(",", ":")))


def _delta(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    return _chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason, "token_ids": None}])


def _ending(deltas: int) -> bytes:
    usage = {"prompt_tokens": 12, "completion_tokens": deltas, "total_tokens": 12 + deltas}
    return _delta({}, "stop") + _chunk([], usage=usage) + _framed("[DONE]") + b"0\r\n\r\n"


ROLE = _delta({"role": "assistant", "content": ""})
DELTAS = [_delta({"content": word}) for word in WORDS]


class Pacer:
    """Every stream has its tick within the interval, and the streams are spread evenly over the ticks."""

    def __init__(self, interval_ms: int) -> None:
        self._slots: list[set[Connection]] = [set() for _ in range(interval_ms)]
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._done = 0
        self._tick()

    def add(self, stream: "Connection") -> None:
        min(self._slots, key=len).add(stream)

    def drop(self, stream: "Connection") -> None:
        for slot in self._slots:
            slot.discard(stream)

    def _tick(self) -> None:
        count = len(self._slots)
        due = int((self._loop.time() - self._began) / TICK)
        # Late by more than an interval, the engine slows down: two deltas of one stream at once would be one read.
        for at in range(max(self._done, due - count), due):
            for stream in tuple(self._slots[at % count]):
                stream.step()
        self._done = due
        self._loop.call_at(self._began + (due + 1) * TICK, self._tick)


class Connection(asyncio.Protocol):
    """Reads just as much HTTP as nginx and aiohttp send to an engine."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._received = b""
        self._left = 0
        self._ending = b""
        self._deltas = itertools.cycle(DELTAS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pacer.drop(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and len(body) >= int(length[1] if length else 0):
            self._received = b""
            self._answer(head.partition(b" HTTP/")[0], _WANTED.search(body))

    def step(self) -> None:
        if self._left:
            self._left -= 1
            self._transport.write(next(self._deltas))
        else:
            self._pacer.drop(self)
            self._transport.write(self._ending)

    def _answer(self, asked: bytes, wanted: re.Match[bytes] | None) -> None:
        if asked == b"POST /v1/chat/completions" and wanted:
            self._left = int(wanted[1])
            self._ending = _ending(self._left)
            self._transport.write(STREAM_HEAD + ROLE)
            self._pacer.add(self)
        else:
            self._transport.write(MODELS_HEAD + MODELS if asked == b"GET /v1/models" else NOT_FOUND)


async def serve(port: int, interval_ms: int) -> None:
    pacer = Pacer(interval_ms)
    # Plain asyncio and not uvloop: here each write() is a send() of its own, at once.
    server = await asyncio.get_running_loop().create_server(lambda: Connection(pacer), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
