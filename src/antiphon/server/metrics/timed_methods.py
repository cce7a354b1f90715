"""An object in front of another one, which measures how long some of its methods take."""

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any, TypeVar, cast

from antiphon.core.checks.work import CheckOutcome
from antiphon.gateway.runs.checker import Checker
from antiphon.server.metrics.instruments import Instruments
from antiphon.store.protocol import Store

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
