"""Input files that are too large, have too many lines or lines that are too long, or broken text; and a disk that is full.

What a gateway takes of the machine's memory is what the system counts. `make test` samples what the slow tests do at full size,
with the limits as they are by default.
"""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit
from typing import Any, NamedTuple

import aiohttp
import msgspec
import openai
import pytest
from openai import AsyncOpenAI
from openai.types import Batch
from support import batches
from support.commands import served_for
from support.engine import MockEngine, text
from support.ways_in import Doors, until

from bench.processes import family

pytestmark = pytest.mark.timeout(600)

MEGABYTE = 1024 * 1024
# What a gateway and its helpers may take more than at its start, whatever the size of the file.
MOST = 96 * MEGABYTE


class Limits(NamedTuple):
    """None: as it is by default."""

    file: int | None = None
    bytes: int | None = None
    lines: int | None = None
    # Of one line.
    body: int | None = None

    def toml(self) -> str:
        members = {"max_bytes": self.bytes, "max_lines": self.lines}
        given = "".join(f"{name} = {value}\n" for name, value in members.items() if value is not None)
        body = "" if self.body is None else f"max_body_bytes = {self.body}\n"
        file = "" if self.file is None else f"[files]\nmax_file_bytes = {self.file}\n"
        return f"{body}{file}[batches]\n{given}"


def most_of(pid: int) -> int:
    """The most memory that a process has had. One that has ended has none."""
    with suppress(FileNotFoundError, ProcessLookupError):
        if found := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
            return int(found[1]) * 1024
    return 0


class Gateway:
    def __init__(self, url: str, pid: int, client: aiohttp.ClientSession, sdk: AsyncOpenAI) -> None:
        self.url = url
        self.pid = pid
        self.sdk = sdk
        self._client = client
        self._at_start = most_of(pid)

    @property
    def taken(self) -> int:
        """The most that it has taken since its start; or that one of its helpers has, if that is more."""
        helpers = [most_of(each) for each in family(self.pid)[1:]]
        return max([most_of(self.pid) - self._at_start, *helpers])

    async def upload(self, pieces: Iterator[bytes]) -> tuple[int, dict[str, Any]]:
        """Sent as it is made: this process has one piece at a time."""

        async def content() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        form = aiohttp.MultipartWriter("form-data")
        form.append("batch").set_content_disposition("form-data", name="purpose")
        form.append(content()).set_content_disposition("form-data", name="file", filename="in.jsonl")
        async with self._client.post(f"{self.url}/v1/files", data=form) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def begin(self, pieces: Iterator[bytes]) -> Batch:
        status, file = await self.upload(pieces)
        assert status == 200, file
        return await self.sdk.batches.create(input_file_id=file["id"], endpoint="/v1/responses", completion_window="24h")


@asynccontextmanager
async def running(engine: MockEngine, folder: Path, limits: Limits) -> AsyncIterator[Gateway]:
    settings = folder / "antiphon.toml"
    settings.write_text(limits.toml())
    arguments = ["--config", str(settings), "--upstream", engine.url, "--port", "0"]
    store = f"sqlite:{folder / 'responses.db'}"
    async with served_for(500, *arguments, ANTIPHON_STORE=store) as (process, line), aiohttp.ClientSession() as client:
        found = re.search(r"http://[^/\s]+", line)
        assert found is not None
        async with AsyncOpenAI(base_url=f"{found[0]}/v1", api_key="any", max_retries=0) as sdk:
            yield Gateway(found[0], process.pid, client, sdk)


def jsonl(id: str, words: str) -> bytes:
    return batches.jsonl([batches.line(id, {"model": "mock", "input": words, "store": False})])


def contents(folder: Path) -> list[int]:
    """The sizes of all files that are stored."""
    return sorted(path.stat().st_size for path in (folder / "responses.files" / "contents").iterdir())


