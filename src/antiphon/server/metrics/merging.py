"""The metrics of several processes as those of one gateway, in the text that Prometheus reads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

COMMENT, TYPE = b"#", b"# TYPE "


# ---- The metrics of several processes as those of one gateway, in the text that Prometheus reads ---------------------

# Metrics whose values are not added up: each process says the same of what they share, or the whole has the least or the most.
# What an engine says of its own load is the same for all that ask it.
SAID_BY_ENGINES = b"antiphon_engine_load_"
COMBINED: dict[bytes, Callable[[Sequence[float]], float]] = {
    b"antiphon_build_info": max,
    b"antiphon_engine_info": max,
    b"antiphon_engine_up": max,
    b"antiphon_store_up": min,
    b"antiphon_background_jobs": max,
    b"antiphon_batch_lines": max,
    b"process_start_time_seconds": min,
    b"process_max_fds": max,
}
# What only ever rises: what a process has counted stays true when it has ended.
RISING = (b"counter", b"histogram")


class Family(NamedTuple):
    """One metric: its comments, and its values by series."""

    name: bytes
    kind: bytes
    comments: list[bytes]
    series: dict[bytes, list[float]]


def merge(texts: Iterable[bytes]) -> bytes:
    """Counts and histograms added up, other values combined as each of them needs."""
    return b"".join(_to_lines(_read(texts).values()))


def merge_departed(*texts: bytes) -> bytes:
    """What has to be added to the metrics of processes that run, so that no count ever falls when a process ends."""
    return b"".join(_to_lines(family for family in _read(texts).values() if family.kind in RISING))


def _read(texts: Iterable[bytes]) -> dict[bytes, Family]:
    families: dict[bytes, Family] = {}
    for text in texts:
        comments: list[bytes] = []
        family: Family | None = None
        for line in text.splitlines():
            if line.startswith(TYPE):
                name, _, kind = line.removeprefix(TYPE).partition(b" ")
                family = families.setdefault(name, Family(name, kind, [*comments, line], {}))
                comments = []
            elif line.startswith(COMMENT):
                comments.append(line)
            elif line and family is not None:
                series, _, value = line.rpartition(b" ")
                family.series.setdefault(series, []).append(float(value))
    return families


def _to_lines(families: Iterable[Family]) -> Iterator[bytes]:
    for family in families:
        combine = COMBINED.get(family.name, max if family.name.startswith(SAID_BY_ENGINES) else sum)
        yield from (comment + b"\n" for comment in family.comments)
        yield from (b"%s %r\n" % (series, float(combine(values))) for series, values in family.series.items())
