"""Citations that an engine attaches to its text, and what clients get of them."""

from typing import Any

import msgspec
import pytest
from support.background import Background
from support.engine import DONE, USAGE, MockEngine, answer, call, chunk
from support.gateway import GatewayUnderTest

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


def cited(url: str, start: int = 0, end: int = 5) -> dict[str, Any]:
    """As engines write it."""
    return {
        "type": "url_citation",
        "url_citation": {"url": url, "title": f"About {url}", "start_index": start, "end_index": end, "content": "…"},
    }


def shown(url: str, start: int = 0, end: int = 5) -> dict[str, Any]:
    """As clients know it."""
    return {"type": "url_citation", "url": url, "title": f"About {url}", "start_index": start, "end_index": end}


def annotations(response: dict[str, Any]) -> list[Any]:
    found: list[Any] = response["output"][0]["content"][0]["annotations"]
    return found


async def test_citations_of_a_stream_are_events_and_part_of_the_text(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(
        answer(
            chunk({"content": "Paris"}),
            chunk({"content": ".", "annotations": [cited("a")]}),
            chunk({"annotations": [cited("b")]}),
        )
    )
    events = await gateway.stream()
    added = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    assert [event["annotation"] for event in added] == annotations(events[-1]["response"]) == [shown("a"), shown("b")]
    item = events[-1]["response"]["output"][0]
    places = [(event["item_id"], event["output_index"], event["content_index"], event["annotation_index"]) for event in added]
    assert places == [(item["id"], 0, 0, 0), (item["id"], 0, 0, 1)]
    kinds = [event["type"] for event in events]
    assert kinds.index("response.output_text.annotation.added") < kinds.index("response.output_text.done")


async def test_citations_of_an_engine_that_does_not_stream_are_passed_on(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    message = {"role": "assistant", "content": "Paris.", "annotations": [cited("a")]}
    engine.will(msgspec.json.encode({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    assert annotations(await gateway.create()) == [shown("a")]


async def test_a_citation_that_an_engine_repeats_is_shown_once(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(*(chunk({"content": word, "annotations": [cited("a")]}) for word in ("one", " two", " three"))))
    response = await gateway.create()
    assert (response["output_text"], annotations(response)) == ("one two three", [shown("a")])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "url_citation", "url": "a", "title": "About a", "start_index": 0, "end_index": 5}, shown("a")),
        (
            {"type": "url_citation", "url_citation": {"url": "a", "title": None}},
            {"type": "url_citation", "url": "a", "title": "", "start_index": 0, "end_index": 0},
        ),
        (
            {"type": "file_path", "file_id": "file_1", "index": 3},
            {"type": "file_path", "file_id": "file_1", "index": 3},
        ),
    ],
)
async def test_other_shapes_become_what_clients_know(
    gateway: GatewayUnderTest, engine: MockEngine, given: Any, expected: Any
) -> None:
    engine.will(answer(chunk({"content": "Paris.", "annotations": [given]})))
    assert annotations((await gateway.stream())[-1]["response"]) == [expected]


@pytest.mark.parametrize("given", [[], None, "none", [1, "two"]])
async def test_what_is_no_annotation_does_no_harm(gateway: GatewayUnderTest, engine: MockEngine, given: Any) -> None:
    engine.will(answer(chunk({"content": "Paris.", "annotations": given})))
    assert annotations(await gateway.create()) == []


async def test_citations_stay_with_the_text_before_a_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": "Look.", "annotations": [cited("a")]}), call("f", "{}"), finish="tool_calls"))
    response = (await gateway.stream(tools=[TOOL]))[-1]["response"]
    assert annotations(response) == [shown("a")]


async def test_citations_without_text_are_left_out(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"annotations": [cited("a")]}), call("f", "{}"), finish="tool_calls"))
    assert [item["type"] for item in (await gateway.create(tools=[TOOL]))["output"]] == ["function_call"]


async def test_text_that_waits_for_a_check_keeps_its_citations(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": '{"a": 1}', "annotations": [cited("a")]})))
    events = await gateway.stream(text={"format": {"type": "json_object"}})
    assert annotations(events[-1]["response"]) == [shown("a")]


async def test_a_background_response_has_its_citations(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(b"".join([chunk({"content": "Paris.", "annotations": [cited("a")]}), chunk(finish="stop"), USAGE, DONE]))
    background = Background(gateway)
    ended = await background.ended((await background.create())["id"])
    assert annotations(ended) == [shown("a")]


async def test_a_text_with_citations_can_be_continued(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": "Paris.", "annotations": [cited("a")]})))
    first = await gateway.create()
    await gateway.create("And?", previous_response_id=first["id"])
    assert [message["content"] for message in engine.last["messages"]] == ["Hi", "Paris.", "And?"]
