"""Vectors as they are stored, and many of them compared with a few: all of them, or, by an index that needs usearch (extra
`search`), nearly all of the nearest."""

import threading
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import numpy
from msgspec import Struct
from numpy.typing import NDArray

from antiphon.store.files.chunks import VectorRow

Floats: TypeAlias = NDArray[numpy.float32]
Bytes: TypeAlias = NDArray[numpy.int8]
Numbers: TypeAlias = NDArray[numpy.int64]

# The scale before the bytes of a stored vector.
SCALE = numpy.dtype("<f4")
# Rows that are compared at once: with their copy as floats they stay in the processor's cache.
ROWS_AT_ONCE = 1024


class Near(NamedTuple):
    id: int
    # The cosine.
    similarity: float


def vector_to_bytes(vector: Floats) -> bytes:
    """A byte for each number, and a scale. A cosine differs by less than a hundredth; it takes a quarter of the space."""
    scale = float(numpy.abs(vector).max(initial=0.0)) / 127 or 1.0
    data: bytes = numpy.array(scale, SCALE).tobytes() + numpy.rint(vector / scale).astype(numpy.int8).tobytes()
    return data


def bytes_to_vector(data: bytes) -> Floats:
    scale = numpy.frombuffer(data, SCALE, 1)[0]
    vector: Floats = numpy.frombuffer(data, numpy.int8, offset=SCALE.itemsize).astype(numpy.float32) * scale
    return vector


