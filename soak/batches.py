"""A large batch on one gateway, and on three of which one is killed every few seconds, while people use them.

    PYTHONPATH=tests python -m soak.batches [--lines 10000] [--people 200] [--kill-every 8] [--slots 4] [--answer-ms 40]

The engine answers so many requests at once, in the order in which they come, each after so many milliseconds. In the end each
line must be in the output once; and what people wait for their first event is compared with what they wait without the batch.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

from bench.processes import allow_many_descriptors, free_port, running
from soak.fleet import CONF, Gateway
from soak.gateways import database

CHUNK = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"bench","choices":[%s]}'
TEXT = '{"index":0,"delta":{"role":"assistant","content":"done"},"finish_reason":null}'
END = '{"index":0,"delta":{},"finish_reason":"stop"}'
WHOLE = "".join(f"data: {each}\n\n" for each in (CHUNK % TEXT, CHUNK % END, "[DONE]")).encode()
BATCHES = "\n[batches]\nengine_places = {slots}\nmax_lines = 1000000\n"
TICK = os.sysconf("SC_CLK_TCK")


class Plan(NamedTuple):
    lines: int
    people: int
    kill_every: float
    slots: int
    answer_ms: int


# ---- the engine ------------------------------------------------------------------------------------------------------


async def serve_engine(port: int, slots: int, answer_ms: int) -> None:
    free, counts = asyncio.Semaphore(slots), Counter[str]()

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        counts[body["messages"][-1]["content"]] += 1
        async with free:
            await asyncio.sleep(answer_ms / 1000)
        return web.Response(body=WHOLE, headers={"Content-Type": "text/event-stream"})

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "bench", "object": "model", "owned_by": "bench"}]})

    async def asked(request: web.Request) -> web.Response:
        return web.json_response(counts)

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.get("/asked", asked), web.post("/v1/chat/completions", chat)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


# ---- gateways --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def gateways(
    plan: Plan, count: int, store: str, folder: Path
) -> AsyncIterator[tuple[list[Gateway], int, aiohttp.ClientSession]]:
    port = free_port()
    conf = CONF.format(workers=0, lease=5.0) + BATCHES.format(slots=plan.slots)
    (folder / "antiphon.toml").write_text(conf)
    words = [
        sys.executable,
        "-m",
        "soak.batches",
        "--engine",
        str(port),
        "--slots",
        str(plan.slots),
        "--answer-ms",
        str(plan.answer_ms),
    ]
    made = [Gateway(number, folder, store, port) for number in range(count)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        with running("engine", words, port, "/v1/models", folder):
            try:
                for gateway in made:
                    gateway.start()
                for gateway in made:
                    await gateway.ready(session)
                yield made, port, session
            finally:
                for gateway in made:
                    await asyncio.to_thread(gateway.stop, signal.SIGTERM)


def cpu_of(gateway: Gateway) -> float:
    """Seconds of its process and of those that it started."""
    assert gateway.pid is not None
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == gateway.pid:
                total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def memory_of(gateway: Gateway) -> float:
    line = next(line for line in Path(f"/proc/{gateway.pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


# ---- what clients do -------------------------------------------------------------------------------------------------


def input_file(lines: int) -> bytes:
    request = {"method": "POST", "url": "/v1/responses"}
    return b"".join(
        json.dumps(
            {"custom_id": f"l{at}", **request, "body": {"model": "bench", "input": f"line {at}", "store": False}}
        ).encode()
        + b"\n"
        for at in range(lines)
    )


async def begin(session: aiohttp.ClientSession, url: str, lines: int) -> str:
    form = aiohttp.FormData({"purpose": "batch"})
    form.add_field("file", input_file(lines), filename="in.jsonl")
    async with session.post(f"{url}/v1/files", data=form) as answer:
        file = (await answer.json())["id"]
    body = {"input_file_id": file, "endpoint": "/v1/responses", "completion_window": "24h"}
    async with session.post(f"{url}/v1/batches", json=body) as answer:
        id: str = (await answer.json())["id"]
        return id


async def get(session: aiohttp.ClientSession, urls: Sequence[str], path: str) -> Any:
    """From whichever gateway answers: one may have been killed."""
    while True:
        for url in random.sample(urls, len(urls)):
            with contextlib.suppress(aiohttp.ClientError, OSError, AssertionError):
                async with session.get(f"{url}{path}") as answer:
                    assert answer.status == 200
                    return await answer.read()
        await asyncio.sleep(0.1)


async def ended(session: aiohttp.ClientSession, urls: Sequence[str], id: str) -> dict[str, Any]:
    while True:
        batch = json.loads(await get(session, urls, f"/v1/batches/{id}"))
        if batch["status"] in ("completed", "failed", "expired", "cancelled"):
            return batch
        await asyncio.sleep(0.2)


async def first_event(session: aiohttp.ClientSession, urls: Sequence[str], text: str) -> float:
    """Seconds until the first of its output."""
    body = {"model": "bench", "input": text, "stream": True, "store": False}
    while True:
        began = time.monotonic()
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with session.post(f"{random.choice(urls)}/v1/responses", json=body) as answer:
                async for line in answer.content:
                    if line.startswith(b"event: response.output_text.delta"):
                        return time.monotonic() - began
        # It was killed.
        await asyncio.sleep(0.05)


async def people(session: aiohttp.ClientSession, urls: Sequence[str], count: int) -> list[float]:
    """One after another, at times that nobody foresees."""
    waits = []
    for number in range(count):
        waits.append(await first_event(session, urls, f"person {number}"))
        await asyncio.sleep(random.uniform(0.0, 0.1))
    return sorted(waits)


async def by_hand(session: aiohttp.ClientSession, url: str, plan: Plan) -> float:
    """The same requests, as many at once as the engine answers. How many seconds it takes."""
    began, waiting = time.monotonic(), iter(range(plan.lines))

    async def client() -> None:
        for at in waiting:
            body = {"model": "bench", "input": f"line {at}", "store": False}
            async with session.post(f"{url}/v1/responses", json=body) as answer:
                await answer.read()

    await asyncio.gather(*(client() for _ in range(plan.slots)))
    return time.monotonic() - began


async def kill(made: Sequence[Gateway], session: aiohttp.ClientSession, every: float, kills: list[int]) -> None:
    while True:
        await asyncio.sleep(every)
        gateway = made[len(kills) % len(made)]
        kills.append(len(kills))
        await asyncio.to_thread(gateway.stop, signal.SIGKILL)
        gateway.start()
        await gateway.ready(session)


def shown(waits: Sequence[float]) -> dict[str, float]:
    at = {"median": 0.5, "95 %": 0.95, "longest": 1.0}
    return {name: round(1000 * waits[min(len(waits) - 1, int(len(waits) * share))]) for name, share in at.items()}


# ---- runs ------------------------------------------------------------------------------------------------------------


async def alone(plan: Plan, folder: Path) -> dict[str, Any]:
    """One gateway, with nobody else."""
    async with gateways(plan, 1, f"sqlite:{folder / 'responses.db'}", folder) as ([gateway], _, session):
        before = cpu_of(gateway)
        seconds = await by_hand(session, gateway.url, plan)
        asked = cpu_of(gateway) - before
        before, began = cpu_of(gateway), time.monotonic()
        id = await begin(session, gateway.url, plan.lines)
        batch = await ended(session, [gateway.url], id)
        took, used = time.monotonic() - began, cpu_of(gateway) - before
        assert batch["request_counts"] == {"total": plan.lines, "completed": plan.lines, "failed": 0}, batch
        each = 1000 / plan.lines
        return {
            "ms a line": {"by hand": round(seconds * each, 2), "batch": round(took * each, 2)},
            "CPU ms a line": {"by hand": round(asked * each, 2), "batch": round(used * each, 2)},
            "MB afterwards": round(memory_of(gateway)),
        }


async def with_people(plan: Plan, count: int, store: str, folder: Path, *, kills: bool) -> dict[str, Any]:
    async with gateways(plan, count, store, folder) as (made, engine, session):
        urls = [gateway.url for gateway in made]
        without = await people(session, urls, plan.people)
        id = await begin(session, urls[0], plan.lines)
        killed: list[int] = []
        killing = asyncio.create_task(kill(made, session, plan.kill_every, killed)) if kills else None
        waits = await people(session, urls, plan.people)
        batch = await ended(session, urls, id)
        if killing is not None:
            if killing.done():
                # Never by itself: a gateway did not come back.
                killing.result()
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        output = await get(session, urls, f"/v1/files/{batch['output_file_id']}/content")
        asked = json.loads(await get(session, [f"http://127.0.0.1:{engine}"], "/asked"))
        ids = Counter(json.loads(line)["custom_id"] for line in output.splitlines())
        return {
            "gateways": count,
            "kills": len(killed),
            "status": batch["status"],
            "error file": batch["error_file_id"],
            "lines in the output": ids.total(),
            "twice": sum(each > 1 for each in ids.values()),
            "missing": plan.lines - len(ids),
            "asked more than once": sum(n > 1 for name, n in asked.items() if name.startswith("line")),
            "ms to the first event": {"without": shown(without), "with": shown(waits)},
            "bugs logged": sum(gateway.log.count('"bug"') for gateway in made),
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.batches", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--kill-every", type=float, default=8.0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--answer-ms", type=int, default=40)
    parser.add_argument("--engine", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=("alone", "one", "three"))
    chosen = parser.parse_args()
    if chosen.engine is not None:
        asyncio.run(serve_engine(chosen.engine, chosen.slots, chosen.answer_ms))
        return 0
    allow_many_descriptors()
    plan = Plan(chosen.lines, chosen.people, chosen.kill_every, chosen.slots, chosen.answer_ms)
    wrong = False
    for name in (chosen.only,) if chosen.only else ("alone", "one", "three"):
        with tempfile.TemporaryDirectory(prefix="antiphon-soak-") as made, contextlib.ExitStack() as stack:
            folder = Path(made)
            if name == "alone":
                found = asyncio.run(alone(plan, folder))
            elif name == "one":
                found = asyncio.run(with_people(plan, 1, f"sqlite:{folder / 'responses.db'}", folder, kills=False))
            else:
                store = stack.enter_context(database())
                found = asyncio.run(with_people(plan, 3, store, folder, kills=True))
            print(json.dumps({name: found}, indent=2), flush=True)
            wrong |= bool(found.get("twice") or found.get("missing") or found.get("bugs logged"))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
