"""The lines that show what the order of a batch saves, worked through by a gateway with a mock engine."""

import io
import json
from itertools import pairwise

import aiohttp
from support.engine import MockEngine
from support.gateway import running_gateway

from antiphon.core.checks.work import LinesWork
from antiphon.files.readers import batch_lines
from antiphon.settings.tables import BatchSettings
from bench.models.batch_prefixes import Found, Plan, lines, shown, worked_through

PLAN = Plan(model="mock", lines=40, prefixes=10, rules=3, slots=2, earlier=0, threads=1, seed=1)


def encoded(*, in_order: bool) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines(PLAN, in_order=in_order))


async def test_the_lines_run_in_the_order_of_their_beginnings_and_in_disorder(engine: MockEngine) -> None:
    changes = []
    for in_order in (True, False):
        engine.requests.clear()
        async with (
            # One after another: lines that run at once may pass one another.
            running_gateway(engine, batches=BatchSettings(engine_places=1)) as gateway,
            aiohttp.ClientSession(gateway.url, raise_for_status=True) as session,
        ):
            batch = await worked_through(session, encoded(in_order=in_order))
        assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
        beginnings = [request["messages"][0]["content"] for request in engine.requests]
        assert len(set(beginnings)) == 10
        changes.append(sum(one != other for one, other in pairwise(beginnings)))
    assert changes[0] == 9
    assert changes[1] > 20


def test_in_disorder_no_line_begins_like_another() -> None:
    def prefixes(*, in_order: bool) -> int:
        work = LinesWork("", 0, 0, "/v1/responses", 1 << 20)
        read = batch_lines.decode(batch_lines.read(io.BytesIO(encoded(in_order=in_order)), work))
        return len({line.prefix for line in read.lines})

    assert (prefixes(in_order=True), prefixes(in_order=False)) == (10, 40)


def test_what_was_in_the_cache_is_a_share_and_the_time_is_shown_only_if_it_is_wanted() -> None:
    found = Found(2000, 1750, 12.3)
    assert shown("in disorder", found, times=False) == "in disorder: 1,750 of 2,000 tokens were in the cache, 87.5 %"
    assert shown("in disorder", found, times=True).endswith("87.5 %; 12 s")
