"""Sends mixed requests to a gateway, and compares what it has in the end with what it had after the first ones. The figures go
to docs/soak.md."""

import argparse
import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from support.bad_mcp_server import BadMcpServer
from support.engine import Answer, Body, answer, call
from support.search_services import SearchServices
from yarl import URL

from antiphon.errors import UNREADABLE
from bench.processes import free_port
from fuzz.trial import FuzzEngine
from soak.mixed.gateway import CENSUS, TEMPORARY, Census
from soak.mixed.requests import HOSTILE, HOSTILE_AT_FIRST, RESPONSE, SOCKET, UPLOAD, Request, Requests
from soak.page import MIXED_TITLE, PAGE, Mixed, mixed_section, with_section

AT_ONCE = 16
WARM_UP = 3_000
ANSWERED_WITHIN = 60.0
# After the last request, in seconds: what runs in the background ends, and what is kept for a while goes.
SETTLED_WITHIN = 90.0
MOST_GROWTH_MB = 20.0
TERMINAL = b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"error"'
# Arguments for a parameter, by its type.
VALUES = {"string": "print(40 + 2)", "integer": 1, "number": 1, "boolean": True, "array": ["Rome"], "object": {}}
TABLES = "responses", "conversations", "jobs", "events"
# Of the size of a database: what its rows have, its indexes and half-empty pages; and what an empty one has.
MOST_SPACE = 1.5
EMPTY_MB = 2.0


class CallingEngine(FuzzEngine):
    """Calls a tool with arguments that fit its parameters."""

    def _fitting(self, body: Body) -> Answer:
        made = super()._fitting(body)
        self.objections.clear()
        tools = body.get("tools")
        if (
            not tools
            or b'"tool_calls"' not in (made if isinstance(made, bytes) else b"")
            or body["messages"][-1]["role"] == "tool"
        ):
            return made
        function = tools[len(body["messages"]) % len(tools)]["function"]
        return answer(call(function["name"], fitting_arguments(function)), finish="tool_calls")


def fitting_arguments(function: Body) -> str:
    """Those of hostile requests may be of any form."""
    parameters = function.get("parameters") or {}
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    types = {
        name: of.get("type") if isinstance(of, dict) else None
        for name, of in (properties.items() if isinstance(properties, dict) else ())
    }
    return msgspec.json.encode({name: VALUES.get(str(kind), "Rome") for name, kind in types.items()}).decode()


class Load:
    def __init__(self, url: str, requests: Requests, session: aiohttp.ClientSession) -> None:
        self._url, self._requests, self._session = url, requests, session
        self.outcomes: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    async def send(self, count: int) -> None:
        left = iter(range(count))
        await asyncio.gather(*(self._client(left) for _ in range(AT_ONCE)))

    async def _client(self, left: Any) -> None:
        for _ in left:
            request = self._requests.next()
            try:
                async with asyncio.timeout(ANSWERED_WITHIN):
                    outcome = await (self._socket(request) if request.way == SOCKET else self._http(request))
            except TimeoutError:
                outcome = "hangs"
            except aiohttp.ClientError as broken:
                outcome = f"broken: {type(broken).__name__}"
            self.outcomes[outcome] += 1
            if outcome.startswith(("hangs", "broken", "HTTP 500")):
                self.wrong[f"{outcome}: {request.method} {request.path[:80]}"] += 1

    async def _http(self, request: Request) -> str:
        data: Any = request.body
        headers = {"Content-Type": "application/json"}
        if request.way == UPLOAD:
            data, headers = aiohttp.FormData({"purpose": "user_data"}), {}
            data.add_field("file", request.body or b"", filename="notes.txt")
        # As it is: aiohttp would tidy up a path that is made to be odd.
        url = URL(self._url + request.path, encoded=True)
        async with self._session.request(request.method, url, data=data, headers=headers, allow_redirects=False) as got:
            if request.leaves:
                return "left"
            body = await got.read()
        if got.status == 200:
            self._note(body)
        return f"HTTP {got.status}"

    def _note(self, body: bytes) -> None:
        with contextlib.suppress(*UNREADABLE):
            made = msgspec.json.decode(body)
            for each in (made, *(made.get("data") or ())) if isinstance(made, dict) else ():
                if isinstance(each, dict):
                    self._requests.ids.add(each)

    async def _socket(self, request: Request) -> str:
        body = (request.body or b"").decode(errors="replace")
        async with self._session.ws_connect(self._url + RESPONSE) as socket:
            await socket.send_str('{"type":"response.create",' + body[1:])
            while True:
                frame = await socket.receive()
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    return "WebSocket closed"
                if any(kind in frame.data.encode()[:60] for kind in TERMINAL):
                    return "WebSocket answered"


