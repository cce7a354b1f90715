"""The rows of the table: which load, on which subjects, and the figures that are read from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from bench.native import Load, Measured
from bench.requests import Api, Asked, Kind

BESIDE = "beside"
COLUMNS = "nginx", "proxy", "antiphon", "litellm"


class Size(NamedTuple):
    """How long things take: seconds of a window, and the part of the requests."""

    window: float = 3.0
    part: float = 1.0


QUICK = Size(1.5, 0.4)


class Figure(NamedTuple):
    title: str
    unit: str
    value: Callable[[Measured], float]
    # Of a rate, more is better.
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    load: Callable[[Size], Load]
    figures: tuple[Figure, ...]
    # Column → subject. A column that is missing here is taken from the scenario `beside`.
    subjects: tuple[tuple[str, str], ...] = tuple(zip(COLUMNS, COLUMNS, strict=True))
    beside: str | None = None
    # What LiteLLM gets in place of the load; None: it is not measured.
    lighter: Callable[[Load], Load] | None = lambda load: load
    # By which API the subjects are asked, if not by their own.
    api: Api | None = None


# ---- loads -----------------------------------------------------------------------------------------------------------


def paced(kind: Kind, streams: int, rate: int) -> Callable[[Size], Load]:
    """So many streams at once, each with so many deltas a second. The window begins once all run, and none ends within it."""

    def load(size: Size) -> Load:
        ramp = max(0.5, streams / 250)
        begin = ramp + 1.0
        end = begin + size.window
        asked = Asked(kind, 1000 // rate, round((end + 0.4) * rate))
        return Load(asked, streams, streams, streams / ramp, begin, end, limit=60 + 3 * end)

    return load


def closed(asked: Asked, requests: int, connections: int = 16) -> Callable[[Size], Load]:
    """Each connection asks again as soon as it has its answer."""

    def load(size: Size) -> Load:
        measured = max(connections, round(requests * size.part))
        return Load(asked, connections, measured + 2 * connections, warm=2 * connections)

    return load


def steady(asked: Asked, rate: int, connections: int) -> Callable[[Size], Load]:
    """So many requests a second, over connections in turn. Unlike a closed loop, it gives each worker the work of its
    connections: there, a worker that answers sooner is asked more."""

    def load(size: Size) -> Load:
        begin = 1.0
        end = begin + size.window
        return Load(asked, connections, round(rate * (end + 0.2)), rate, begin, end)

    return load


def arriving(rate: int) -> Callable[[Size], Load]:
    """Streams of 16 deltas, so many new ones a second, whether or not those before have ended."""

    def load(size: Size) -> Load:
        return Load(Asked(interval=1, deltas=16), 4000, round(rate * size.window), rate, limit=60)

    return load


def fewer_streams(load: Load) -> Load:
    streams = max(10, load.connections // 20)
    ramp = load.connections / load.rate
    return replace(load, connections=streams, requests=streams, rate=streams / ramp)


def fewer_requests(load: Load) -> Load:
    connections = min(4, load.connections)
    warm = 2 * connections
    return replace(load, connections=connections, warm=warm, requests=warm + max(20, (load.requests - load.warm) // 25))


def fewer_deltas(load: Load) -> Load:
    lighter = replace(load, connections=2, warm=2, requests=6)
    return replace(lighter, asked=replace(load.asked, deltas=min(500, load.asked.deltas)))


# ---- figures ---------------------------------------------------------------------------------------------------------

CPU_PER_DELTA = Figure("CPU per delta", "µs", lambda found: 1e6 * found.cpu / found.deltas)
CPU_PER_REQUEST = Figure("CPU per request", "ms", lambda found: 1e3 * found.cpu / found.completed)
LATENCY = (
    Figure("latency, p50", "ms", lambda found: 1e3 * found.latency.whole.p50),
    Figure("latency, p99", "ms", lambda found: 1e3 * found.latency.whole.p99),
)
FIRST_EVENT = (
    Figure("first event, p50", "ms", lambda found: 1e3 * found.latency.first_event.p50),
    Figure("first event, p99", "ms", lambda found: 1e3 * found.latency.first_event.p99),
)
FIRST_DELTA = Figure("first delta, p50", "ms", lambda found: 1e3 * found.latency.first_delta.p50)
DELTAS_A_SECOND = Figure("deltas a second", "1/s", lambda found: found.deltas / found.seconds, more_is_better=True)
SPLIT = Figure("share of the busier worker", "%", lambda found: 100 * found.split)

# ---- the rows --------------------------------------------------------------------------------------------------------

WHOLE = Asked(stream=False, deltas=1)
STREAM = Asked(interval=1, deltas=16)


def _paced(name: str, kind: Kind, streams: int, rate: int, words: str) -> Scenario:
    title = f"{streams:,} streams × {rate}/s, {words}"
    return Scenario(name, title, paced(kind, streams, rate), (CPU_PER_DELTA,), lighter=fewer_streams)


def _requests(name: str, title: str, asked: Asked, requests: int, *figures: Figure, connections: int = 16) -> Scenario:
    return Scenario(name, title, closed(asked, requests, connections), figures, lighter=fewer_requests)


def _flat_out(name: str, title: str, deltas: int, requests: int, connections: int, *figures: Figure) -> Scenario:
    scenario = _requests(name, title, Asked(deltas=deltas), requests, *figures, connections=connections)
    # A hundred thousand deltas would take it minutes.
    return replace(scenario, lighter=fewer_deltas if deltas <= 2000 else None)


def _variant(of: Scenario, name: str, title: str, subject: str, *more: Figure, store: bool = True) -> Scenario:
    """Antiphon with another setting, beside what the others took."""

    def load(size: Size) -> Load:
        same = of.load(size)
        return replace(same, asked=replace(same.asked, store=store))

    return Scenario(name, title, load, (of.figures[0], *more), (("antiphon", subject),), of.name)


def _by_chat(of: Scenario) -> Scenario:
    """Both gateways, asked for what nginx is asked for."""
    subjects = ("antiphon", "antiphon"), ("litellm", "litellm")
    title = f"{of.title}, by Chat Completions"
    return replace(
        of, name=f"{of.name}-chat", title=title, figures=of.figures[:1], subjects=subjects, beside=of.name, api="chat"
    )


def _by_two_workers(of: Scenario) -> Scenario:
    """Each of the two has as much to do as the one of the row with SQLite: who has less sleeps and wakes for each request, and
    writes fewer responses at once."""

    def load(size: Size) -> Load:
        one = of.load(size)
        return replace(one, connections=2 * one.connections, warm=2 * one.warm, requests=2 * one.requests)

    title = f"{of.title}, SQLite, two workers, twice the connections"
    return Scenario(f"{of.name}-two", title, load, (CPU_PER_REQUEST,), TWO_WORKERS, of.name)


TEXT = _paced("text-1000", "text", 1000, 10, "text")
REQUEST = _requests("whole", "whole answer", WHOLE, 2000, CPU_PER_REQUEST, *LATENCY)
SHORT = _requests("stream", "stream of 16 deltas", STREAM, 1500, CPU_PER_REQUEST, *LATENCY)
# As Codex sends it: it stores nothing.
HISTORY = _requests(
    "history",
    "history of 200 items, 300 KB, `store: false`",
    Asked(deltas=1, history=True, store=False),
    100,
    CPU_PER_REQUEST,
    connections=4,
)
TWO_WORKERS = (("antiphon", "two workers"),)
# The system spreads connections over workers by chance: with few of them, one worker may get most.
WIDE = Scenario(
    "whole-200-two",
    "whole answer, SQLite, 400/s over 200 connections, two workers",
    steady(WHOLE, 400, connections=200),
    (SPLIT,),
    TWO_WORKERS,
)

SCENARIOS: tuple[Scenario, ...] = (
    TEXT,
    _paced("reasoning", "reasoning", 1000, 10, "`reasoning_content`"),
    _paced("think", "think", 1000, 10, "`<think>`"),
    _paced("calls", "calls", 1000, 10, "arguments of calls"),
    _paced("text-2000", "text", 2000, 5, "text"),
    _paced("text-100", "text", 100, 50, "text"),
    _paced("text-10", "text", 10, 50, "text"),
    _by_chat(TEXT),
    _flat_out("flat-out", "64 streams at once, flat out", 2000, 128, 64, DELTAS_A_SECOND, CPU_PER_DELTA),
    _flat_out("long-10", "response of 10 deltas, flat out", 10, 1500, 4, CPU_PER_DELTA),
    _flat_out("long-1000", "response of 1,000 deltas, flat out", 1000, 200, 4, CPU_PER_DELTA),
    _flat_out("long-100000", "response of 100,000 deltas, flat out", 100_000, 2, 1, CPU_PER_DELTA),
    REQUEST,
    _variant(REQUEST, "whole-sqlite", "whole answer, SQLite", "sqlite"),
    _variant(REQUEST, "whole-unstored", "whole answer, `store: false`", "antiphon", store=False),
    _variant(REQUEST, "whole-no-inspector", "whole answer, without inspector", "no inspector"),
    _variant(REQUEST, "whole-recording", "whole answer, inspector records all", "recording all"),
    _variant(REQUEST, "whole-no-metrics", "whole answer, without metrics", "no metrics"),
    _by_two_workers(REQUEST),
    WIDE,
    _by_chat(REQUEST),
    SHORT,
    _variant(SHORT, "stream-sqlite", "stream of 16 deltas, SQLite", "sqlite"),
    _by_two_workers(SHORT),
    HISTORY,
    _variant(HISTORY, "history-stored", "history of 200 items, 300 KB, stored", "antiphon"),
    _requests("lone", "one request at a time", Asked(deltas=16), 500, FIRST_EVENT[0], FIRST_DELTA, connections=1),
    *(
        Scenario(
            f"arriving-{rate}",
            f"{rate:,} new streams a second",
            arriving(rate),
            FIRST_EVENT,
            lighter=(lambda load: replace(load, rate=10, requests=30)) if rate == 100 else None,
        )
        for rate in (100, 300, 600)
    ),
)
