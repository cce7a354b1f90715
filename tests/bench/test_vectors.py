"""What the script counts that measures the indexes of vectors."""

import numpy

from antiphon.files.vector_stores.search.vectors import Floats, Near, VectorTable, vector_to_bytes
from antiphon.store.files.chunks import VectorRow
from bench.search.vectors import ASKED, SHARES, SHOWN, generated, in_sqlite, measure


def table(number: int) -> VectorTable:
    rows = [(file, vector) for file, vectors in generated(number) for vector in vectors]
    return VectorTable.of_rows([VectorRow(at, file, vector_to_bytes(row)) for at, (file, row) in enumerate(rows)])


async def test_recall_is_the_share_of_what_an_exact_search_finds() -> None:
    exact = table(2_000)

    async def every_second(query: Floats, files: object) -> list[Near]:
        (found,) = exact.nearest(query[numpy.newaxis], ASKED)
        return found[::2]

    recall = await measure(every_second, exact, None)
    assert (recall.of_shown, recall.of_asked) == (SHOWN // 2 / SHOWN, 0.5)


async def test_the_gateway_compares_all_that_a_filter_lets_through() -> None:
    async with in_sqlite(3_000) as measured:
        recalls = [await measure(measured.search, measured.table, share) for share in SHARES.values() if share is not None]
    assert {(recall.of_shown, recall.of_asked) for recall in recalls} == {(1.0, 1.0)}
