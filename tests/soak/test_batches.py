"""How the findings of the soak of batches are judged, and what its engine counts."""

import asyncio

import pytest

from soak.batch_engine import Slots
from soak.batch_findings import Costs, Found, Plan, faults, section

PLAN = Plan(lines=1000, people=100, kill_every=8.0, slots=4, answer_ms=40)
ONE = Found(
    gateways=1,
    kills=0,
    status="completed",
    lines=1000,
    twice=0,
    missing=0,
    asked_again=0,
    waited={0: 40, 1: 60},
    people_met_batch=True,
    bugs=0,
    waits=([0.04] * 100, [0.06] * 99 + [0.08]),
)
THREE = ONE._replace(gateways=3, kills=5, asked_again=20, waited={0: 50, 1: 40, 2: 10})


@pytest.mark.parametrize(
    ("well", "members", "said"),
    [
        (ONE, {"status": "with errors"}, "with errors, 1000 lines"),
        (ONE, {"lines": 1001, "twice": 1}, "1 twice"),
        (ONE, {"lines": 999, "missing": 1}, "1 missing"),
        (ONE, {"asked_again": 1}, "1 lines were asked for again after 0 kills"),
        (ONE, {"waited": {1: 99, 2: 1}}, "1 people of 100 waited for more than one answer"),
        (ONE, {"people_met_batch": False}, "had ended before"),
        (ONE, {"bugs": 1}, "1 bugs"),
        (THREE, {"asked_again": 21}, "21 lines were asked for again after 5 kills"),
        (THREE, {"waited": {0: 50, 1: 39, 2: 10, 3: 1}}, "11 people of 100 waited for more than one answer"),
        (THREE, {"kills": 0, "asked_again": 0}, "0 kills"),
    ],
)
def test_what_must_not_be_is_found(well: Found, members: dict[str, object], said: str) -> None:
    assert [*faults(well, PLAN)] == []
    (found,) = faults(well._replace(**members), PLAN)  # type: ignore[arg-type]
    assert said in found


def test_the_page_has_both_runs_and_times_only_of_a_quiet_machine() -> None:
    counts = section([ONE, THREE], PLAN, None)
    assert "| lines in the output | 1,000 | 1,000 |" in counts
    assert "| for 2 | 0 | 10 |" in counts
    assert "CPU" not in counts
    times = section([ONE, THREE], PLAN, Costs(11.0, 12.0, 1.5, 1.75))
    assert "| ms to the first event, longest, without and with | 40, 80 | 40, 80 |" in times
    assert "1.75 ms of CPU" in times


async def test_the_engine_counts_how_many_answers_must_end_before_that_of_a_person_begins() -> None:
    slots = Slots(2, 1)
    asked = ("line 1", "person 1", "line 2", "person 2", "line 1")
    await asyncio.gather(*(slots.answer(text) for text in asked))
    # The second person comes fourth, and two answers run.
    assert slots.waited == {0: 1, 2: 1}
    assert slots.asked == {"line 1": 2, "person 1": 1, "line 2": 1, "person 2": 1}
    await slots.answer("person 3")
    assert slots.waited == {0: 2, 2: 1}
