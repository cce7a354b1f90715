"""Our own counters beside those of prometheus_client: what is exposed is the same."""

import random
from typing import Any

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from antiphon.server.metrics.exposition import Exposition
from antiphon.server.metrics.instruments import Counter, Gauge, Histogram

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

BOUNDS = (0.001, 0.05, 0.1, 1, 10)
LABELS = st.sampled_from(["a", "b", 'with "quotes"', "line\nbreak", "é"])
VALUES = st.one_of(st.sampled_from(BOUNDS), st.floats(min_value=0, max_value=100))


def theirs(counts: list[tuple[str, str, float]]) -> bytes:
    registry = CollectorRegistry()
    counter = prometheus_client.Counter("c", "Help.", ("x", "y"), registry=registry)
    gauge = prometheus_client.Gauge("g", "Help.", ("x",), registry=registry)
    histogram = prometheus_client.Histogram("h_seconds", "Help.", ("x",), registry=registry, buckets=BOUNDS)
    lone_counter = prometheus_client.Counter("lone", "Help.", registry=registry)
    lone_histogram = prometheus_client.Histogram("lone_seconds", "Help.", registry=registry, buckets=BOUNDS)
    for x, y, value in counts:
        counter.labels(x, y).inc(value)
        gauge.labels(x).dec(value)
        histogram.labels(x).observe(value)
        lone_counter.inc()
        lone_histogram.observe(value)
    return generate_latest(registry)


def ours(counts: list[tuple[str, str, float]]) -> bytes:
    counter = Counter("c", "Help.", ("x", "y"))
    gauge = Gauge("g", "Help.", ("x",))
    histogram = Histogram("h_seconds", "Help.", ("x",), BOUNDS)
    lone_counter = Counter("lone", "Help.", ())
    lone_histogram = Histogram("lone_seconds", "Help.", (), BOUNDS)
    for x, y, value in counts:
        counter.labels(x, y).value += value
        gauge.labels(x).value -= value
        histogram.labels(x).observe(value)
        lone_counter.labels().value += 1
        lone_histogram.labels().observe(value)
    registry = CollectorRegistry()
    registry.register(Exposition([counter, gauge, histogram, lone_counter, lone_histogram]))
    return generate_latest(registry)


@given(st.lists(st.tuples(LABELS, LABELS, VALUES), max_size=20))
def test_the_same_counts_are_exposed_in_the_same_words(counts: list[tuple[str, str, float]]) -> None:
    assert ours(counts) == theirs(counts)


def test_a_series_that_begins_while_others_are_read_does_no_harm() -> None:
    counter = Counter("c", "Help.", ("x",))
    counter.labels("first").value += 1
    for _ in counter.all_series():
        counter.labels(str(random.random()))
    (family,) = Exposition([counter]).collect()
    found: Any = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    assert found["first",] == 1
    assert len(found) == 2
