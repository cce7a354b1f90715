"""An index that finds nearly all of the nearest vectors without comparing all of them. It needs usearch (extra `search`)."""

import threading
from importlib.util import find_spec
from typing import Any

import numpy

from antiphon.files.vector_stores.search.vectors import Floats, Numbers, VectorTable

# Rows that are added at once: between two of these it can be stopped.
ROWS_AT_ONCE = 2048
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
        for at in range(0, len(where), ROWS_AT_ONCE):
            if stop.is_set():
                raise Stopped
            rows = where[at : at + ROWS_AT_ONCE]
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