@contextlib.asynccontextmanager
async def running_gateway(folder: Path, engine: str, search: str) -> AsyncIterator[tuple[int, str]]:
    port = free_port()
    (folder / TEMPORARY).mkdir()
    command = [sys.executable, "-m", "soak.mixed.gateway", str(folder), str(port), engine, search]
    environment = {**os.environ, "TMPDIR": str(folder / TEMPORARY)}
    with (folder / "gateway.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session:
            await ready(session, url)
        yield process.pid, url
    finally:
        process.terminate()
        await process.wait()


async def ready(session: aiohttp.ClientSession, url: str) -> None:
    until = time.monotonic() + SETTLED_WITHIN
    while time.monotonic() < until:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(url + "/ready") as answer:
                if answer.status == 200:
                    return
        await asyncio.sleep(0.2)
    raise TimeoutError("the gateway did not become ready")


async def take_census(pid: int, folder: Path) -> Census:
    written = folder / CENSUS
    written.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    while not written.exists():
        await asyncio.sleep(0.05)
    return msgspec.json.decode(written.read_bytes(), type=Census)


async def settled(pid: int, folder: Path, before: Census | None = None) -> Census:
    """Once nothing runs any more: the counts stay as they are, or are what they were before."""
    until, last = time.monotonic() + SETTLED_WITHIN, await take_census(pid, folder)
    while time.monotonic() < until:
        await asyncio.sleep(3)
        now = await take_census(pid, folder)
        if before is None and _counts(now) == _counts(last):
            return now
        if before is not None and not growth(before, now):
            return now
        last = now
    return last


def _counts(census: Census) -> tuple[int, ...]:
    return census.descriptors, census.threads, census.tasks, census.temporary


def growth(before: Census, after: Census) -> list[str]:
    """What grew that must not."""
    grown = [
        f"{name}: {old} → {new}"
        for name in ("descriptors", "threads", "tasks", "temporary")
        if (new := getattr(after, name)) > (old := getattr(before, name))
    ]
    if after.memory_mb > before.memory_mb + MOST_GROWTH_MB:
        grown.append(f"memory: {before.memory_mb:.0f} → {after.memory_mb:.0f} MB")
    return grown


async def soak(count: int, warm_up: int, seed: int) -> Mixed:
    engine = CallingEngine()
    await engine.start()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="antiphon-soak-") as name:
        folder = Path(name)
        async with BadMcpServer() as mcp, SearchServices() as search:
            async with running_gateway(folder, engine.url, search.url) as (pid, url):
                async with aiohttp.ClientSession() as session:
                    requests = Requests(seed, f"{mcp.url}/mcp")
                    load = Load(url, requests, session)
                    requests.hostile = HOSTILE_AT_FIRST
                    await load.send(warm_up)
                    requests.hostile = HOSTILE
                    before = await settled(pid, folder)
                    await load.send(count - warm_up)
                after = await settled(pid, folder, before)
            log = (folder / "gateway.log").read_text(errors="replace")
        database = folder / "responses.db"
        stored, contents, size = rows_in(database), contents_mb(database), database.stat().st_size
    await engine.stop()
    return Mixed(
        requests=count,
        minutes=round((time.monotonic() - began) / 60, 1),
        outcomes=dict(sorted(load.outcomes.items())),
        wrong=dict(load.wrong),
        before=msgspec.structs.asdict(before),
        after=msgspec.structs.asdict(after),
        database_mb=round(size / 2**20, 1),
        contents_mb=round(contents, 1),
        stored=stored,
        bugs=log.count('"bug"'),
    )


def rows_in(database: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


def contents_mb(database: Path) -> float:
    """What all rows of all tables have."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
        return sum(_bytes_in(connection, name) for name in names) / 2**20


def _bytes_in(connection: sqlite3.Connection, table: str) -> int:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]
    lengths = " + ".join(f"coalesce(length(CAST({column} AS blob)), 0)" for column in columns)
    return int(connection.execute(f"SELECT coalesce(sum({lengths}), 0) FROM {table}").fetchone()[0])


def faults(found: Mixed) -> list[str]:
    """What must not be; empty if all is well."""
    grown = growth(msgspec.convert(found.before, Census), msgspec.convert(found.after, Census))
    bugs = [f"the gateway logged {found.bugs} bugs"] if found.bugs else []
    space = [f"the database has {found.database_mb} MB for {found.contents_mb} MB"] if wastes_space(found) else []
    return [*(f"{count} × {what}" for what, count in found.wrong.items()), *grown, *space, *bugs]


def wastes_space(found: Mixed) -> bool:
    return found.database_mb > MOST_SPACE * found.contents_mb + EMPTY_MB


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.mixed", description=__doc__)
    parser.add_argument("--requests", type=int, default=30_000, metavar="N", help="default 30000")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, metavar="N", help=f"default {WARM_UP}")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    chosen = parser.parse_args()
    found = asyncio.run(soak(chosen.requests, chosen.warm_up, chosen.seed))
    PAGE.write_text(with_section(PAGE.read_text(), MIXED_TITLE, mixed_section(found)))
    print(mixed_section(found))
    for wrong in (found_wrong := faults(found)):
        print(f"soak: {wrong}", file=sys.stderr)
    return 1 if found_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
