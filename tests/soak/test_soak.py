"""The soak: a small run of it, and the store that fails."""

from random import Random

import pytest
from support.stores import record

from antiphon.errors import StoreUnavailable
from antiphon.store import open_store
from soak.__main__ import faults, soak
from soak.flaky_store import flaky
from soak.page import Figures, page


@pytest.mark.slow
def test_a_few_seconds_of_it_lose_nothing() -> None:
    found = soak(minutes=0.05, streams=20, interval_ms=5)
    assert faults(found) == []
    assert found.acknowledged > 0


async def test_a_store_that_fails_has_done_its_work_or_not() -> None:
    async with open_store("memory:") as store:
        failing = flaky(store, 0.5, Random(5))
        outcomes = set()
        for number in range(60):
            id = f"resp_{number}"
            try:
                await failing.put(record(id))
                said = "done"
            except StoreUnavailable:
                said = "failed"
            outcomes.add((said, await store.get("ada", id) is not None))
        assert outcomes == {("done", True), ("failed", True), ("failed", False)}


WELL = Figures(
    minutes=10,
    streams=1000,
    outcomes={"reader: completed": 5, "reader: HTTP 503, store_unavailable": 1},
    acknowledged=5,
    lost=0,
    memory_mb={0: 80, 20: 100, 40: 100, 60: 100, 80: 100, 100: 101},
    descriptors_before=20,
    descriptors_most=2000,
    descriptors_after=21,
    bugs=0,
)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"lost": 1}, "lost"),
        ({"bugs": 1}, "bugs"),
        ({"descriptors_after": 60}, "descriptors"),
        ({"memory_mb": {20: 100, 100: 130}}, "memory"),
        ({"outcomes": {"reader: hangs": 1}}, "hangs"),
        ({"outcomes": {"reader: HTTP 502, internal_error": 1}}, "internal_error"),
    ],
)
def test_what_must_not_be_is_reported(change: dict[str, object], word: str) -> None:
    assert faults(WELL) == []
    for name, value in change.items():
        wrong = Figures(**{each: getattr(WELL, each) for each in WELL.__struct_fields__} | {name: value})
        assert [fault for fault in faults(wrong) if word in fault]


def test_the_page_has_the_figures() -> None:
    text = page(WELL)
    assert "| clients at once | 1,000 |" in text
    assert "| reader: completed | 5 |" in text


def test_the_section_about_several_gateways_stays_on_the_page() -> None:
    assert page(WELL, "# Old\n\n## Three gateways, one killed each minute\n\nfigures\n") == (
        page(WELL) + "\n## Three gateways, one killed each minute\n\nfigures\n"
    )
