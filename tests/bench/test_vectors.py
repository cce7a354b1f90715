"""What the script counts that measures the indexes of vectors, and what it builds."""

from pathlib import Path

import numpy
import pytest
from support.postgres import programs_with_pgvector
from support.programs import Missing, leave_out

from antiphon.files.vector_stores.search.vectors import Floats, Near, VectorTable, vector_to_bytes
from antiphon.store import open_store
from antiphon.store.files import chunks
from antiphon.store.files.chunks import VectorRow
from bench.search.vector_databases import (
    ASKED,
    SHARES,
    SHOWN,
    exact_answers,
    generated,
    in_postgres,
    in_sqlite,
    read_table,
    write,
)
from bench.search.vectors import Tables, measure


def table(number: int) -> VectorTable:
    rows = [(file, vector) for file, vectors in generated(number) for vector in vectors]
    return VectorTable.of_rows([VectorRow(at, file, vector_to_bytes(row)) for at, (file, row) in enumerate(rows)])


async def test_recall_is_the_share_of_what_an_exact_search_finds() -> None:
    exact = table(2_000)

    async def every_second(query: Floats, files: object) -> list[Near]:
        (found,) = exact.nearest(query[numpy.newaxis], ASKED)
        return found[::2]

    recall = await measure(every_second, exact_answers(exact)["none"], None)
    assert (recall.of_shown, recall.of_asked) == (SHOWN // 2 / SHOWN, 0.5)


async def test_the_gateway_compares_all_that_a_filter_lets_through(tmp_path: Path) -> None:
    async with in_sqlite(tmp_path, 3_000) as built:
        shares = {name: share for name, share in SHARES.items() if share is not None}
        recalls = [await measure(built.search, built.exact[name], share) for name, share in shares.items()]
    assert {(recall.of_shown, recall.of_asked) for recall in recalls} == {(1.0, 1.0)}


async def test_what_is_there_is_not_written_again() -> None:
    async with open_store("memory:") as store:
        database = store.files.database
        first = await write(database, 1_000, chunks.PUT_VECTOR, lambda: None)
        more = await write(database, 2_100, chunks.PUT_VECTOR, lambda: None)
        there = await read_table(database)
    assert (first.chunks, more.chunks) == (1_000, 2_100)
    whole = table(2_100)
    assert numpy.array_equal(there.rows, whole.rows)
    assert [list(each.names)[file] for each in (there, whole) for file in each.files[[0, 1_050, -1]]] == [
        "file-0",
        "file-10",
        "file-20",
    ] * 2


async def test_what_was_built_is_only_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for _ in range(2):
        capsys.readouterr()
        async with in_sqlite(tmp_path, 2_000) as built:
            tables.append(Tables(times=False))
            await tables[-1].add(built, 2_000)
    assert tables[0].found == tables[1].found
    assert tables[0].built == tables[1].built
    assert "indexed" not in capsys.readouterr().out


@pytest.mark.slow
async def test_pgvector_searches_what_was_built_before(tmp_path: Path) -> None:
    try:
        programs_with_pgvector()
    except Missing as reason:
        leave_out(str(reason))
    # The user of Postgres goes through them.
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    recalls = []
    for _ in range(2):
        async with in_postgres(tmp_path, 12_000) as built:
            recalls.append(await measure(built.search, built.exact["none"], None))
            assert built.index_bytes > 0
    assert all(recall.of_shown > 0.9 for recall in recalls)
