"""The load: many streams at once, kept as they come, and checked once all have ended; reports as JSON on stdout."""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import uvloop

DONE = b"data: [DONE]\n\n"


class Api(NamedTuple):
    """How a route is asked for `deltas` deltas, and how its stream tells a delta and the end."""

    path: str
    body: dict[str, object]
    limit: str
    delta: bytes
    end: bytes

    def request(self, deltas: int) -> bytes:
        body = json.dumps(self.body | {"model": "bench", "stream": True, self.limit: deltas}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


QUESTION = "What is the answer to that?"
APIS = {
    "chat": Api(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": QUESTION}], "stream_options": {"include_usage": True}},
        "max_tokens",
        b'"delta":{"content":"',
        b'"usage":{',
    ),
    "responses": Api(
        "/v1/responses",
        {"input": QUESTION},
        "max_output_tokens",
        b"event: response.output_text.delta\n",
        b"event: response.completed\n",
    ),
}


class BadStream(Exception):
    """A stream that did not come as it should."""


@dataclass
class Tally:
    open: int = 0
    peak: int = 0


class Stream(asyncio.Protocol):
    """Only keeps what comes: whatever it did meanwhile would take the CPU from the subject."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self.pieces: list[bytes] = []
        self.ended = asyncio.get_running_loop().create_future()
        self._request = request
        self._tally = tally

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._tally.open += 1
        self._tally.peak = max(self._tally.peak, self._tally.open)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.open -= 1
        if not self.ended.done():
            self.ended.set_result(None)


def unchunked(data: bytes) -> list[bytes]:
    """The chunks of an answer's body."""
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or b"transfer-encoding: chunked" not in head.lower():
        raise BadStream(f"not a chunked answer with status 200: {data[:500]!r}")
    chunks = []
    at = 0
    while (line := rest.find(b"\r\n", at)) > at:
        size = int(rest[at:line], 16)
        if size == 0:
            return chunks
        chunks.append(rest[line + 2 : line + 2 + size])
        at = line + 2 + size + 2
    raise BadStream(f"broken off after {len(chunks)} chunks: …{data[-200:]!r}")


def check(data: bytes, api: Api, deltas: int) -> int:
    """How many HTTP chunks the stream took, if it is whole."""
    chunks = unchunked(data)
    body = b"".join(chunks)
    found = body.count(api.delta)
    if found != deltas or api.end not in body or not body.endswith(DONE):
        raise BadStream(f"{found} deltas of {deltas}, ending in {body[-300:]!r}")
    return len(chunks)


async def run(port: int, api: Api, streams: int, deltas: int, ramp: float, seconds: float) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    request, tally, opened = api.request(deltas), Tally(), []
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        for _ in range(streams):
            _, stream = await loop.create_connection(lambda: Stream(request, tally), "127.0.0.1", port)
            opened.append(stream)
            await asyncio.sleep(ramp / streams)
        for stream in opened:
            await stream.ended
    took, cpu = time.monotonic() - began, time.process_time()
    chunks = sum(check(b"".join(stream.pieces), api, deltas) for stream in opened)
    if tally.peak < streams:
        raise BadStream(f"only {tally.peak} of {streams} streams were open at the same time: --deltas is too small")
    return {"deltas": streams * deltas, "chunks": chunks, "seconds": took, "client_cpu_seconds": cpu}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", choices=sorted(APIS), required=True)
    for name in ("--port", "--streams", "--deltas"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--ramp", "--seconds"):
        parser.add_argument(name, type=float, required=True)
    options = parser.parse_args()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(
                run(options.port, APIS[options.api], options.streams, options.deltas, options.ramp, options.seconds)
            )
    except BadStream as bad:
        sys.exit(f"a stream failed: {bad}")
    except TimeoutError:
        sys.exit(f"the streams did not end within {options.seconds:.0f} s")
    print(json.dumps(found))
