"""What stands before the store and the checker: it measures, and changes nothing."""

import time
from typing import Any, cast

import pytest

from antiphon.core.checks.work import CheckOutcome
from antiphon.errors import StoreUnavailable
from antiphon.gateway.runs.checker import Checker
from antiphon.server.metrics.exposition import to_registry
from antiphon.server.metrics.instruments import Instruments, measured_checker, measured_store
from antiphon.store.memory.store import MemoryStore
from antiphon.store.wakeups import Wakeups


class LostStore(MemoryStore):
    async def get(self, owner: str, id: str, *, output: bool = True) -> Any:
        raise StoreUnavailable


async def test_an_operation_that_fails_is_measured_and_still_fails() -> None:
    instruments = Instruments()
    store = measured_store(LostStore(time.time, Wakeups(1)), instruments)
    with pytest.raises(StoreUnavailable):
        await store.get("", "resp_1")
    assert await store.delete("", "resp_1") is False
    value = to_registry(instruments.all()).get_sample_value
    assert value("antiphon_store_errors_total", {"operation": "get"}) == 1
    assert value("antiphon_store_errors_total", {"operation": "delete"}) is None
    assert value("antiphon_store_operation_seconds_count", {"operation": "get"}) == 1


async def test_what_is_not_measured_is_the_stores_own() -> None:
    below = MemoryStore(time.time, Wakeups(1))
    store = measured_store(below, Instruments())
    assert store.survives_restart is below.survives_restart
    with store.follow_jobs() as wakeup:
        assert wakeup is not None


async def test_checks_that_do_not_come_to_an_end_are_counted() -> None:
    class Outcomes:
        outcomes = [CheckOutcome(), CheckOutcome(unfinished=True)]

        async def run(self, work: object, owner: str = "") -> CheckOutcome:
            return self.outcomes.pop(0)

    instruments = Instruments()
    checker = measured_checker(cast(Checker, Outcomes()), instruments)
    for _ in range(2):
        await cast(Any, checker).run("work", owner="ada")
    value = to_registry(instruments.all()).get_sample_value
    assert value("antiphon_check_seconds_count") == 2
    assert value("antiphon_checks_unfinished_total") == 1