class VectorTable(Struct, frozen=True):
    """The vectors of one model in one store, or a part of them, in the order of their ids."""

    ids: Numbers
    scales: Floats
    rows: Bytes
    # The file of each row, as its place in `names`. Tables that grew from one another share these.
    files: NDArray[numpy.int32]
    names: dict[str, int]

    @classmethod
    def of_rows(cls, rows: Sequence[VectorRow], names: dict[str, int] | None = None) -> "VectorTable":
        """Rows whose length differs from that of the first cannot be compared with it, and are left out."""
        names = {} if names is None else names
        size = len(rows[0].vector) if rows else SCALE.itemsize
        alike = [row for row in rows if len(row.vector) == size]
        data = numpy.frombuffer(b"".join(row.vector for row in alike), numpy.int8).reshape(len(alike), size)
        return cls(
            numpy.array([row.id for row in alike], numpy.int64),
            numpy.ascontiguousarray(data[:, : SCALE.itemsize]).view(SCALE).reshape(len(alike)).astype(numpy.float32),
            data[:, SCALE.itemsize :],
            numpy.array([names.setdefault(row.file, len(names)) for row in alike], numpy.int32),
            names,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def bytes(self) -> int:
        return sum(each.nbytes for each in (self.ids, self.scales, self.rows, self.files))

    @property
    def last(self) -> int:
        """The highest id."""
        return int(self.ids[-1]) if len(self) else 0

    def nearest(self, queries: Floats, most: int, files: Collection[str] | None = None) -> list[list[Near]]:
        """For each query, the rows that are most similar to it, the best first. Exact."""
        return self.nearest_at(queries, most, self._rows_of(files))

    def nearest_at(self, queries: Floats, most: int, where: Numbers | None) -> list[list[Near]]:
        """`where`: the places of the rows that may be found. None: all."""
        if not len(self) or queries.shape[1] != self.rows.shape[1]:
            return [[] for _ in queries]
        return [self._best(self._similarities(query, where), where, most) for query in queries]

    def _rows_of(self, files: Collection[str] | None) -> Numbers | None:
        if files is None:
            return None
        return numpy.flatnonzero(numpy.isin(self.files, [self.names[file] for file in files if file in self.names]))

    def _similarities(self, query: Floats, where: Numbers | None) -> Floats:
        number = len(self) if where is None else len(where)
        result = numpy.empty(number, numpy.float32)
        floats = numpy.empty((min(number, ROWS_AT_ONCE), self.rows.shape[1]), numpy.float32)
        for at in range(0, number, ROWS_AT_ONCE):
            end = min(number, at + ROWS_AT_ONCE)
            rows = self.rows[at:end] if where is None else self.rows[where[at:end]]
            numpy.copyto(floats[: end - at], rows)
            numpy.dot(floats[: end - at], query, out=result[at:end])
        result *= self.scales if where is None else self.scales[where]
        return result

    def _best(self, similarities: Floats, where: Numbers | None, most: int) -> list[Near]:
        best = numpy.arange(len(similarities))
        if len(best) > most:
            # All that are as similar as the last one of the best: which of equals is found must not be left to chance.
            least = numpy.partition(similarities, len(best) - most)[len(best) - most]
            best = numpy.flatnonzero(similarities >= least)
        best = best[numpy.argsort(-similarities[best], kind="stable")][:most]
        rows = best if where is None else where[best]
        return [Near(int(id), float(each)) for id, each in zip(self.ids[rows], similarities[best], strict=True)]


def joined(parts: Sequence[VectorTable]) -> VectorTable:
    """Parts in the order of their ids, that share their names. Rows of another width than the first ones are left out."""
    filled = [part for part in parts if len(part)]
    alike = [part for part in filled if part.rows.shape[1] == filled[0].rows.shape[1]]
    if len(alike) < 2:
        return alike[0] if alike else parts[0]
    return VectorTable(
        numpy.concatenate([part.ids for part in alike]),
        numpy.concatenate([part.scales for part in alike]),
        numpy.concatenate([part.rows for part in alike]),
        numpy.concatenate([part.files for part in alike]),
        alike[0].names,
    )


def merged(parts: Sequence[list[list[Near]]], most: int) -> list[list[Near]]:
    """For each query, the best of all parts."""
    return [
        sorted((near for part in parts for near in part[query]), key=lambda near: (-near.similarity, near.id))[:most]
        for query in range(len(parts[0]) if parts else 0)
    ]


# Rows that are added at once: between two of these it can be stopped.
ADDED_AT_ONCE = 2048
# How many neighbours it looks at: for a vector that is added, which takes most of the time, and for a search of up to 100.
EXPANSION_ADD = 64
EXPANSION_SEARCH = 400


def is_installed() -> bool:
    return find_spec("usearch") is not None


class Stopped(Exception):
    """Nobody wants the index any more."""


class ApproximateIndex:
    """Over a table, which it does not replace: similarities are those of the table."""

    def __init__(self, width: int) -> None:
        from usearch.index import Index

        self._index: Any = Index(
            ndim=width, metric="cos", dtype="i8", expansion_add=EXPANSION_ADD, expansion_search=EXPANSION_SEARCH
        )
        # Of the vectors in it, sorted.
        self.ids: Numbers = numpy.empty(0, numpy.int64)

    @property
    def bytes(self) -> int:
        return int(self._index.memory_usage) + self.ids.nbytes

    def add(self, table: VectorTable, where: Numbers, stop: threading.Event) -> None:
        """Slow. Raises Stopped. Nobody may search meanwhile."""
        for at in range(0, len(where), ADDED_AT_ONCE):
            if stop.is_set():
                raise Stopped
            rows = where[at : at + ADDED_AT_ONCE]
            # One thread: the machine has other work.
            self._index.add(table.ids[rows], numpy.ascontiguousarray(table.rows[rows]), threads=1)
        self.ids = numpy.union1d(self.ids, table.ids[where])

    def nearest(self, query: Floats, most: int) -> Numbers:
        """Their ids."""
        scale = float(numpy.abs(query).max(initial=0.0)) / 127 or 1.0
        found = self._index.search(numpy.rint(query / scale).astype(numpy.int8), most, threads=1)
        return numpy.asarray(found.keys, numpy.int64)


def rows_of(table: VectorTable, ids: Numbers) -> Numbers:
    """Where in the table they are. Those that are not there any more are left out."""
    places = numpy.searchsorted(table.ids, ids)
    places = places[places < len(table)]
    return numpy.unique(places[numpy.isin(table.ids[places], ids)])


def rows_beside(table: VectorTable, index: ApproximateIndex) -> Numbers:
    """Where in the table the vectors are that the index does not have."""
    return numpy.flatnonzero(~numpy.isin(table.ids, index.ids))
