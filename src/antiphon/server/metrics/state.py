"""What is read when the metrics are asked for: the state of the gateway at that moment."""

from typing import NamedTuple

from antiphon.engines.upstream import Engine
from antiphon.gateway.runs.gateway import Gateway
from antiphon.store.files.batch_lines import LineCounts
from antiphon.store.records import JobCounts


class EngineState(NamedTuple):
    url: str
    dialect: str
    version: str
    up: bool
    running: int
    waiting: int
    # What the engine reports of itself; None: it does not.
    own_running: int | None = None
    own_waiting: int | None = None
    cache_usage: float | None = None


class GatewayState(NamedTuple):
    version: str
    engines: tuple[EngineState, ...] = ()
    websockets: int = 0
    store_up: bool = False
    # None: the store did not say.
    jobs: JobCounts | None = None
    # The same of lines of batches.
    lines: LineCounts | None = None


def engine_states(gateway: Gateway) -> tuple[EngineState, ...]:
    """One for each address: two engines at the same one, with other credentials, would be the same series."""
    return tuple({engine.root: _state(engine, gateway) for engine in gateway.pool.engines}.values())


def _state(engine: Engine, gateway: Gateway) -> EngineState:
    queue = gateway.admission.engines.queue(engine)
    version, waiting = engine.version or "", gateway.admission.engines.waiting(engine)
    report = gateway.pool.loads.report_of(engine)
    own = (report.running, report.waiting, report.cache_usage) if report is not None else (None, None, None)
    return EngineState(engine.root, engine.dialect.name, version, engine.up, queue.running, waiting, *own)


# The metric, what it says, and the member of the state.
OF_ENGINES = (
    ("up", "Whether the engine answers: 1 or 0.", "up"),
    ("running", "Requests of this gateway that the engine has now.", "running"),
    ("waiting", "Requests that wait for the engine, without those of background responses.", "waiting"),
    ("reported_running", "Requests that the engine processes, from anybody, by its own count.", "own_running"),
    ("reported_waiting", "Requests that wait in the engine, from anybody, by its own count.", "own_waiting"),
    ("reported_cache_usage", "The share of its cache that the engine uses, by its own count: 0 to 1.", "cache_usage"),
)
