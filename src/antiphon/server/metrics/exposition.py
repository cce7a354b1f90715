"""The metrics in the text that Prometheus reads. Imported when they are first asked for: many gateways never are."""

from collections.abc import Iterable, Iterator
from math import inf

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from antiphon.server.metrics.instruments import AnyInstrument, Counter, Histogram
from antiphon.server.metrics.state import OF_ENGINES, GatewayState


class Exposition(Collector):
    def __init__(self, instruments: Iterable[AnyInstrument], state: GatewayState | None = None) -> None:
        self._instruments = instruments
        self._state = state

    def collect(self) -> Iterator[Metric]:
        yield from map(_counted, self._instruments)
        if self._state is not None:
            yield from _of_state(self._state)


def to_registry(instruments: Iterable[AnyInstrument], state: GatewayState | None = None) -> CollectorRegistry:
    registry = CollectorRegistry()
    # CPU, memory and open files, from a few lines of /proc.
    ProcessCollector(registry=registry)
    registry.register(Exposition(instruments, state))
    return registry


def expose(instruments: Iterable[AnyInstrument], state: GatewayState) -> bytes:
    return generate_latest(to_registry(instruments, state))


def _counted(instrument: AnyInstrument) -> Metric:
    if isinstance(instrument, Histogram):
        return _histogram(instrument)
    make = CounterMetricFamily if isinstance(instrument, Counter) else GaugeMetricFamily
    family = make(instrument.name, instrument.help, labels=instrument.label_names)
    for values, series in instrument.all_series():
        family.add_metric(values, series.value)
    return family


def _histogram(instrument: Histogram) -> HistogramMetricFamily:
    family = HistogramMetricFamily(instrument.name, instrument.help, labels=instrument.label_names)
    names = [floatToGoString(bound) for bound in (*instrument.bounds, inf)]  # type: ignore[no-untyped-call]
    for values, series in instrument.all_series():
        total, buckets = 0, []
        for name, count in zip(names, series.counts, strict=True):
            total += count
            buckets.append((name, float(total)))
        family.add_metric(values, buckets, series.sum)
    return family


def _of_state(state: GatewayState) -> Iterator[GaugeMetricFamily]:
    engines = state.engines
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
    lines = [((name,), count) for name, count in state.lines._asdict().items()] if state.lines is not None else []
    yield _gauge(
        "batch_lines",
        "Lines of batches that are not done, of all gateways on the store: waiting, running.",
        ("state",),
        lines,
    )


def _gauge(
    name: str, help: str, labels: tuple[str, ...], samples: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"antiphon_{name}", help, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family
