"""The load: many streams at once, kept as they come and checked once all have ended. Task in, Found out, as JSON."""

import json
import select
import socket
import sys
import time
from typing import NamedTuple

import msgspec


class Task(msgspec.Struct):
    api: str
    port: int
    streams: int
    deltas: int
    # The streams begin one after another within so many seconds, and all must end within so many.
    ramp: float
    limit: float


class Found(msgspec.Struct):
    deltas: int
    chunks: int
    seconds: float
    cpu_seconds: float


class Api(NamedTuple):
    """The request of a route, how its stream shows a delta, and what it must contain before its end."""

    path: str
    body: str
    delta: bytes
    end: bytes


CHAT = '{"model":"bench","stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"messages":[%s]}'
RESPONSES = '{"model":"bench","stream":true,"max_output_tokens":%d,"input":[%s]}'
MESSAGE = json.dumps({"role": "user", "content": "And what is the answer?"})
APIS = {
    "chat": Api("/v1/chat/completions", CHAT, b'"delta":{"content":"', b'"usage":{'),
    "responses": Api("/v1/responses", RESPONSES, b"event: response.output_text.delta\n", b"event: response.completed\n"),
}
APIS["unstored"] = APIS["responses"]._replace(body=RESPONSES.replace('"stream"', '"store":false,"stream"'))


class BadStream(Exception):
    """A stream that is not as expected."""


def unchunked(data: bytes) -> list[bytes]:
    """The chunks of an answer's body."""
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or b"transfer-encoding: chunked" not in head.lower():
        raise BadStream(f"not a chunked answer with status 200: {data[:500]!r}")
    chunks: list[bytes] = []
    at = 0
    while (line := rest.find(b"\r\n", at)) > at:
        size = int(rest[at:line], 16)
        if size == 0:
            return chunks
        chunks.append(rest[line + 2 : line + 2 + size])
        at = line + size + 4
    raise BadStream(f"broken off after {len(chunks)} chunks: …{data[-200:]!r}")


def check(data: bytes, api: Api, deltas: int) -> int:
    """How many HTTP chunks the stream took, if it is whole."""
    chunks = unchunked(data)
    body = b"".join(chunks)
    found = body.count(api.delta)
    if found != deltas or api.end not in body or not body.endswith(b"data: [DONE]\n\n"):
        raise BadStream(f"{found} deltas of {deltas}, ending in {body[-300:]!r}")
    return len(chunks)


def collect(task: Task, request: bytes) -> list[list[bytes]]:
    """Only reads and keeps: whatever else it did meanwhile would take the CPU from the subject."""
    began = time.monotonic()
    pieces: list[list[bytes]] = []
    live: dict[int, tuple[socket.socket, list[bytes]]] = {}
    with select.epoll() as epoll:
        while live or len(pieces) < task.streams:
            now = time.monotonic() - began
            if now > task.limit:
                raise BadStream(f"{len(live)} did not end within {task.limit:.0f} s")
            if len(pieces) < task.streams and now >= len(pieces) / task.streams * task.ramp:
                if len(live) < len(pieces):
                    raise BadStream("one ended before the last one began")
                stream = socket.create_connection(("127.0.0.1", task.port), timeout=task.limit)
                stream.sendall(request)
                pieces.append([])
                live[stream.fileno()] = stream, pieces[-1]
                epoll.register(stream, select.EPOLLIN)
            for number, _ in epoll.poll(0.001 if len(pieces) < task.streams else 1):
                stream, kept = live[number]
                if data := stream.recv(65536):
                    kept.append(data)
                else:
                    del live[number]
                    stream.close()
    return pieces


def run(task: Task) -> Found:
    api = APIS[task.api]
    body = api.body % (task.deltas, MESSAGE)
    head = f"POST {api.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    began = time.monotonic()
    streams = collect(task, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    took, cpu = time.monotonic() - began, time.process_time()
    chunks = sum(check(b"".join(pieces), api, task.deltas) for pieces in streams)
    return Found(len(streams) * task.deltas, chunks, took, cpu)


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(msgspec.json.encode(run(msgspec.json.decode(sys.argv[1], type=Task))))
    except (BadStream, OSError) as bad:
        sys.exit(f"a stream failed: {bad}")
