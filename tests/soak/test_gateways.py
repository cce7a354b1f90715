"""The soak of several gateways: a small run of it, and how its findings are judged."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.postgres import PostgresServer
from support.programs import found_or_installed

from bench.subjects import find_nginx
from soak.conversations import Conversation, Turn, parsed
from soak.gateways import Plan, faults, judged, soak
from soak.page import GATEWAYS_TITLE, Gateways, gateways_section, with_section


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_is_lost_while_gateways_are_killed(postgres: PostgresServer, tmp_path: Path) -> None:
    found_or_installed(find_nginx, "nginx-light")
    plan = Plan(minutes=0.3, conversations=20, kill_every=4, pause=1, lease=3, interval=20)
    found = await soak(plan, postgres.new_database(), tmp_path)
    assert faults(found) == []
    assert found.kills >= 2
    assert found.turns >= 2 * 40


WELL = Gateways(
    minutes=5,
    conversations=500,
    kills=4,
    turns=9000,
    outcomes={
        "streamed: completed": 4000,
        "streamed: cut by a kill": 20,
        "background: HTTP 502": 3,
        "background: completed": 5000,
    },
    unexplained_cuts=0,
    unreadable=0,
    out_of_order=0,
    doubled=0,
    stored_though_cut=2,
    left={"jobs": 0, "locks": 0},
    bugs=0,
)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"outcomes": {"background: failed: server_error": 1}}, "server_error"),
        ({"outcomes": {"streamed: 2 terminal events": 1}}, "terminal"),
        ({"outcomes": {"streamed: hangs": 1}}, "hangs"),
        ({"unexplained_cuts": 1}, "without a kill"),
        ({"unreadable": 1}, "every gateway"),
        ({"out_of_order": 1}, "the one before"),
        ({"doubled": 1}, "doubled"),
        ({"left": {"jobs": 2, "locks": 0}}, "2 jobs are left"),
        ({"bugs": 1}, "bugs"),
    ],
)
def test_what_must_not_be_is_reported(change: dict[str, Any], word: str) -> None:
    assert faults(WELL) == []
    assert [fault for fault in faults(msgspec.structs.replace(WELL, **change)) if word in fault]


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"text": text}]}


FIRST = message("user", "Hello <1.0.0>"), message("assistant", "a")
CUT = message("user", "Hello <1.1.0>"), message("assistant", "b")
SECOND = message("user", "Hello <1.1.1>"), message("assistant", "c")
TALK = Conversation(
    1, "streamed", "conversation", "conv_1", [Turn("<1.0.0>", "r1", "a"), Turn("<1.1.1>", "r2", "c")], {"<1.1.0>"}
)


@pytest.mark.parametrize(
    ("items", "verdict"),
    [
        ([*FIRST, *SECOND], (0, 0)),
        # Its client did not see the end of an attempt that was stored all the same.
        ([*FIRST, *CUT, *SECOND], (0, 1)),
    ],
)
def test_a_conversation_in_which_each_turn_is_once_is_well(items: list[dict[str, Any]], verdict: tuple[int, int]) -> None:
    assert judged(TALK, items) == verdict


@pytest.mark.parametrize(
    "items",
    [
        [*FIRST],
        [*SECOND, *FIRST],
        [*FIRST, *FIRST, *SECOND],
        [*FIRST, *SECOND, message("user", "Hello <1.2.0>")],
        [*FIRST, *SECOND, message("user", "Hello <1.7.0>"), message("assistant", "x")],
        [FIRST[0], message("assistant", "another"), *SECOND],
    ],
    ids=["missing", "order", "twice", "no answer", "never asked", "another answer"],
)
def test_a_conversation_that_is_not_as_its_client_saw_it_is_a_fault(items: list[dict[str, Any]]) -> None:
    assert judged(TALK, items)[0] > 0


def test_the_events_of_a_stream_that_broke_are_read_as_far_as_they_are_whole() -> None:
    raw = b'event: a\ndata: {"type":"a"}\n\nevent: b\ndata: {"type":"b"}\n\nevent: c\ndata: {"ty'
    assert [event["type"] for event in parsed(raw)] == ["a", "b"]


def test_the_section_takes_the_place_of_the_one_before() -> None:
    once = with_section("# Page\n\ntext\n", GATEWAYS_TITLE, gateways_section(WELL))
    twice = with_section(once, GATEWAYS_TITLE, gateways_section(msgspec.structs.replace(WELL, turns=1234)))
    assert once.startswith("# Page\n\ntext\n\n## ")
    assert "| turns completed | 1,234 |" in twice
    assert twice.count(f"## {GATEWAYS_TITLE}") == 1