LARGE = [
    pytest.param(Limits(file=24 * MEGABYTE, bytes=8 * MEGABYTE), 40, 12, id="sample"),
    pytest.param(Limits(), 1024, 300, id="1 GB", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("limits", "too_large", "large"), LARGE)
async def test_a_file_that_is_too_large_is_refused(
    limits: Limits, too_large: int, large: int, engine: MockEngine, tmp_path: Path
) -> None:
    piece = jsonl("a", "b" * MEGABYTE)
    async with running(engine, tmp_path, limits) as gateway:
        status, refused = await gateway.upload(repeat(piece, too_large))
        assert (status, refused["error"]["code"]) == (413, "file_too_large")
        assert "`files.max_file_bytes`" in refused["error"]["message"]
        assert contents(tmp_path) == []
        with pytest.raises(openai.APIStatusError, match=r"`batches\.max_bytes`") as error:
            await gateway.begin(repeat(piece, large))
        assert (error.value.status_code, error.value.code) == (413, "file_too_large")
        assert gateway.taken < MOST


MANY = [
    pytest.param(Limits(lines=1_000), 20_000, id="sample"),
    pytest.param(Limits(), 1_000_000, id="a million", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("limits", "count"), MANY)
async def test_a_file_of_too_many_lines_fails(limits: Limits, count: int, engine: MockEngine, tmp_path: Path) -> None:
    lines = (b"".join(jsonl(str(at), "Hi") for at in range(first, first + 1000)) for first in range(0, count, 1000))
    async with running(engine, tmp_path, limits) as gateway:
        batch = await batches.ended(gateway.sdk, (await gateway.begin(lines)).id)
        assert batch.status == "failed"
        assert batch.errors is not None
        assert batch.errors.data is not None
        [error] = batch.errors.data
        assert (error.code, error.param) == ("too_many_lines", "input_file_id")
        assert "`batches.max_lines`" in (error.message or "")
        assert engine.requests == []
        assert gateway.taken < MOST


LONG = [
    pytest.param(Limits(body=256 * 1024), 64 * 1024, id="sample"),
    pytest.param(Limits(), 10 * MEGABYTE, id="10 MB", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("limits", "size"), LONG)
async def test_long_lines_are_run_and_those_that_are_too_long_or_broken_are_not(
    limits: Limits, size: int, engine: MockEngine, tmp_path: Path
) -> None:
    engine.otherwise = lambda body: text(str(len(body["messages"][0]["content"])))
    longest = limits.body or 64 * MEGABYTE
    words = "a" * size

    def lines() -> Iterator[bytes]:
        for at in range(6):
            yield jsonl(f"long {at}", words)
        yield jsonl("too long", "a" * longest)
        yield jsonl("broken", words).replace(b"aaa", b"a\xffa", 1)
        yield jsonl("short", "Hi")

    async with running(engine, tmp_path, limits) as gateway:
        batch = await batches.ended(gateway.sdk, (await gateway.begin(lines())).id)
        assert batch.status == "completed"
        answered = {each["custom_id"]: each["response"]["body"] for each in await batches.outputs(gateway.sdk, batch)}
        said = {id: body["output"][-1]["content"][0]["text"] for id, body in answered.items()}
        assert said == {f"long {at}": str(size) for at in range(6)} | {"short": "2"}
        failed = {each["error"]["line"]: each["error"]["code"] for each in await batches.errors(gateway.sdk, batch)}
        assert failed == {7: "line_too_long", 8: "invalid_json_line"}
        # Four run at once. Each is read, decoded, and sent.
        assert gateway.taken < MOST + 4 * 8 * size


async def test_a_full_disk_puts_a_batch_off_and_says_so(engine: MockEngine, tmp_path: Path) -> None:
    """No file of the gateway can grow: neither its database nor what it writes."""
    doors = Doors(engine)
    async with running(engine, tmp_path, Limits()) as gateway:
        ids = [f"q{at}" for at in range(6)]
        made = await gateway.begin(iter([jsonl(id, id) for id in ids]))
        await until(lambda: doors.waiting == 4)
        # What is written from now on has no room.
        prlimit(gateway.pid, RLIMIT_FSIZE, (0, RLIM_INFINITY))
        status, refused = await gateway.upload(iter([b"{}\n"]))
        assert (status, refused["error"]["code"]) == (503, "store_unavailable")
        doors.open(4)
        await until(lambda: doors.waiting == 0)
        # It is there to say how far it was.
        assert (await gateway.sdk.batches.retrieve(made.id)).status == "in_progress"
        prlimit(gateway.pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
        doors.open(100)
        batch = await batches.ended(gateway.sdk, made.id)
        assert batch.status == "completed"
        assert sorted(each["custom_id"] for each in await batches.outputs(gateway.sdk, batch)) == ids
        # What was recorded late was not run twice.
        assert len(engine.requests) == len(ids)
