"""A gateway that is killed while it runs lines, and another one that goes on; and which line goes where."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import openai
import pytest
from support import batches
from support.batches import line, sdk
from support.commands import served
from support.engine import MockEngine, text
from support.gateway import running_gateway, started
from support.postgres import PostgresServer
from support.ways_in import Doors, until

from antiphon.settings.tables import BatchSettings
from antiphon.store import open_store
from antiphon.store.operations import Operation, Statement


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'responses.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.shared_database() as database:
        yield database


def end_leases() -> Operation[None]:
    """The other gateway need not wait for that."""
    yield Statement("UPDATE batch_gateways SET held_until = 0")


async def test_each_line_is_in_the_output_once_also_if_a_gateway_is_killed(engine: MockEngine, url: str) -> None:
    doors = Doors(engine)
    names = [f"q{number}" for number in range(12)]
    async with served("--upstream", engine.url, "--port", "0", ANTIPHON_STORE=url) as (process, ready):
        client = openai.AsyncOpenAI(base_url=ready.split()[-1], api_key="none")
        made = await batches.begin(client, [line(name) for name in names])
        doors.open(3)
        await until(lambda: len(engine.requests) == 7 and doors.waiting == 4)
        process.kill()
        await process.wait()
        await client.close()
    await until(lambda: doors.waiting == 0)
    doors.open(100)
    async with open_store(url) as store:
        await store.files.database.write(end_leases())
    async with running_gateway(engine, store=url) as gateway, sdk(gateway) as client:
        batch = await batches.ended(client, made.id)
        out = await batches.outputs(client, batch)
    assert sorted(each["custom_id"] for each in out) == sorted(names)
    assert (batch.status, batch.error_file_id) == ("completed", None)
    # Four ran when it was killed. What had been recorded by then was not run again.
    assert len(engine.requests) <= 12 + 4 + 3


async def test_lines_that_begin_alike_follow_one_another_at_one_engine() -> None:
    instructions = ["a" * 50, "b" * 50, "c" * 50, "d" * 50]
    lines = [
        line(str(at), {"model": "mock", "instructions": instructions[at % 4], "input": f"question {at}"}) for at in range(64)
    ]
    async with started(MockEngine()) as one, started(MockEngine()) as two:
        one.otherwise = two.otherwise = lambda body: text("done")
        places = BatchSettings(engine_places=2)
        async with running_gateway(one, two, engine_load_bound=100, batches=places) as gateway, sdk(gateway) as client:
            assert (await batches.run(client, lines)).status == "completed"
        seen = [[request["messages"][0]["content"] for request in engine.requests] for engine in (one, two)]
    assert sum(map(len, seen)) == 64
    # Each beginning is at one engine, and stays there until it is through: lines that run at once may pass one another.
    for beginning in instructions:
        assert sorted(engine.count(beginning) for engine in seen) == [0, 16]
    changes = sum(len(list(groupby(engine))) for engine in seen)
    assert changes <= 4 + 4
