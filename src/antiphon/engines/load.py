"""How busy the engines are: by what this gateway has sent them, and by what they report of themselves.

What an engine reports includes the requests of others, such as other gateways, but it is as old as the last look. So only the
others are taken from it: all that it had, without those that this gateway had there then. Our own count as they are now.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from msgspec import Struct, field

from antiphon.core.knowledge.dialect import Dialect, LoadSource
from antiphon.engines.upstream import Engine
from antiphon.errors import UNREADABLE, ApiError

# Seconds between two looks at an engine, and seconds that its answer may take.
LOAD_INTERVAL = 2.0
LOAD_TIMEOUT = 2.0


class LoadReport(Struct, frozen=True):
    """What an engine reports of itself."""

    running: int
    waiting: int = 0
    # From 0 to 1; None: it does not say.
    cache_usage: float | None = None
    # The requests of others that it had then.
    others: int = 0


class _Source(Struct):
    """Where one engine is looked at, as long as it is of this dialect."""

    dialect: Dialect
    left: list[LoadSource] = field(default_factory=list)
    report: LoadReport | None = None


class EngineLoads:
    def __init__(self) -> None:
        # How many requests this gateway has at an engine.
        self.in_flight: Callable[[Engine], int] = lambda engine: 0
        self._sources: WeakKeyDictionary[Engine, _Source] = WeakKeyDictionary()

    def load_of(self, engine: Engine) -> int:
        """How many requests the engine has now, as far as it is known."""
        report = self.report_of(engine)
        return self.in_flight(engine) + (report.others if report is not None else 0)

    def report_of(self, engine: Engine) -> LoadReport | None:
        """None: it reports nothing, or is not looked at."""
        source = self._sources.get(engine)
        return source.report if source is not None else None

    async def watch(self, engines: Callable[[], Sequence[Engine]], interval: float = LOAD_INTERVAL) -> None:
        """Looks at the engines now and then, if there are several to choose from."""
        while True:
            await asyncio.sleep(interval)
            if len(engines()) > 1:
                await self.look(engine for engine in engines() if engine.ready)

    async def look(self, engines: Iterable[Engine]) -> None:
        await asyncio.gather(*map(self._look_at, engines))

    async def _look_at(self, engine: Engine) -> None:
        source = self._sources.get(engine)
        if source is None or source.dialect is not engine.dialect:
            source = self._sources[engine] = _Source(engine.dialect, list(engine.dialect.load))
        while source.left:
            before = self.in_flight(engine)
            try:
                status, body = await engine.look(source.left[0].path, LOAD_TIMEOUT)
                report = read_load(body, source.left[0], before) if status == 200 else None
            except (TimeoutError, aiohttp.ClientError, OSError):
                # It may be busy, or gone: it is looked at again.
                source.report = None
                return
            except (ApiError, ValueError, IndexError, *UNREADABLE):
                report = None
            source.report = report
            if report is not None:
                return
            # It does not report it there, and it would not do so later.
            source.left.pop(0)


def read_load(body: bytes, source: LoadSource, ours: int = 0) -> LoadReport | None:
    """`ours`: the requests of this gateway among them. None: it is not in there."""
    if source.is_list:
        slots = msgspec.json.decode(body, type=list[dict[str, object]])
        running = sum(slot.get(source.running) is True for slot in slots)
        return LoadReport(running, others=max(0, running - ours))
    metrics = _read_metrics(body.decode(), {source.running, source.waiting, *source.cache_usage})
    if source.running not in metrics:
        return None
    running, waiting = int(sum(metrics[source.running])), int(sum(metrics.get(source.waiting or "", ())))
    usages = next((metrics[name] for name in source.cache_usage if name in metrics), None)
    return LoadReport(running, waiting, max(usages) if usages else None, max(0, running + waiting - ours))


def _read_metrics(text: str, names: set[str | None]) -> dict[str, list[float]]:
    """The values of these metrics, from Prometheus' text format: name{labels} value, or name value."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in names:
            # Labels may contain spaces, and a time may follow the value.
            values = line[len(name) :].rpartition("}")[2].split()
            found.setdefault(name, []).append(float(values[0]))
    return found


# ---- In which order the engines are tried for a request: consistent hashing with bounded loads -----------------------
# Each key has an order of the engines of its own, by rendezvous hashing: all gateways find the same one, and an engine that
# goes moves nobody's keys but its own. The first engine in that order gets the request, unless it has no free slot and more
# than its share of all requests: then the next one that is not so busy. So a key that many clients use cannot drown one
# engine, and a key whose engine was busy for a moment returns to it. (Mirrokni, Thorup, Zadimoghaddam: Consistent Hashing
# with Bounded Loads.)


class PlacementOptions(Struct, frozen=True):
    # The requests of a conversation are sent to one engine. False: each is sent to the engine that is least busy.
    affinity: bool = True
    # How many times its share of the requests an engine may have before others are preferred.
    load_bound: float = 1.25
    # The key of a conversation is sent to the engine, for a router in its place.
    sends_key: bool = True


DEFAULT_PLACEMENT = PlacementOptions()


def order_of(key: str, names: Sequence[str], loads: Sequence[int], rooms: Sequence[int], bound: float) -> list[int]:
    """The engines by their index, the best for this key first. Those above the bound come last, the least busy first. `rooms`:
    how many requests each of them processes at once; with fewer it is never above the bound."""
    most = most_requests(loads, bound)
    preferred = sorted(range(len(names)), key=lambda at: _rendezvous(key, names[at]), reverse=True)
    return sorted(preferred, key=lambda at: 0 if loads[at] < max(most, rooms[at]) else loads[at])


def least_busy(loads: Sequence[int], first: int) -> list[int]:
    """Without a key: the engines by their index, the least busy first. Of equally busy ones, `first` comes first."""
    count = len(loads)
    return sorted(range(count), key=lambda at: (loads[at], (at - first) % count))


def most_requests(loads: Sequence[int], bound: float) -> int:
    """How many requests an engine may have with one more: its share of all of them, times the bound. Two more than the least
    busy one has are always allowed: among few requests a share says nothing, and a cold cache costs more."""
    return max(math.ceil(bound * (sum(loads) + 1) / len(loads)), min(loads) + 2)


def _rendezvous(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
