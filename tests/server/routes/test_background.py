"""Background responses: queued, run, fetched and followed."""

import asyncio
from typing import Any

import pytest
from support.background import Background, held_back
from support.engine import MockEngine, Refusal
from support.gateway import GatewayUnderTest, running_gateway
from support.streams import check_stream

from bench.processes import free_port

BEGINNING = ["response.created", "response.queued", "response.in_progress"]


@pytest.fixture
def background(gateway: GatewayUnderTest) -> Background:
    return Background(gateway)


# ---- made ------------------------------------------------------------------------------------------------------------


async def test_a_response_is_queued_at_once_and_run_later(background: Background, engine: MockEngine) -> None:
    queued = await background.create("Hi", metadata={"a": "b"})
    assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
    response = await background.ended(queued["id"])
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hello world"
    assert response["usage"]["total_tokens"] == 17
    assert response["completed_at"] >= response["created_at"]
    assert {name: response[name] for name in ("id", "created_at", "metadata", "background", "store")} == {
        "id": queued["id"],
        "created_at": queued["created_at"],
        "metadata": {"a": "b"},
        "background": True,
        "store": True,
    }


async def test_progress_can_be_seen(background: Background, engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]
    await engine.asked.wait()
    assert (await background.get(id))["status"] == "in_progress"
    go_on.set()
    assert (await background.ended(id))["status"] == "completed"


async def test_input_items_keep_the_ids_from_the_queue(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        background = Background(gateway)
        id = (await background.create("Hi"))["id"]
        _, before = await gateway.get(f"/v1/responses/{id}/input_items")
        await background.ended(id)
        assert (await gateway.get(f"/v1/responses/{id}/input_items"))[1] == before
        assert before["data"][0]["content"] == [{"type": "input_text", "text": "Hi"}]


async def test_a_background_response_continues_another_and_is_continued(background: Background, engine: MockEngine) -> None:
    first = await background.gateway.create("One")
    second = await background.made("Two", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    await background.gateway.create("Three", previous_response_id=second["id"])
    said = ["One", "Hello world", "Two", "Hello world", "Three"]
    assert [message["content"] for message in engine.last["messages"]] == said


async def test_an_unfinished_response_cannot_be_continued(background: Background, engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]
    status, body = await background.gateway.post({"input": "Hi", "previous_response_id": id})
    assert (status, body["error"]["code"]) == (400, "previous_response_not_finished")
    go_on.set()
    await background.ended(id)
    await background.gateway.create("Again", previous_response_id=id)


async def test_as_many_responses_run_at_once_as_there_are_workers(engine: MockEngine) -> None:
    scripts = [held_back("Hel", "lo") for _ in range(2)]
    engine.will(*(script for script, _ in scripts))
    async with running_gateway(engine, background_workers=1) as gateway:
        background = Background(gateway)
        ids = [(await background.create())["id"] for _ in range(2)]
        await background.seen(ids[0], "in_progress")
        assert (await background.get(ids[1]))["status"] == "queued"
        for id, (_, go_on) in zip(ids, scripts, strict=True):
            await background.seen(id, "in_progress")
            go_on.set()
            await background.ended(id)
    assert len(engine.requests) == 2


async def test_a_failure_of_the_engine_is_a_failed_response(background: Background, engine: MockEngine) -> None:
    engine.will(Refusal(500, {"error": {"message": "out of memory"}}))
    response = await background.made()
    assert response["status"] == "failed"
    assert "out of memory" in response["error"]["message"]
    assert check_stream(await background.follow(response["id"]))["status"] == "failed"


async def test_an_engine_that_is_away_is_waited_for(engine: MockEngine) -> None:
    port = free_port()
    late = MockEngine()
    async with running_gateway(f"http://127.0.0.1:{port}") as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        await background.seen(id, "in_progress")
        await late.start(port)
        try:
            assert (await background.ended(id))["status"] == "completed"
        finally:
            await late.stop()


async def test_the_wait_for_an_engine_that_stays_away_ends() -> None:
    async with running_gateway(f"http://127.0.0.1:{free_port()}", background_patience=0.1) as gateway:
        background = Background(gateway)
        response = await background.made()
        assert response["status"] == "failed"
        assert "No engine answers" in response["error"]["message"]
        events = await background.follow(response["id"])
        assert [event["type"] for event in events] == [*BEGINNING, "response.failed"]
        check_stream(events)


# ---- rejected --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 7}, "temperature"),
        ({"include": ["nonsense"]}, "include[0]"),
        ({"input": [{"type": "function_call_output", "call_id": "nobody", "output": ""}]}, "input[0].call_id"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"previous_response_id": "resp_nowhere"}, "previous_response_id"),
        ({"previous_response_id": "resp_a", "conversation": "conv_b"}, "conversation"),
    ],
)
async def test_a_bad_request_is_rejected_before_it_is_queued(
    gateway: GatewayUnderTest, engine: MockEngine, fields: dict[str, Any], param: str
) -> None:
    status, body = await gateway.post({"model": "mock", "input": "Hi", "background": True, **fields})
    assert (status, body["error"]["param"]) == (400, param)
    assert engine.requests == []


async def test_a_compaction_cannot_run_in_the_background(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"model": "mock", "input": "Hi", "background": True}, "/v1/responses/compact")
    assert (status, body["object"]) == (200, "response.compaction")


async def test_what_was_left_out_is_named_in_the_notice_when_it_is_queued(background: Background) -> None:
    await background.create("Hi", colour="red")
    assert "colour" in background.gateway.notice


# ---- conversations ---------------------------------------------------------------------------------------------------


async def test_a_conversation_gets_the_items_when_it_is_finished(background: Background, engine: MockEngine) -> None:
    gateway = background.gateway
    _, conversation = await gateway.post({}, "/v1/conversations")
    response = await background.made("Hi", conversation=conversation["id"])
    assert response["conversation"] == {"id": conversation["id"]}
    _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    assert [item["role"] for item in items["data"]] == ["user", "assistant"]
    await gateway.create("Again", conversation=conversation["id"])
    assert len(engine.last["messages"]) == 3


async def test_a_locked_conversation_is_waited_for(background: Background, engine: MockEngine) -> None:
    gateway = background.gateway
    _, conversation = await gateway.post({}, "/v1/conversations")
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    first = asyncio.create_task(gateway.create("One", conversation=conversation["id"]))
    await engine.asked.wait()
    id = (await background.create("Two", conversation=conversation["id"]))["id"]
    await background.seen(id, "in_progress")
    assert len(engine.requests) == 1
    go_on.set()
    await first
    assert (await background.ended(id))["status"] == "completed"
    assert [message["content"] for message in engine.last["messages"]] == ["One", "Hello", "Two"]


async def test_a_conversation_that_stays_locked_fails_the_response(engine: MockEngine) -> None:
    async with running_gateway(engine, background_patience=0.1) as gateway:
        _, conversation = await gateway.post({}, "/v1/conversations")
        assert await gateway.gateway.store.lock_conversation("", conversation["id"], "resp_other", 60)
        response = await Background(gateway).made("Hi", conversation=conversation["id"])
        assert response["status"] == "failed"
        assert "Another response" in response["error"]["message"]
        assert engine.requests == []


async def test_an_unknown_conversation_is_a_404(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"input": "Hi", "background": True, "conversation": "conv_nowhere"})
    assert (status, body["error"]["code"]) == (404, "conversation_not_found")
