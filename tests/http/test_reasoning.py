"""Reasoning, as clients see it and as the engine gets it back."""

from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, answer, chunk
from support.gateway import GatewayUnderTest, running_gateway, standing_before
from support.sockets import connected

SUMMARY = {"summary": "auto"}
# In pieces that a client sees one by one; the first line is a heading, which the summary shows as a bold one.
PIECES = ("## Look", " around\nI see", "\n# x", " and", " more")
THOUGHT = "".join(PIECES)
SHOWN = "**Look around**\nI see\n# x and more"
SEALED = "include[]=reasoning.encrypted_content"


def thinking(*pieces: str) -> bytes:
    return answer(*(chunk({"reasoning": piece}) for piece in pieces), chunk({"content": "Yes"}))


def returned(engine: MockEngine) -> list[str]:
    """The thoughts that the engine got back with its last request."""
    return [message["reasoning"] for message in engine.last["messages"] if "reasoning" in message]


# ---- what is shown ---------------------------------------------------------------------------------------------------


async def test_a_requested_summary_is_the_only_form_of_the_thought(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(thinking("Let", " me", " see"))
    events = await gateway.stream(reasoning=SUMMARY)
    kinds = [event["type"] for event in events if event.get("output_index") == 0]
    assert kinds == [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        *["response.reasoning_summary_text.delta"] * 3,
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]
    item = events[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Let me see"}]
    assert "content" not in item


async def test_without_a_summary_the_thought_is_raw_text(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(thinking("Let", " me", " see"))
    events = await gateway.stream(reasoning={"effort": "low"})
    assert not any("summary" in event["type"] for event in events)
    item = events[-1]["response"]["output"][0]
    assert (item["summary"], item["content"]) == ([], [{"type": "reasoning_text", "text": "Let me see"}])


async def test_a_setting_sends_every_thought_as_a_summary(engine: MockEngine) -> None:
    engine.will(*[thinking("Let", " me", " see")] * 2)
    async with running_gateway(engine, reasoning_summary="always") as gateway:
        events = await gateway.stream()
        whole = (await gateway.create())["output"][0]
    assert not any("reasoning_text" in event["type"] for event in events)
    for item in (events[-1]["response"]["output"][0], whole):
        assert item["summary"] == [{"type": "summary_text", "text": "Let me see"}]
        assert "content" not in item


async def test_a_heading_becomes_the_bold_first_line_of_the_summary(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(thinking(*PIECES))
    item = (await gateway.stream(reasoning=SUMMARY))[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": SHOWN}]


async def test_a_stored_summary_is_shown_as_it_was_streamed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*[thinking("Let", " me"), thinking(*PIECES)])
    for _ in range(2):
        made = (await gateway.stream(reasoning=SUMMARY))[-1]["response"]
        _, fetched = await gateway.get(f"/v1/responses/{made['id']}")
        assert fetched["output"] == made["output"]


# ---- what the engine gets back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [PIECES, ("Let", " me", " see"), ("**Bold** from the start\n", "and on")])
async def test_every_history_has_the_exact_thought(pieces: tuple[str, ...]) -> None:
    async with standing_before("vllm", *[thinking(*pieces)] * 4) as (gateway, engine):
        chain = await gateway.create(reasoning=SUMMARY)
        await gateway.create(previous_response_id=chain["id"], reasoning=SUMMARY)
        assert returned(engine) == ["".join(pieces)]
        conversation = (await gateway.post({}, "/v1/conversations"))[1]["id"]
        await gateway.create(conversation=conversation, reasoning=SUMMARY)
        await gateway.create(conversation=conversation, reasoning=SUMMARY)
        assert returned(engine) == ["".join(pieces)]


@pytest.mark.parametrize("store", [True, False])
async def test_the_history_of_a_connection_has_the_exact_thought(store: bool) -> None:
    async with standing_before("vllm", *[thinking(*PIECES)] * 2) as (gateway, engine), connected(gateway) as socket:
        first = await socket.create("One", store=store, reasoning=SUMMARY)
        await socket.create("Two", store=store, reasoning=SUMMARY, previous_response_id=first["id"])
        assert returned(engine) == [THOUGHT]


@pytest.mark.parametrize("fields", [{}, {"store": False}, {"include": ["reasoning.encrypted_content"]}])
async def test_an_output_that_a_client_sends_back_has_the_exact_thought(fields: dict[str, Any]) -> None:
    async with standing_before("vllm", thinking(*PIECES)) as (gateway, engine):
        output = (await gateway.create(reasoning=SUMMARY, **fields))["output"]
        await gateway.create([{"role": "user", "content": "Hi"}, *output, {"role": "user", "content": "And?"}])
        assert returned(engine) == [THOUGHT]


@pytest.mark.parametrize("pieces", [PIECES, ("Let", " me", " see")])
async def test_the_seal_of_a_stored_summary_has_the_exact_thought(pieces: tuple[str, ...]) -> None:
    async with standing_before("vllm", *[thinking(*pieces)] * 2) as (gateway, engine):
        made = await gateway.create(reasoning=SUMMARY)
        background = Background(gateway)
        ended = await background.ended((await background.create(reasoning=SUMMARY))["id"])
        for id in (made["id"], ended["id"]):
            _, fetched = await gateway.get(f"/v1/responses/{id}?{SEALED}")
            kept = {"type": "reasoning", "summary": [], "encrypted_content": fetched["output"][0]["encrypted_content"]}
            await gateway.create([{"role": "user", "content": "Hi"}, kept, {"role": "assistant", "content": "Yes"}])
            assert returned(engine) == ["".join(pieces)]
