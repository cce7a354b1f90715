"""Two gateways of two workers on one Postgres, of which a worker or all is killed every few seconds: what was used is counted.

    PYTHONPATH=tests python -m soak.usage [--minutes 2] [--clients 24]

The key `ada` stores all that it asks, `bob` nothing, and `carol` has a hard budget. In the end, the usage in the store is
compared with what the stored responses say of themselves, and with what the clients have seen.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import aiohttp
import asyncpg
import msgspec

from antiphon.gateway.usage.budgets import MAX_AGE
from antiphon.gateway.usage.ledger import INTERVAL
from bench.processes import BenchFailed, allow_many_descriptors, free_port, running
from soak.fleet import CONF, Gateway
from soak.gateways import database
from soak.page import PAGE, with_section

TITLE = "Usage, with kills"
GATEWAYS = 2
KEYS = """
workers = 2
admin_key = ["boss"]

[keys]
ada = "ada"
bob = "bob"
carol = "carol"

[usage.budgets.carol]
tokens_per_day = {budget}
"""
KILL_EVERY = 12.0
# In seconds: until everything is written; and what a timer on a busy machine may be late.
SETTLED, LATE = INTERVAL + 3.0, 1.5
USED = """
SELECT owner, sum(requests - failures), sum(input_tokens), sum(output_tokens) FROM (
    SELECT owner, requests, failures, input_tokens, output_tokens FROM antiphon.usage_entries
    UNION ALL SELECT owner, requests, failures, input_tokens, output_tokens FROM antiphon.usage_sums
) AS used GROUP BY owner"""


class Answered(NamedTuple):
    owner: str
    gateway: int
    began: float
    ended: float
    tokens: int


@dataclass
class Seen:
    answered: list[Answered] = field(default_factory=list)
    # By gateway and time, and whether all of it was killed.
    kills: list[tuple[int, float]] = field(default_factory=list)
    # Requests whose answer nobody saw.
    cut: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Figures:
    minutes: float
    kills: int
    answers: int
    stored: int
    stored_tokens: int
    counted_tokens: int
    # Of what is not stored.
    unstored_tokens: int
    lost_tokens: int
    may_be_lost: int
    budget: int
    budget_used: int
    # Seconds after the budget was used up at which the last request was let in.
    let_in_late: float
    bugs: int


async def client(owner: str, gateways: Sequence[Gateway], session: aiohttp.ClientSession, seen: Seen, until: float) -> None:
    at = hash((owner, id(seen))) % GATEWAYS
    while time.time() < until:
        at = (at + 1) % GATEWAYS
        began = time.time()
        body = {"model": "bench", "input": "Hi", "store": owner != "bob", "max_output_tokens": 20}
        try:
            headers = {"Authorization": f"Bearer {owner}"}
            async with session.post(gateways[at].url + "/v1/responses", json=body, headers=headers) as answer:
                response = msgspec.json.decode(await answer.read())
                if answer.status != 200:
                    seen.refused[f"{owner} {answer.status}"] += 1
                    await asyncio.sleep(0.3)
                    continue
                tokens = response["usage"]["total_tokens"]
                seen.answered.append(Answered(owner, at, began, time.time(), tokens))
        except (aiohttp.ClientError, OSError, TimeoutError):
            seen.cut[owner] += 1
            await asyncio.sleep(0.3)


async def kill(gateways: Sequence[Gateway], session: aiohttp.ClientSession, seen: Seen, until: float) -> None:
    """In turn a worker process, which its supervisor replaces, and a whole gateway."""
    while time.time() + KILL_EVERY < until:
        await asyncio.sleep(KILL_EVERY)
        turn = len(seen.kills)
        at = turn // 2 % GATEWAYS
        gateway = gateways[at]
        seen.kills.append((at, time.time()))
        if turn % 2 == 0:
            kill_worker(gateway)
        else:
            await asyncio.to_thread(gateway.stop, signal.SIGKILL)
            gateway.start()
        await gateway.ready(session)


def kill_worker(gateway: Gateway) -> None:
    children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if "worker" in Path(f"/proc/{pid}/cmdline").read_text()]
    if workers:
        os.kill(workers[0], signal.SIGKILL)


async def soak(minutes: float, clients: int, budget: int, store: str, folder: Path) -> Figures:
    engine, seen = free_port(), Seen()
    (folder / "antiphon.toml").write_text(
        CONF.format(workers=0, lease=30).replace("[containers]", KEYS.format(budget=budget) + "\n[containers]")
    )
    gateways = [Gateway(number, folder, store, engine) for number in range(GATEWAYS)]
    paced = [sys.executable, "-m", "soak.engine", str(engine), "5"]
    timeout = aiohttp.ClientTimeout(total=60)
    started = time.time()
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        with running("engine", paced, engine, "/v1/models", folder):
            try:
                for gateway in gateways:
                    gateway.start()
                for gateway in gateways:
                    await gateway.ready(session)
                until = time.time() + 60 * minutes
                owners = ["ada", "bob", "carol"] * (clients // 3)
                asking = [asyncio.create_task(client(owner, gateways, session, seen, until)) for owner in owners]
                await kill(gateways, session, seen, until)
                await asyncio.gather(*asking)
                await asyncio.sleep(SETTLED)
            finally:
                for gateway in gateways:
                    await asyncio.to_thread(gateway.stop, signal.SIGTERM)
    logs = "".join(gateway.log for gateway in gateways)
    print(f"refused: {dict(seen.refused)}, without an answer: {dict(seen.cut)}", file=sys.stderr)
    return await compare(seen, store, budget, (time.time() - started) / 60, logs.count('"bug"'))


async def compare(seen: Seen, store: str, budget: int, minutes: float, bugs: int) -> Figures:
    connection = await asyncpg.connect(store)
    counted = await connection.fetch(USED)
    used = {owner: int(tokens_in + tokens_out) for owner, _, tokens_in, tokens_out in counted}
    rows = await connection.fetch("SELECT owner, settings FROM antiphon.responses")
    stored = [(owner, msgspec.json.decode(bytes(settings))) for owner, settings in rows]
    await connection.close()
    own = Counter[str]()
    for owner, response in stored:
        own[owner] += (response.get("usage") or {}).get("total_tokens", 0)
    bob = [each for each in seen.answered if each.owner == "bob"]
    known = sum(each.tokens for each in bob)
    may_be_lost = sum(
        each.tokens
        for each in bob
        if any(each.gateway == at and when - INTERVAL - LATE <= each.ended <= when + LATE for at, when in seen.kills)
    )
    carol = sorted((each for each in seen.answered if each.owner == "carol"), key=lambda each: each.ended)
    total, full_at = 0, None
    for each in carol:
        total += each.tokens
        if total >= budget and full_at is None:
            full_at = each.ended
    late = max((each.began for each in carol), default=0.0) - full_at if full_at is not None else 0.0
    return Figures(
        minutes=round(minutes, 1),
        kills=len(seen.kills),
        answers=len(seen.answered),
        stored=len(stored),
        stored_tokens=own["ada"] + own["carol"],
        counted_tokens=used.get("ada", 0) + used.get("carol", 0),
        unstored_tokens=known,
        lost_tokens=max(0, known - used.get("bob", 0)),
        may_be_lost=may_be_lost,
        budget=budget,
        budget_used=own["carol"],
        let_in_late=round(max(0.0, late), 2),
        bugs=bugs,
    )


def faults(found: Figures) -> list[str]:
    """What must not be; empty if all is well."""
    wrong = []
    if found.stored_tokens != found.counted_tokens:
        wrong.append(f"stored responses have {found.stored_tokens} tokens, and {found.counted_tokens} were counted")
    if found.lost_tokens > found.may_be_lost:
        wrong.append(f"{found.lost_tokens} tokens were lost, of which kills explain {found.may_be_lost}")
    if found.budget_used < found.budget:
        wrong.append("the budget was not used up: ask more")
    if found.let_in_late > INTERVAL + MAX_AGE + LATE:
        wrong.append(f"a request was let in {found.let_in_late} s after the budget was used up")
    if found.bugs or not found.kills:
        wrong.append(f"{found.bugs} bugs were logged, {found.kills} kills")
    return wrong


def section(found: Figures) -> str:
    return f"""## {TITLE}

