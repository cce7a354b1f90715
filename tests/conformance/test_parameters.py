"""The parameters of every route but POST /responses, in the query or in the body."""

from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, answer, chunk
from support.gateway import GatewayUnderTest

Body = dict[str, Any]
FUNCTION = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
ITEMS = [{"role": "user", "content": content} for content in ("One", "Two", "Three")]
SEALED = "include=reasoning.encrypted_content"


def contents(engine: MockEngine) -> list[str]:
    return [message["content"] for message in engine.last["messages"]]


# ---- POST /responses/compact -----------------------------------------------------------------------------------------

# The value, and the notice about it.
COMPACT: dict[str, tuple[Any, str]] = {
    "model": ("mock", ""),
    "input": ("One", ""),
    "prompt_cache_key": ("thread-1", ""),
    "prompt_cache_retention": ("24h", ""),
    "service_tier": ("flex", ""),
    "prompt_cache_options": ({"mode": "implicit"}, "field prompt_cache_options has no effect here and was left out"),
    "image": ({"context_compression": "auto"}, "field image has no effect here and was left out"),
}


@pytest.mark.parametrize("name", COMPACT)
async def test_a_compaction_takes_it(name: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    value, notice = COMPACT[name]
    body = {"model": "mock", "input": "One", name: value}
    status, compacted = await gateway.post(body, "/v1/responses/compact")
    assert (status, gateway.notice) == (200, notice)
    assert [item["type"] for item in compacted["output"]] == ["message", "compaction"]


async def test_a_compaction_has_instructions_and_what_was_said_before(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create("One")
    body = {"model": "mock", "instructions": "Be kind.", "previous_response_id": first["id"]}
    await gateway.post(body, "/v1/responses/compact")
    assert contents(engine)[:3] == ["Be kind.", "One", "Hello world"]


# ---- POST /responses/input_tokens ------------------------------------------------------------------------------------

# The value, and what is in the prompt that is counted.
COUNTED: dict[str, tuple[Any, Body]] = {
    "model": ("mock", {"model": "mock"}),
    "input": ("One", {"messages": [{"role": "user", "content": "One"}]}),
    "instructions": (
        "Be kind.",
        {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]},
    ),
    "tools": ([FUNCTION], {"tool_choice": "auto"}),
    "tool_choice": ("none", {}),
    "parallel_tool_calls": (False, {}),
    "reasoning": ({"effort": "low"}, {"reasoning_effort": "low"}),
    "text": ({"format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
    "truncation": ("auto", {}),
}


@pytest.mark.parametrize("name", COUNTED)
async def test_it_counts_where_it_is_part_of_the_prompt(name: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    value, sent = COUNTED[name]
    status, counted = await gateway.post({"model": "mock", "input": "Hi", name: value}, "/v1/responses/input_tokens")
    assert (status, counted["input_tokens"]) == (200, 12)
    assert sent.items() <= engine.last.items()
    assert gateway.notice == "input_tokens were counted by asking the engine for one token"


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
async def test_what_was_said_before_counts(name: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    if name == "conversation":
        _, before = await gateway.post({"items": ITEMS[:1]}, "/v1/conversations")
    else:
        before = await gateway.create("One")
    await gateway.post({"model": "mock", "input": "Two", name: before["id"]}, "/v1/responses/input_tokens")
    assert contents(engine)[0] == "One"
    assert contents(engine)[-1] == "Two"


async def test_a_personality_is_left_out_with_a_notice(gateway: GatewayUnderTest) -> None:
    body = {"model": "mock", "input": "Hi", "personality": "friendly"}
    status, _ = await gateway.post(body, "/v1/responses/input_tokens")
    assert status == 200
    assert "field personality is unknown and was left out" in gateway.notice


# ---- stored responses ------------------------------------------------------------------------------------------------


async def test_stored_reasoning_is_sealed_if_it_is_asked_for(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning_content": "They greet."}), chunk({"content": "Hello"})))
    made = await gateway.create()
    _, plain = await gateway.get(f"/v1/responses/{made['id']}")
    _, sealed = await gateway.get(f"/v1/responses/{made['id']}?{SEALED}")
    assert ["encrypted_content" in shown["output"][0] for shown in (plain, sealed)] == [False, True]


async def test_a_background_response_is_streamed_from_an_event_on(gateway: GatewayUnderTest) -> None:
    background = Background(gateway)
    made = await background.made()
    events = await background.follow(made["id"], after=3)
    assert events[0]["sequence_number"] == 4
    assert events[-1]["type"] == "response.completed"


async def test_stored_events_are_padded_as_they_were_and_a_notice_says_so(gateway: GatewayUnderTest) -> None:
    made = await Background(gateway).made()
    path = f"{gateway.url}/v1/responses/{made['id']}?stream=true&include_obfuscation=true"
    async with gateway.client.get(path) as streamed:
        assert b"obfuscation" not in await streamed.read()
        assert "include_obfuscation" in streamed.headers["antiphon-notice"]


# ---- lists -----------------------------------------------------------------------------------------------------------


async def test_the_input_items_of_a_response_are_paged(gateway: GatewayUnderTest) -> None:
    made = await gateway.create(ITEMS)
    path = f"/v1/responses/{made['id']}/input_items?order=asc&limit=1&{SEALED}"
    _, first = await gateway.get(path)
    _, second = await gateway.get(f"{path}&after={first['last_id']}")
    texts = [page["data"][0]["content"][0]["text"] for page in (first, second)]
    assert (texts, first["has_more"]) == (["One", "Two"], True)


async def test_the_items_of_a_conversation_are_paged(gateway: GatewayUnderTest) -> None:
    _, made = await gateway.post({"items": ITEMS}, "/v1/conversations")
    path = f"/v1/conversations/{made['id']}/items?order=asc&limit=1&{SEALED}"
    _, first = await gateway.get(path)
    _, second = await gateway.get(f"{path}&after={first['last_id']}")
    texts = [page["data"][0]["content"][0]["text"] for page in (first, second)]
    assert (texts, first["has_more"]) == (["One", "Two"], True)


async def test_an_item_of_a_conversation_is_sealed_if_it_is_asked_for(gateway: GatewayUnderTest) -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "They greet."}]}
    _, made = await gateway.post({"items": ITEMS[:1]}, "/v1/conversations")
    path = f"/v1/conversations/{made['id']}/items"
    _, added = await gateway.post({"items": [thought]}, f"{path}?{SEALED}")
    _, plain = await gateway.get(f"{path}/{added['first_id']}")
    _, sealed = await gateway.get(f"{path}/{added['first_id']}?{SEALED}")
    assert ["encrypted_content" in item for item in (added["data"][0], plain, sealed)] == [True, False, True]


async def test_a_conversation_has_metadata_and_items(gateway: GatewayUnderTest) -> None:
    _, made = await gateway.post({"items": ITEMS, "metadata": {"topic": "a"}}, "/v1/conversations")
    assert made["metadata"] == {"topic": "a"}
    _, changed = await gateway.post({"metadata": {"topic": "b"}}, f"/v1/conversations/{made['id']}")
    assert changed["metadata"] == {"topic": "b"}
