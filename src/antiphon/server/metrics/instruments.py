"""What is measured while it happens. docs/operating.md has a row for each metric.

The counters, gauges and histograms are counted on the event loop only. Those of prometheus_client take a lock and four calls
for each count, because any thread may count with them. Here a count is one addition to a number. What `exposition.py` shows is
the same; a thread may read it.
"""

import inspect
import re
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any, Generic, TypeVar, cast

from antiphon.core.checks.work import CheckOutcome
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.usage.model_names import LabelValues
from antiphon.store.protocol import Store


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


# ---- values of labels ------------------------------------------------------------------------------------------------
# Each makes a series of its own, in the gateway and in Prometheus, so their number has a limit.

NONE = "none"
# The label of all keys that have no name.
UNNAMED = "unnamed"
# The owner of what such a key stores: a hash of the key, which is shown to nobody.
_HASH = re.compile(r"[0-9a-f]{32}")


def owner_to_label(owner: str) -> str:
    """The name of a key; never the key, and never its hash."""
    if not owner:
        return NONE
    return UNNAMED if _HASH.fullmatch(owner) else owner


# Upper bounds, in seconds. A long prompt takes minutes until its first token, and a token of a small model a millisecond.
TO_FIRST_TOKEN = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 180, 600)
BETWEEN_TOKENS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
WHOLE_RESPONSE = (0.1, 0.5, 1, 2, 5, 10, 20, 60, 180, 600, 1800, 3600)
STORE = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 10)
TOOL = (0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 180)
CHECK = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30)

BY_KEY = ("model", "key")


def _counter(name: str, help: str, *labels: str) -> Counter:
    return Counter(f"antiphon_{name}", help, labels)


def _histogram(name: str, help: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
    return Histogram(f"antiphon_{name}_seconds", help, labels, bounds)


class Labels:
    """Values that come from clients or engines."""

    def __init__(self) -> None:
        self.keys, self.engines, self.codes = LabelValues(), LabelValues(), LabelValues()


class TokenInstruments:
    def __init__(self) -> None:
        self.input = _counter("input_tokens", "Tokens of prompts.", *BY_KEY)
        self.cached = _counter("cached_input_tokens", "Those of them that the engine had in its cache.", *BY_KEY)
        self.output = _counter("output_tokens", "Tokens that were generated.", *BY_KEY)
        self.reasoning = _counter("reasoning_tokens", "Those of them that are reasoning.", *BY_KEY)


class TimeInstruments:
    def __init__(self) -> None:
        self.response = _histogram("response", "From the request to the last event.", WHOLE_RESPONSE, "channel", "model")
        self.first_token = _histogram("time_to_first_token", "From the request to its first output.", TO_FIRST_TOKEN, "model")
        self.between_tokens = _histogram(
            "inter_token", "The mean time between two tokens of a response, once for each.", BETWEEN_TOKENS, "model"
        )


class Instruments:
    def __init__(self) -> None:
        self.labels = Labels()
        self.http_requests = _counter(
            "http_requests", "HTTP requests that were answered; a WebSocket counts once.", "route", "method", "status"
        )
        self.responses = _counter(
            "responses", "Responses that have ended, or were refused.", "channel", "outcome", "model", "key"
        )
        self.errors = _counter("errors", "Responses that failed or were refused, by the code of the error.", "code")
        self.running = Gauge("antiphon_responses_running", "Responses that run now.", ("channel", "stream"))
        self.times, self.tokens = TimeInstruments(), TokenInstruments()
        self.asked_again = _counter("asked_again", "Chat requests beyond the first one of a response.", "reason")
        self.engine_answers = _counter(
            "engine_answers",
            "Answers of engines to chat requests, also those that failed or were refused.",
            "engine",
            "outcome",
        )
        self.tool_calls = _counter(
            "tool_calls", "Calls of tools that the gateway ran: ok, failed, or stopped.", "kind", "outcome"
        )
        self.tool_time = _histogram("tool_call", "How long these calls took.", TOOL, "kind")
        self.budget_exceeded = _counter(
            "budget_exceeded", "Requests that came when the budget of their key was used up.", "key", "budget"
        )
        self.store = _histogram("store_operation", "How long the operations of the store take.", STORE, "operation")
        self.store_errors = _counter("store_errors", "Operations that the store could not do.", "operation")
        self.checks = _histogram("check", "Checks of schemas, grammars and documents, with the wait for one.", CHECK)
        self.checks_unfinished = _counter("checks_unfinished", "Checks that failed or took too long.")

    def all(self) -> list[AnyInstrument]:
        groups = (self, self.times, self.tokens)
        return [each for group in groups for each in vars(group).values() if isinstance(each, AnyInstrument)]


T = TypeVar("T")
# Takes the name of the method, its seconds, and its result or its error.
Measure = Callable[[str, float, Any], None]

STORE_OPERATIONS = tuple(name for name, _ in inspect.getmembers(Store, inspect.iscoroutinefunction))


def measured_store(store: Store, instruments: Instruments) -> Store:
    seconds = cache(instruments.store.labels)

    def measure(name: str, took: float, result: Any) -> None:
        seconds(name).observe(took)
        if isinstance(result, Exception):
            instruments.store_errors.labels(name).value += 1

    return timed(store, STORE_OPERATIONS, measure)


def measured_checker(checker: Checker, instruments: Instruments) -> Checker:
    def measure(name: str, took: float, result: Any) -> None:
        instruments.checks.labels().observe(took)
        if not isinstance(result, CheckOutcome) or result.unfinished:
            instruments.checks_unfinished.labels().value += 1

    return timed(checker, ("run",), measure)


def timed(target: T, methods: Iterable[str], measure: Measure) -> T:
    """It is used in place of the target."""
    return cast(T, TimedMethods(target, methods, measure))


class TimedMethods:
    def __init__(self, target: Any, methods: Iterable[str], measure: Measure) -> None:
        self._target = target
        for name in methods:
            setattr(self, name, _timed(target, name, measure))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """For who asks what it is, it is the target."""
        return type(self._target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def _timed(target: Any, name: str, measure: Measure) -> Callable[..., Awaitable[Any]]:
    async def run(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            result = await getattr(target, name)(*arguments, **named)
        except Exception as error:
            measure(name, time.perf_counter() - began, error)
            raise
        measure(name, time.perf_counter() - began, result)
        return result

    return run
