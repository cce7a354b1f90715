"""Three gateways on one Postgres behind nginx; one of them is killed each minute. Whatever a client was promised must be there.

    PYTHONPATH=tests python -m soak.gateways [--minutes 5] [--conversations 500]

So many conversations in the background, and as many that are streamed. In the end every response is read from every gateway.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec
from support.postgres import PostgresServer
from support.programs import Missing

from bench.processes import BenchFailed, allow_many_descriptors
from soak.conversations import Client, Conversation
from soak.fleet import Fleet, fleet
from soak.page import GATEWAYS_TITLE, PAGE, Gateways, gateways_section, with_section

GATEWAYS = 3
LEAST_KILLS = 2
# In seconds: a stream that breaks later than this after a kill was not broken by it; and the time for all that still waits.
CUT_WITHIN = 20.0
SETTLED_WITHIN = 150.0
READERS = 16
# Of the gateways' logs, if something is wrong.
LOG_SHOWN = 20_000
LEFT_OVER = {
    "jobs": "SELECT count(*) FROM antiphon.jobs",
    "responses that run": "SELECT count(*) FROM antiphon.responses WHERE status IN ('queued', 'in_progress')",
    "locks": "SELECT count(*) FROM antiphon.conversations WHERE holder IS NOT NULL AND held_until > extract(epoch FROM now())",
}
EXPECTED = "completed", "cut by a kill", "no answer", "HTTP 50", "waits for the lock", "followed again", "store was too slow"


@dataclass(frozen=True)
class Plan:
    minutes: float = 5.0
    # In the background, and as many that are streamed.
    conversations: int = 500
    # In seconds: between two kills, between two turns of one conversation, and of a background worker's lease.
    kill_every: float = 60.0
    pause: float = 20.0
    lease: float = 30.0
    # In milliseconds, between two deltas.
    interval: int = 100

    def talks(self) -> list[Conversation]:
        """Half of each mode in conversations, half by the response before."""
        modes, links = ("streamed", "background"), ("conversation", "previous response")
        return [Conversation(at, modes[at % 2], links[at // 2 % 2]) for at in range(2 * self.conversations)]  # type: ignore[arg-type]


async def soak(plan: Plan, store: str, folder: Path) -> Gateways:
    counts: Counter[str] = Counter()
    started = time.monotonic()
    workers = max(4, plan.conversations // GATEWAYS)
    running = fleet(GATEWAYS, store, folder, interval_ms=plan.interval, workers=workers, lease=plan.lease)
    async with running as gateways:
        clients = [Client(gateways.url, gateways.session, talk, counts) for talk in plan.talks()]
        until = asyncio.get_running_loop().time() + plan.minutes * 60
        killing = asyncio.create_task(kill(gateways, plan.kill_every, until))
        await asyncio.gather(*(client.run(until, plan.pause) for client in clients))
        await killing
        left = await left_over(store)
        talks = [client.talk for client in clients]
        unreadable, order = await read_back(gateways, talks)
        doubled, surplus = await read_conversations(gateways, talks)
        cuts = [moment for client in clients for moment in client.cuts]
        logs = "".join(gateway.log for gateway in gateways.gateways)
    found = Gateways(
        minutes=round((time.monotonic() - started) / 60, 1),
        conversations=plan.conversations,
        kills=len(gateways.kills),
        turns=sum(len(talk.turns) for talk in talks),
        outcomes=dict(sorted(counts.items())),
        unexplained_cuts=sum(not any(0 <= cut - kill <= CUT_WITHIN for kill in gateways.kills) for cut in cuts),
        unreadable=unreadable,
        out_of_order=order,
        doubled=doubled,
        stored_though_cut=surplus,
        left=left,
        bugs=logs.count('"bug"'),
    )
    if faults(found):
        print(logs[-LOG_SHOWN:], file=sys.stderr)
    return found


async def kill(gateways: Fleet, every: float, until: float) -> None:
    loop = asyncio.get_running_loop()
    # The last kill is early enough that what it interrupts begins anew while others still talk.
    while loop.time() + 1.5 * every < until or len(gateways.kills) < LEAST_KILLS:
        await asyncio.sleep(every)
        await gateways.kill_one()


# ---- what must be there ----------------------------------------------------------------------------------------------


async def left_over(store: str) -> dict[str, int]:
    """What still waits or is locked once all leases have ended."""
    connection = await asyncpg.connect(store)
    until = time.monotonic() + SETTLED_WITHIN
    try:
        while True:
            left = {name: await connection.fetchval(query) for name, query in LEFT_OVER.items()}
            if not any(left.values()) or time.monotonic() > until:
                return left
            await asyncio.sleep(1)
    finally:
        await connection.close()


async def read_back(gateways: Fleet, talks: Sequence[Conversation]) -> tuple[int, int]:
    """Of the responses that clients saw complete: how many are not readable from each gateway as they were, and how many do not
    continue the one before."""
    work = [(gateway.url, talk, place) for talk in talks for place in range(len(talk.turns)) for gateway in gateways.gateways]
    waiting = iter(work)
    found = Counter[str]()

    async def reader() -> None:
        for url, talk, place in waiting:
            turn = talk.turns[place]
            status, response = await _get(gateways.session, f"{url}/v1/responses/{turn.id}")
            if status != 200 or response["status"] != "completed" or response["output_text"] != turn.text:
                found["unreadable"] += 1
            elif talk.link == "previous response":
                before = talk.turns[place - 1].id if place else None
                found["order"] += response["previous_response_id"] != before

    await asyncio.gather(*(reader() for _ in range(READERS)))
    return found["unreadable"], found["order"]


async def read_conversations(gateways: Fleet, talks: Sequence[Conversation]) -> tuple[int, int]:
    """How many turns are in their conversation twice, not at all, or at the wrong place; and how many are there though the
    client's connection was cut before it saw their end."""
    waiting = iter([talk for talk in talks if talk.link == "conversation" and talk.id])
    wrong = surplus = 0

    async def reader() -> None:
        nonlocal wrong, surplus
        for at, talk in enumerate(waiting):
            url = gateways.gateways[at % GATEWAYS].url
            items = [item async for item in _items(gateways.session, f"{url}/v1/conversations/{talk.id}/items")]
            faults, cut = judged(talk, items)
            wrong += faults
            surplus += cut

    await asyncio.gather(*(reader() for _ in range(READERS)))
    return wrong, surplus


