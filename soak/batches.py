"""A large batch on one gateway, and on three of which one is killed every few seconds, while people use them.

    PYTHONPATH=tests python -m soak.batches [--lines 10000] [--people 200] [--kill-every 8] [--times]

In the end each line must be in the output once; and nobody may have waited at the engine for more than one answer, or on
several gateways hardly anybody. With `--times`, which need a quiet machine, what a line takes is compared with asking directly,
and what people wait for their first event with what they wait without the batch.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench.processes import BenchFailed, allow_many_descriptors, cpu_seconds, free_port, running
from soak.batch_engine import PERSON
from soak.batch_findings import TITLE, Costs, Found, Plan, faults, section
from soak.fleet import CONF, Gateway
from soak.gateways import database
from soak.page import PAGE, with_section

BATCHES = "\n[batches]\nengine_places = {slots}\nmax_lines = 1000000\n"


# ---- gateways --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def gateways(
    plan: Plan, count: int, store: str, folder: Path
) -> AsyncIterator[tuple[list[Gateway], int, aiohttp.ClientSession]]:
    port = free_port()
    conf = CONF.format(workers=0, lease=5.0) + BATCHES.format(slots=plan.slots)
    (folder / "antiphon.toml").write_text(conf)
    words = [sys.executable, "-m", "soak.batch_engine", *map(str, (port, plan.slots, plan.answer_ms))]
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
    assert gateway.pid is not None
    return cpu_seconds(gateway.pid)


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


def has_ended(batch: Mapping[str, Any]) -> bool:
    return batch["status"] in ("completed", "failed", "expired", "cancelled")


async def batch_now(session: aiohttp.ClientSession, urls: Sequence[str], id: str) -> dict[str, Any]:
    batch: dict[str, Any] = json.loads(await get(session, urls, f"/v1/batches/{id}"))
    return batch


async def ended(session: aiohttp.ClientSession, urls: Sequence[str], id: str) -> dict[str, Any]:
    while not has_ended(batch := await batch_now(session, urls, id)):
        await asyncio.sleep(0.2)
    return batch


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


async def people(session: aiohttp.ClientSession, urls: Sequence[str], count: int, name: str) -> list[float]:
    """One after another, at times that nobody foresees."""
    waits = []
    for number in range(count):
        waits.append(await first_event(session, urls, f"{name} {number}"))
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


# ---- runs ------------------------------------------------------------------------------------------------------------


async def alone(plan: Plan, folder: Path) -> Costs:
    """One gateway, with nobody else."""
    async with gateways(plan, 1, f"sqlite:{folder / 'responses.db'}", folder) as ([gateway], _, session):
        before = cpu_of(gateway)
        seconds = await by_hand(session, gateway.url, plan)
        asked = cpu_of(gateway) - before
        before, began = cpu_of(gateway), time.monotonic()
        batch = await ended(session, [gateway.url], await begin(session, gateway.url, plan.lines))
        took, used = time.monotonic() - began, cpu_of(gateway) - before
        if batch["request_counts"]["completed"] != plan.lines:
            raise BenchFailed(f"the batch alone has {batch['status']}: {batch['request_counts']}")
        return Costs(*(1000 / plan.lines * each for each in (seconds, took, asked, used)))


async def with_people(plan: Plan, count: int, store: str, folder: Path) -> Found:
    """Of several gateways, one after another is killed."""
    async with gateways(plan, count, store, folder) as (made, engine, session):
        urls = [gateway.url for gateway in made]
        without = await people(session, urls, plan.people, "before")
        id = await begin(session, urls[0], plan.lines)
        killed: list[int] = []
        killing = asyncio.create_task(kill(made, session, plan.kill_every, killed)) if count > 1 else None
        waits = await people(session, urls, plan.people, PERSON)
        met_batch = not has_ended(await batch_now(session, urls, id))
        batch = await ended(session, urls, id)
        if killing is not None:
            if killing.done():
                # Never by itself: a gateway did not come back.
                killing.result()
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        output = await get(session, urls, f"/v1/files/{batch['output_file_id']}/content")
        seen = json.loads(await get(session, [f"http://127.0.0.1:{engine}"], "/seen"))
        ids = Counter(json.loads(line)["custom_id"] for line in output.splitlines())
        return Found(
            gateways=count,
            kills=len(killed),
            status=batch["status"] if batch["error_file_id"] is None else "with errors",
            lines=ids.total(),
            twice=sum(each > 1 for each in ids.values()),
            missing=plan.lines - len(ids),
            asked_again=sum(times - 1 for name, times in seen["asked"].items() if name.startswith("line")),
            waited={int(answers): persons for answers, persons in sorted(seen["waited"].items())},
            people_met_batch=met_batch,
            bugs=sum(gateway.log.count('"bug"') for gateway in made),
            waits=(without, waits),
        )


async def measure(plan: Plan, store: str, folder: Path, *, times: bool) -> tuple[list[Found], Costs | None]:
    for name in ("alone", "one", "three"):
        (folder / name).mkdir()
    costs = await alone(plan, folder / "alone") if times else None
    one = await with_people(plan, 1, f"sqlite:{folder / 'one' / 'responses.db'}", folder / "one")
    return [one, await with_people(plan, 3, store, folder / "three")], costs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.batches", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--kill-every", type=float, default=8.0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--answer-ms", type=int, default=40)
    parser.add_argument("--times", action="store_true", help="on a quiet machine: also what is measured in milliseconds")
    chosen = parser.parse_args()
    allow_many_descriptors()
    plan = Plan(chosen.lines, chosen.people, chosen.kill_every, chosen.slots, chosen.answer_ms)
    try:
        with database() as store, tempfile.TemporaryDirectory(prefix="antiphon-soak-") as folder:
            found, costs = asyncio.run(measure(plan, store, Path(folder), times=chosen.times))
    except (BenchFailed, subprocess.TimeoutExpired) as failed:
        print(f"soak: {failed}", file=sys.stderr)
        return 1
    print(written := section(found, plan, costs))
    for wrong in (found_wrong := [wrong for each in found for wrong in faults(each, plan)]):
        print(f"soak: {wrong}", file=sys.stderr)
    if not found_wrong:
        PAGE.write_text(with_section(PAGE.read_text(), TITLE, written))
    return 1 if found_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
