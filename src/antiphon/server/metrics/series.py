"""Counters, gauges and histograms that are counted on the event loop only.

Those of prometheus_client take a lock and four calls for each count, because any thread may count with them. Here a count is
one addition to a number. What `exposition.py` shows is the same; a thread may read it.
"""

from bisect import bisect_left
from typing import Generic, TypeVar


class Amount:
    """One series of a counter or a gauge: add to its `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Distribution:
    """One series of a histogram."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        # Of each bucket by itself; the last one has no bound.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


S = TypeVar("S", Amount, Distribution)


class Instrument(Generic[S]):
    """One metric: its series, by the values of its labels."""

    def __init__(self, name: str, help: str, label_names: tuple[str, ...]) -> None:
        self.name = name
        self.help = help
        self.label_names = label_names
        self._series: dict[tuple[str, ...], S] = {}
        if not label_names:
            # It is shown before anything is counted.
            self.labels()

    def _make(self) -> S:
        raise NotImplementedError

    def labels(self, *values: str) -> S:
        series = self._series.get(values)
        if series is None:
            assert len(values) == len(self.label_names)
            series = self._series[values] = self._make()
        return series

    def all_series(self) -> list[tuple[tuple[str, ...], S]]:
        """A copy: others may be added while a thread reads."""
        return list(self._series.items())


class Counter(Instrument[Amount]):
    def _make(self) -> Amount:
        return Amount()


class Gauge(Instrument[Amount]):
    def _make(self) -> Amount:
        return Amount()


class Histogram(Instrument[Distribution]):
    def __init__(self, name: str, help: str, label_names: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        super().__init__(name, help, label_names)

    def _make(self) -> Distribution:
        return Distribution(self.bounds)


AnyInstrument = Counter | Gauge | Histogram
