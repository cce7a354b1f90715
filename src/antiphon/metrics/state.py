"""What is read when the metrics are asked for: the state of the gateway at that moment."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from antiphon.engines.upstream import Engine
from antiphon.gateway.gateway import Gateway
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


def engine_states(gateway: Gateway) -> tuple[EngineState, ...]:
    """One for each address: two engines at the same one, with other credentials, would be the same series."""
    return tuple({engine.root: _state(engine, gateway) for engine in gateway.pool.engines}.values())


def _state(engine: Engine, gateway: Gateway) -> EngineState:
    queue = gateway.admission.engine_queue(engine)
    version, waiting = engine.version or "", gateway.admission.waiting(engine)
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


class StateCollector(Collector):
    """`state` is replaced before each reading."""

    def __init__(self, state: GatewayState) -> None:
        self.state = state

    def collect(self) -> Iterator[GaugeMetricFamily]:
        state, engines = self.state, self.state.engines
        yield _gauge("build_info", "The version of the gateway; always 1.", ("version",), [((state.version,), 1)])
        yield _gauge(
            "engine_info",
            "The kind and the version of an engine; always 1.",
            ("engine", "dialect", "version"),
            [((engine.url, engine.dialect, engine.version), 1) for engine in engines],
        )
        for name, help, member in OF_ENGINES:
            values = ((engine.url, getattr(engine, member)) for engine in engines)
            samples = [((url,), value) for url, value in values if value is not None]
            yield _gauge(f"engine_{name}", help, ("engine",), samples)
        yield _gauge("websockets_open", "WebSockets that clients have open.", (), [((), state.websockets)])
        yield _gauge("store_up", "Whether the store answers: 1 or 0.", (), [((), state.store_up)])
        jobs = [((name,), count) for name, count in state.jobs._asdict().items()] if state.jobs is not None else []
        yield _gauge(
            "background_jobs",
            "Background responses that are not finished, of all gateways on the store: waiting, running.",
            ("state",),
            jobs,
        )


def _gauge(
    name: str, help: str, labels: tuple[str, ...], samples: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"antiphon_{name}", help, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family