def judged(talk: Conversation, items: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Of the items of a conversation: faults, and turns whose end no client saw."""
    texts = [(item["role"], item["content"][0]["text"]) for item in items if item["type"] == "message"]
    asked = [text.rpartition(" ")[2] for role, text in texts if role == "user"]
    # Each question is followed by its answer.
    faults = sum(role != ("assistant" if at % 2 else "user") for at, (role, _) in enumerate(texts)) + len(texts) % 2
    faults += sum(count - 1 for count in Counter(asked).values())
    answers = dict(zip(asked, (text for role, text in texts if role == "assistant"), strict=False))
    faults += sum(answers.get(turn.marker) != turn.text for turn in talk.turns)
    seen = [turn.marker for turn in talk.turns]
    faults += [marker for marker in asked if marker in seen] != seen
    others = [marker for marker in asked if marker not in seen]
    return faults + sum(marker not in talk.cut for marker in others), len(others)


async def _items(session: aiohttp.ClientSession, url: str) -> Any:
    after = ""
    while True:
        _, page = await _get(session, f"{url}?order=asc&limit=100{after}")
        for item in page["data"]:
            yield item
        if not page["has_more"]:
            return
        after = f"&after={page['last_id']}"


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, Any]:
    async with session.get(url) as answer:
        return answer.status, msgspec.json.decode(await answer.read())


# ---- the run ---------------------------------------------------------------------------------------------------------


def faults(found: Gateways) -> list[str]:
    """What must not be; empty if all is well."""
    wrong = [f"{count} × {name}" for name, count in found.outcomes.items() if not any(word in name for word in EXPECTED)]
    figures = {
        "streams broke without a kill": found.unexplained_cuts,
        "responses cannot be read from every gateway": found.unreadable,
        "responses do not continue the one before": found.out_of_order,
        "turns are doubled, missing or out of order in their conversation": found.doubled,
        "bugs were logged": found.bugs,
        **{f"{name} are left": count for name, count in found.left.items()},
    }
    return wrong + [f"{count} {words}" for words, count in figures.items() if count]


@contextlib.contextmanager
def database() -> Iterator[str]:
    try:
        server = PostgresServer()
    except Missing as reason:
        raise BenchFailed(str(reason)) from None
    try:
        server.create()
        server.start()
        yield server.new_database()
    finally:
        server.remove()


def run(plan: Plan) -> Gateways:
    with database() as store, tempfile.TemporaryDirectory(prefix="antiphon-soak-") as folder:
        return asyncio.run(soak(plan, store, Path(folder)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.gateways", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=Plan.minutes, help=f"default {Plan.minutes:g}")
    parser.add_argument(
        "--conversations", type=int, default=Plan.conversations, help=f"of each kind, default {Plan.conversations}"
    )
    parser.add_argument("--pause", type=float, default=Plan.pause, help=f"seconds between two turns, default {Plan.pause:g}")
    chosen = parser.parse_args()
    allow_many_descriptors()
    try:
        found = run(Plan(chosen.minutes, chosen.conversations, pause=chosen.pause))
    except (BenchFailed, subprocess.TimeoutExpired) as failed:
        print(f"soak: {failed}", file=sys.stderr)
        return 1
    section = gateways_section(found)
    print(section)
    for wrong in (found_wrong := faults(found)):
        print(f"soak: {wrong}", file=sys.stderr)
    if not found_wrong:
        PAGE.write_text(with_section(PAGE.read_text(), GATEWAYS_TITLE, section))
    return 1 if found_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
