"""Measures how much of what an exact search finds the indexes of vectors find, and writes tables of docs/file_search.md.

`PYTHONPATH=tests python -m bench.search.vectors --write`, with `--chunks 100000 1000000` for a million, too. With
`--folder FOLDER` the databases stay: `--build` builds them and ends, and continues what was killed; later calls only search.
`--times` adds how long searches take, on a machine that does nothing else.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from antiphon.files.vector_stores.search.vectors import Near, Numbers
from bench.retrieval import PAGE, rewritten
from bench.search.vector_databases import (
    ASKED,
    QUERIES,
    SHARES,
    SHOWN,
    Built,
    Search,
    files_of,
    in_postgres,
    in_sqlite,
    queries,
)

Open: TypeAlias = Callable[[Path, int], AbstractAsyncContextManager[Built]]
DATABASES: dict[str, Open] = {"sqlite": in_sqlite, "pgvector": in_postgres}


class Recall(Struct, frozen=True):
    """The shares of what is found of what an exact search finds. Times in milliseconds."""

    of_shown: float
    of_asked: float
    p50: float
    p95: float


async def measure(search: Search, exact: Numbers, share: float | None) -> Recall:
    shown, asked, durations = [], [], []
    files = files_of(share)
    for query, nearest in zip(queries(), exact, strict=True):
        begun = time.perf_counter()
        found = await search(query, files)
        durations.append(1000 * (time.perf_counter() - begun))
        shown.append(_share(nearest[:SHOWN], found[:SHOWN]))
        asked.append(_share(nearest, found))
    durations.sort()
    return Recall(sum(shown) / QUERIES, sum(asked) / QUERIES, durations[QUERIES // 2], durations[QUERIES * 95 // 100])


def _share(exact: Numbers, found: Sequence[Near]) -> float:
    return len(set(exact.tolist()) & {near.id for near in found}) / len(exact)


# ---- the tables ------------------------------------------------------------------------------------------------------


class Tables:
    """`times`: also how long searches take, once each of them has been made: what they read is in memory then."""

    def __init__(self, *, times: bool) -> None:
        self._times = times
        columns = ["database", "chunks", "filter", f"the first {SHOWN}", f"all {ASKED}", *(["p50", "p95"] if times else [])]
        self.found = [_line(columns), _line(["---"] * len(columns))]
        columns = ["database", "chunks", "written in", "indexed in", "vectors", "index"]
        self.built = [_line(columns), _line(["---"] * len(columns))]

    async def add(self, built: Built, number: int) -> None:
        costs = [f"{built.costs.written:,.0f} s", f"{built.costs.indexed:,.0f} s"]
        sizes = [f"{size / 1e6:,.0f} MB" for size in (built.vectors_bytes, built.index_bytes)]
        self.built.append(_line([built.name, f"{number:,}", *costs, *sizes]))
        print(self.built[-1], flush=True)
        for name, share in SHARES.items():
            recall = await measure(built.search, built.exact[name], share)
            if self._times:
                recall = await measure(built.search, built.exact[name], share)
            cells = [built.name, f"{number:,}", name, f"{recall.of_shown:.3f}", f"{recall.of_asked:.3f}"]
            cells += [f"{recall.p50:.0f} ms", f"{recall.p95:.0f} ms"] if self._times else []
            self.found.append(_line(cells))
            print(self.found[-1], flush=True)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


async def run(folder: Path, chosen: argparse.Namespace) -> Tables:
    tables = Tables(times=chosen.times)
    for number in chosen.chunks:
        for name in chosen.database or DATABASES:
            async with DATABASES[name](folder, number) as built:
                if not chosen.build:
                    await tables.add(built, number)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what the indexes of vectors find of what an exact search finds.")
    parser.add_argument("--chunks", type=int, nargs="+", default=[100_000])
    parser.add_argument("--database", choices=list(DATABASES), action="append", help="only this one")
    parser.add_argument("--folder", type=Path, help="keeps what is built, for later calls")
    parser.add_argument("--build", action="store_true", help="build what is not there yet, and end")
    parser.add_argument("--times", action="store_true", help="also how long it takes")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/file_search.md")
    chosen = parser.parse_args()
    if chosen.build and chosen.folder is None:
        parser.error("--build needs --folder")
    with tempfile.TemporaryDirectory() as temporary:
        # The user of Postgres goes through it.
        Path(temporary).chmod(0o755)
        tables = asyncio.run(run(chosen.folder or Path(temporary), chosen))
    if chosen.write:
        page = rewritten(PAGE.read_text(encoding="utf-8"), "vectors", "\n".join(tables.found))
        PAGE.write_text(rewritten(page, "indexes", "\n".join(tables.built)), encoding="utf-8")


if __name__ == "__main__":
    main()