Two gateways of two worker processes on one Postgres, {found.minutes:g} minutes, {found.answers:,} answers to three keys;
a worker process or a whole gateway is killed every {KILL_EVERY:g} s, {found.kills} times (`make soak-usage`).

| | |
| --- | --- |
| stored responses | {found.stored:,} |
| tokens by their own numbers | {found.stored_tokens:,} |
| tokens in the usage of their keys | {found.counted_tokens:,} |
| tokens of answers that were not stored | {found.unstored_tokens:,} |
| of these not in the usage, because a process was killed before it wrote them | {found.lost_tokens:,} |
| of these seen by clients within {INTERVAL + LATE:g} s of a kill | {found.may_be_lost:,} |
| a hard budget, in tokens | {found.budget:,} |
| used of it | {found.budget_used:,} |
| the last request that was let in began so long after it was used up | {found.let_in_late:g} s |
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.usage", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--budget", type=int, default=20_000, help="of the key carol, in tokens")
    chosen = parser.parse_args()
    allow_many_descriptors()
    try:
        with database() as store, tempfile.TemporaryDirectory(prefix="antiphon-soak-") as folder:
            found = asyncio.run(soak(chosen.minutes, chosen.clients, chosen.budget, store, Path(folder)))
    except (BenchFailed, subprocess.TimeoutExpired) as failed:
        print(f"soak: {failed}", file=sys.stderr)
        return 1
    print(section(found))
    for wrong in (found_wrong := faults(found)):
        print(f"soak: {wrong}", file=sys.stderr)
    if not found_wrong:
        PAGE.write_text(with_section(PAGE.read_text(), TITLE, section(found)))
    return 1 if found_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
