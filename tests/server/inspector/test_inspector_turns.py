"""Turns of a conversation, and where one of them breaks the prompt cache."""

from typing import Any

import pytest
from support.chat import WEATHER as CHAT_TOOL
from support.engine import MockEngine, text
from support.gateway import running_gateway
from support.inspector import KEYS, WEATHER, bearing, opened, rows


async def test_the_cache_break_is_marked_when_and_only_when_the_prefix_changed(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        history: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
        common = {"store": False, "prompt_cache_key": "thread", "tools": [WEATHER]}
        for question in ("More", "Even more"):
            response = await gateway.create(history, instructions="Be kind.", **common)
            history = [*history, *response["output"], {"role": "user", "content": question}]
        await gateway.create(history, instructions="Be rude.", **common)
        third, second, first = await rows(gateway)
        view = await opened(gateway, 3)
        good = await opened(gateway, 2)
    assert [(row["previous"], row["prefix_changed"]) for row in (first, second, third)] == [
        (None, None),
        (1, False),
        (2, True),
    ]
    assert view["changes"]["where"] == {"part": "messages", "index": 0, "role": "system", "path": "messages[0].content"}
    assert "The instructions changed" in view["changes"]["why"]
    assert (good["changes"]["prefix_changed"], good["changes"]["where"], good["changes"]["added"]) == (False, None, 2)


async def test_the_turn_before_is_found_by_its_messages_alone(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        for question in ("Tea?", "Coffee?", "Tea?"):
            response = await gateway.create(question, store=False)
        history = [{"role": "user", "content": "Tea?"}, *response["output"], {"role": "user", "content": "And milk?"}]
        await gateway.create(history, store=False)
        await gateway.create(history, store=False, tools=[WEATHER])
        found = await rows(gateway)
        view = await opened(gateway, 5)
    assert [(row["number"], row["previous"], row["prefix_changed"]) for row in found] == [
        (5, 3, True),
        (4, 3, False),
        (3, None, None),
        (2, None, None),
        (1, None, None),
    ]
    assert view["changes"]["why"].startswith("The tools changed (added: weather)")


async def test_turns_of_another_owner_are_not_turns_of_this_one(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        body = {"model": "mock", "input": "Hi", "prompt_cache_key": "same", "store": False}
        await gateway.post(body, **bearing("ann"))
        await gateway.post(body, **bearing("bob"))
        (row,) = await rows(gateway, **bearing("bob"))
    assert row["previous"] is None


async def test_a_conversation_is_a_thread_of_turns(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        _, conversation = await gateway.post({}, "/v1/conversations")
        for question in ("One", "Two"):
            await gateway.create(question, conversation=conversation["id"])
        second, _ = await rows(gateway)
    assert (second["previous"], second["prefix_changed"]) == (1, False)


async def test_turns_of_a_conversation_know_its_first_turn(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        first = await gateway.create("One")
        await gateway.create("Alone")
        second = await gateway.create("Two", previous_response_id=first["id"])
        await gateway.create("Three", previous_response_id=second["id"])
        found = await rows(gateway)
    assert {row["number"]: row["conversation"] for row in found} == {1: 1, 2: 2, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("path", "more"),
    [("/v1/messages", {"max_tokens": 9}), ("/v1/chat/completions", {"tools": [CHAT_TOOL]}), ("/v1/chat/completions", {})],
)
async def test_turns_are_found_by_what_their_messages_begin_with_whatever_the_protocol(
    engine: MockEngine, path: str, more: dict[str, Any]
) -> None:
    engine.otherwise = lambda body: text("Yes")
    said = [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Yes"}, {"role": "user", "content": "Milk?"}]
    async with running_gateway(engine) as gateway:
        for messages in (said[:1], [{"role": "user", "content": "Else?"}], said):
            status, _ = await gateway.post({"model": "mock", "messages": messages, **more}, path)
            assert status == 200
        found = await rows(gateway)
    assert {row["number"]: row["conversation"] for row in found} == {1: 1, 2: 2, 3: 1}


async def test_a_question_that_is_passed_on_twice_begins_a_conversation_twice(engine: MockEngine) -> None:
    rules, tea = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tea?"}
    async with running_gateway(engine) as gateway:
        for messages in ([rules, tea], [rules], [rules, tea], [rules, tea, tea]):
            await gateway.post({"model": "mock", "messages": messages}, "/v1/chat/completions")
        found = await rows(gateway)
    assert {row["number"]: row["conversation"] for row in found} == {1: 1, 2: 2, 3: 3, 4: 3}
