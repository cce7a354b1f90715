"""What the comparison of Responses endpoints finds wrong, and what it does not."""

import pytest
from conformance.validators import Document
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

from bench.endpoints import (
    CASES,
    CONTINUED,
    DOCUMENTS,
    REQUIRED,
    Endpoint,
    Event,
    Wrong,
    calls,
    events_follow,
    follows,
    in_order,
)

STREAM: list[Event] = [
    {"type": "response.created", "sequence_number": 0, "response": {}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0},
    {"type": "response.output_text.delta", "sequence_number": 2, "output_index": 0},
    {"type": "response.output_item.done", "sequence_number": 3, "output_index": 0},
    {"type": "response.completed", "sequence_number": 4, "response": {}},
]


def test_a_stream_in_order_is_right() -> None:
    in_order(STREAM)


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([{**event, "sequence_number": 0} for event in STREAM], "not numbered"),
        (STREAM[:4], "not one terminal event"),
        ([STREAM[0], {**STREAM[2], "sequence_number": 1}, {**STREAM[4], "sequence_number": 2}], "outside of an item"),
        ([*STREAM[:3], {**STREAM[4], "sequence_number": 3}], "has no end"),
    ],
)
def test_a_stream_out_of_order_is_found(events: list[Event], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        in_order(events)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_what_does_not_follow_the_schemas_is_found(document: Document) -> None:
    with pytest.raises(Wrong):
        follows(document, {"object": "response", "output": []})
    with pytest.raises(Wrong, match="sequence_number"):
        events_follow(document, [{"type": "response.created", "response": {}}])


def test_an_answer_without_the_required_call_is_found() -> None:
    calls({"output": [{"type": "function_call", "name": "get_weather"}]})
    with pytest.raises(Wrong, match="no call"):
        calls({"output": [{"type": "message"}]})


async def test_a_gateway_is_asked_every_question(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """In front of an engine whose model calls nothing: the last request, which requires a call, is an error."""
    endpoint = Endpoint(gateway.url)
    await endpoint.ask()
    required, others = endpoint.found.pop(REQUIRED), endpoint.found
    assert required == ["no call", "no call"]
    # The engine of the tests counts no tokens.
    assert [*others.pop(CONTINUED)] == ["the engine did not see the history"] * len(CASES)
    assert len(others) == 6
    assert {check: found for check, found in others.items() if found[:-1] != [None] * (len(CASES) - 1)} == {}
    assert engine.requests
