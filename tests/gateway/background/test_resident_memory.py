"""What a long background answer takes of the machine's memory, as the system counts it: with all copies of the database."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from support.commands import served
from support.engine import DONE, USAGE, MockEngine, Writer, chunk

pytestmark = pytest.mark.timeout(120)

PIECE = "0123456789" * 10
MEGABYTE = 1_000_000
# Of the answer's text.
SIZE = 16 * MEGABYTE
# The most memory that it may take, in times of its size. There are its text, the space for it in the database, which SQLite
# makes in two copies, and caches, which are as large for any answer.
MOST = 10


class Gateway:
    def __init__(self, url: str, pid: int, client: aiohttp.ClientSession) -> None:
        self.url = url
        self.client = client
        self._status = Path(f"/proc/{pid}/status")
        self._at_start = self._read("VmRSS")

    def _read(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", self._status.read_text())
        assert found is not None
        return int(found[1]) * 1024

    @property
    def taken(self) -> float:
        """The most that it has taken since the start, in times of the answer."""
        return (self._read("VmHWM") - self._at_start) / SIZE

    async def create(self) -> str:
        """The path of a background response."""
        body = {"model": "mock", "input": "Hi", "background": True}
        async with self.client.post(f"{self.url}/v1/responses", json=body) as answer:
            return f"{self.url}/v1/responses/{(await answer.json())['id']}"

    async def read(self, url: str, *, slowly: bool = False) -> bytes:
        """The end of the body."""
        end = b""
        async with self.client.get(url) as answer:
            assert answer.status == 200
            while piece := await answer.content.read(64 * 1024):
                end = (end + piece)[-100:]
                if slowly:
                    # Others go first: whatever there is to do, this client is the last to read on.
                    await asyncio.sleep(0.002)
        return end


@asynccontextmanager
async def running(engine: MockEngine, folder: Path) -> AsyncIterator[Gateway]:
    arguments = ["--upstream", engine.url, "--port", "0"]
    async with served(*arguments, ANTIPHON_STORE=f"sqlite:{folder / 'responses.db'}") as (process, line):
        found = re.search(r"http://[^/\s]+", line)
        assert found is not None
        async with aiohttp.ClientSession(read_bufsize=1024) as client:
            yield Gateway(found[0], process.pid, client)


async def long_answer(write: Writer) -> None:
    await write(chunk({"role": "assistant", "content": ""}))
    some = chunk({"content": PIECE}) * 100
    for _ in range(SIZE // len(PIECE) // 100):
        await write(some)
    await write(chunk(finish="stop") + USAGE + DONE)


async def test_a_long_answer_takes_a_few_times_its_size(engine: MockEngine, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as gateway:
        # Of the first one, nothing is left when the second one comes.
        engine.will(long_answer, long_answer)
        await gateway.read(f"{await gateway.create()}?stream=true")
        url = await gateway.create()
        assert (await gateway.read(f"{url}?stream=true")).endswith(b"data: [DONE]\n\n")
        assert gateway.taken < MOST
        # The response itself, which has the text twice.
        assert (await gateway.read(url)).endswith(f'{PIECE[-10:]}"}}'.encode())
        assert gateway.taken < MOST


@pytest.mark.slow
async def test_clients_that_read_slowly_take_no_more(engine: MockEngine, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as gateway:
        engine.will(long_answer)
        url = f"{await gateway.create()}?stream=true"
        ends = await asyncio.gather(*(gateway.read(url, slowly=True) for _ in range(3)))
        assert all(end.endswith(b"data: [DONE]\n\n") for end in ends)
        assert gateway.taken < MOST
