"""What the gateway does with its store beside its requests."""

import asyncio
from pathlib import Path

from support.stores import Clock, put_as_before, record

from antiphon.gateway.state.housekeeping import StoreLimits, sweep_store
from antiphon.store.files.opened import files_in_memory
from antiphon.store.sql import item_index
from antiphon.store.sql.schema import MIGRATIONS
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite.database import open_sqlite
from antiphon.store.wakeups import Wakeups


async def test_an_older_database_is_indexed_at_the_first_start(tmp_path: Path) -> None:
    path, clock = str(tmp_path / "responses.db"), Clock()
    async with open_sqlite(path, Wakeups(), clock, migrations=MIGRATIONS[:3]) as database:
        for number in range(120):
            await database.write(put_as_before(record(f"r{number}")))
    async with open_sqlite(path, Wakeups(), clock) as database:
        sweeping = asyncio.create_task(sweep_store(SqlStore(database, files_in_memory()), StoreLimits(10**9, usage_days=1)))
        while await database.read(item_index.has_unindexed("ada")):
            # Others can write meanwhile.
            await database.put(record(f"new{clock.now}"))
            clock.forward(1)
        found = await database.read(item_index.find("ada", ["out_r0", "out_r119"], clock.now))
        assert found.keys() == {"out_r0", "out_r119"}
        sweeping.cancel()
