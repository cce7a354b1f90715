"""The clients: so many at once, of several kinds, for so long. Task in, Found out, as JSON."""

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import aiohttp
import msgspec

# Of the deltas of one answer. At the engine's pace, an answer takes a few seconds.
DELTAS = (20, 200)
# In seconds: what a slow reader waits between two reads, what a dead client stays, and the longest time for one answer.
SLOW_PAUSE = 0.3
DEAD_FOR = 5.0
ANSWERED_WITHIN = 120.0
SMALL_BUFFER = 4096


class Task(msgspec.Struct):
    port: int
    streams: int
    seconds: float
    seed: int = 1


class Found(msgspec.Struct):
    # What became of each request, by the kind of its client.
    outcomes: dict[str, int]
    # The responses that were acknowledged: their ids, and the text of those that ended before the client's eyes.
    acknowledged: dict[str, str | None]


class Clients:
    def __init__(self, task: Task, session: aiohttp.ClientSession) -> None:
        self._url = f"http://127.0.0.1:{task.port}/v1/responses"
        self._port = task.port
        self._session = session
        self._chance = Random(task.seed)
        self.outcomes: Counter[str] = Counter()
        self.acknowledged: dict[str, str | None] = {}

    def _body(self, **fields: object) -> bytes:
        body = {"model": "bench", "input": "Hi", "max_output_tokens": self._chance.randint(*DELTAS), **fields}
        return msgspec.json.encode(body)

    async def one(self) -> None:
        name, client = self._chance.choices(KINDS, WEIGHTS)[0]
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                outcome = await client(self)
        except TimeoutError:
            outcome = "hangs"
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as broken:
            outcome = f"broken: {type(broken).__name__}"
        self.outcomes[f"{name}: {outcome}"] += 1

    # ---- kinds of clients --------------------------------------------------------------------------------------------

    async def whole(self) -> str:
        async with self._session.post(self._url, data=self._body()) as answer:
            body = msgspec.json.decode(await answer.read())
        return self._ended(body) if answer.status == 200 else self._refused(answer.status, body)

    async def reader(self) -> str:
        async with self._session.post(self._url, data=self._body(stream=True)) as answer:
            raw = await answer.read()
        return self._read(raw) if answer.status == 200 else self._refused(answer.status, msgspec.json.decode(raw))

    async def slow_reader(self) -> str:
        """Reads a little, and then waits: the gateway has to wait for it."""
        reader, writer = await self._connect(self._body(stream=True))
        raw = b""
        try:
            while piece := await reader.read(SMALL_BUFFER):
                raw += piece
                await asyncio.sleep(SLOW_PAUSE)
        finally:
            writer.close()
        head, _, body = raw.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            return f"HTTP {head[9:12].decode()}"
        return self._read(_unchunked(body))

    async def dead(self) -> str:
        """Never reads, and is gone without a word."""
        _, writer = await self._connect(self._body(stream=True))
        await asyncio.sleep(DEAD_FOR)
        writer.transport.abort()
        return "gone"

    async def leaving(self) -> str:
        """Closes in the middle."""
        reader, writer = await self._connect(self._body(stream=True))
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"response.output_text.delta")
        writer.close()
        return "left"

    async def background(self) -> str:
        """Follows it to its end, or cancels it at once."""
        async with self._session.post(self._url, data=self._body(background=True)) as answer:
            made = msgspec.json.decode(await answer.read())
        if answer.status != 200:
            return self._refused(answer.status, made)
        id = made["id"]
        self.acknowledged[id] = None
        if self._chance.random() < 0.2:
            async with self._session.post(f"{self._url}/{id}/cancel") as answer:
                return "cancelled" if answer.status == 200 else f"HTTP {answer.status} to the cancellation"
        while (outcome := await self._follow(id)) is None:
            await asyncio.sleep(SLOW_PAUSE)
        return outcome

    async def _follow(self, id: str) -> str | None:
        """How it ended; None: the store failed while it was followed, so that the stream broke off."""
        try:
            async with self._session.get(f"{self._url}/{id}", params={"stream": "true"}) as answer:
                raw = await answer.read()
        except aiohttp.ClientPayloadError:
            return None
        return self._read(raw) if answer.status == 200 and raw.endswith(b"data: [DONE]\n\n") else None

    # ---- what they got -----------------------------------------------------------------------------------------------

    def _read(self, raw: bytes) -> str:
        """How a stream ended; exactly one event ends it."""
        ends = [kind for kind in ("completed", "incomplete", "failed") if b"event: response.%b\n" % kind.encode() in raw]
        if len(ends) != 1 or not raw.endswith(b"data: [DONE]\n\n"):
            return f"ends {len(ends)} times"
        if ends == ["completed"]:
            last = raw.rpartition(b"event: response.completed\ndata: ")[2].partition(b"\n")[0]
            return self._ended(msgspec.json.decode(last)["response"])
        return ends[0]

    def _ended(self, response: dict[str, object]) -> str:
        if response["status"] == "completed":
            self.acknowledged[str(response["id"])] = str(response["output_text"])
        return str(response["status"])

    def _refused(self, status: int, body: dict[str, dict[str, str]]) -> str:
        return f"HTTP {status}, {body['error']['code']}"

    async def _connect(self, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        own.setblocking(False)
        await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=own, limit=2 * SMALL_BUFFER)
        head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return reader, writer


Client = Callable[[Clients], Awaitable[str]]
# Each kind with its share of all requests, in percent.
SHARES: dict[str, tuple[Client, int]] = {
    "reader": (Clients.reader, 45),
    "whole": (Clients.whole, 10),
    "slow reader": (Clients.slow_reader, 15),
    "dead": (Clients.dead, 8),
    "leaving": (Clients.leaving, 10),
    "background": (Clients.background, 12),
}
KINDS = [(name, client) for name, (client, _) in SHARES.items()]
WEIGHTS = [share for _, share in SHARES.values()]


def _unchunked(body: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        line, _, body = body.partition(b"\r\n")
        size = int(line or b"0", 16)
        if not size:
            return b"".join(pieces)
        pieces.append(body[:size])
        body = body[size + 2 :]


async def run(task: Task) -> Found:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        clients = Clients(task, session)
        loop = asyncio.get_running_loop()
        until = loop.time() + task.seconds

        async def place(number: int) -> None:
            # One after another, and not all in the same instant.
            await asyncio.sleep(number / task.streams * min(5.0, task.seconds / 4))
            while loop.time() < until:
                await clients.one()

        await asyncio.gather(*map(place, range(task.streams)))
        return Found(dict(clients.outcomes), clients.acknowledged)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Task)))))
