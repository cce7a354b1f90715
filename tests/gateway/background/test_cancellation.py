"""The cancellation of a background response: while it waits, while it runs, and after its end."""

import asyncio

import pytest
from support.background import Background, held_back
from support.engine import MockEngine, Refusal, Writer
from support.gateway import GatewayUnderTest, running_gateway
from support.streams import BEGINNING, TERMINAL, check_stream

from bench.processes import free_port


@pytest.fixture
def background(gateway: GatewayUnderTest) -> Background:
    return Background(gateway)


async def test_a_queued_response_is_cancelled_and_its_followers_get_the_terminal_event(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=0) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        following = asyncio.create_task(background.follow(id))
        response = await background.cancel(id)
        assert response["status"] == "cancelled"
        assert await background.get(id) == response
        for events in (await following, await background.follow(id)):
            assert [event["type"] for event in events] == [*BEGINNING[:2], "response.incomplete"]
            assert [event["sequence_number"] for event in events] == [0, 1, 2]
            assert events[-1]["response"] == response
    assert engine.requests == []


async def test_a_running_response_is_cancelled_and_its_engine_released(background: Background, engine: MockEngine) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create(stream=False))["id"]
    following = asyncio.create_task(background.follow(id))
    await engine.asked.wait()
    response = await background.cancel(id)
    await engine.cancelled.wait()
    assert (response["status"], response["error"]) == ("cancelled", None)
    events = await following
    assert check_stream(events) == response
    assert events[-1]["type"] == "response.incomplete"
    assert await background.follow(id) == events


async def test_a_cancelled_response_has_the_usage_of_what_was_written(background: Background, engine: MockEngine) -> None:
    script, _ = held_back("These are some words.", "never")
    engine.will(script)
    id = (await background.create("How many words?"))["id"]
    with background.gateway.gateway.store.follow(id) as wakeup:
        while not (await background.get(id))["output"]:
            await wakeup.wait()
    response = await background.cancel(id)
    assert response["status"] == "cancelled"
    assert response["output"][0]["content"][0]["text"] == "These are some words."
    assert response["usage"]["output_tokens"] > 0
    assert response["usage"]["input_tokens"] > 0
    assert check_stream(await background.follow(id)) == response


async def test_a_response_whose_engine_has_not_answered_yet_is_cancelled(background: Background, engine: MockEngine) -> None:
    never = asyncio.Event()

    async def silent(write: Writer) -> None:
        await never.wait()

    engine.will(silent)
    id = (await background.create())["id"]
    await engine.asked.wait()
    assert (await background.cancel(id))["status"] == "cancelled"
    await engine.cancelled.wait()


async def test_a_response_that_waits_for_its_engine_is_cancelled() -> None:
    async with running_gateway(f"http://127.0.0.1:{free_port()}") as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        await background.seen(id, "in_progress")
        assert (await background.cancel(id))["status"] == "cancelled"
        assert check_stream(await background.follow(id))["status"] == "cancelled"


async def test_cancelling_a_finished_response_returns_it_unchanged(background: Background, engine: MockEngine) -> None:
    engine.will(Refusal(500, {"error": {"message": "broken"}}))
    failed, completed = await background.made(), await background.made()
    assert (failed["status"], completed["status"]) == ("failed", "completed")
    for response in (failed, completed):
        assert await background.cancel(response["id"]) == response


async def test_cancelling_twice_does_the_same_as_once(background: Background, engine: MockEngine) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]
    await engine.asked.wait()
    first, second = await asyncio.gather(background.cancel(id), background.cancel(id))
    assert first == second == await background.cancel(id)


async def test_an_unknown_response_and_one_in_the_foreground_cannot_be_cancelled(gateway: GatewayUnderTest) -> None:
    assert (await gateway.post(b"", "/v1/responses/resp_nowhere/cancel"))[0] == 404
    id = (await gateway.create("Hi"))["id"]
    status, body = await gateway.post(b"", f"/v1/responses/{id}/cancel")
    assert (status, body["error"]["code"]) == (400, "not_a_background_response")


async def test_a_cancelled_response_unlocks_its_conversation(background: Background, engine: MockEngine) -> None:
    gateway = background.gateway
    _, conversation = await gateway.post({}, "/v1/conversations")
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create("One", conversation=conversation["id"]))["id"]
    await engine.asked.wait()
    await background.cancel(id)
    response = await gateway.create("Two", conversation=conversation["id"])
    assert response["status"] == "completed"
    # The conversation has nothing of the response that was cancelled.
    assert [message["content"] for message in engine.last["messages"]] == ["Two"]


async def test_deleting_a_running_response_cancels_it_first(background: Background, engine: MockEngine) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]
    following = asyncio.create_task(background.follow(id))
    await engine.asked.wait()
    status, body = await background.gateway.get(f"/v1/responses/{id}", method="DELETE")
    assert (status, body) == (200, {"id": id, "object": "response", "deleted": True})
    await engine.cancelled.wait()
    ends = [event["response"]["status"] for event in await following if event["type"] in TERMINAL]
    assert ends == ["cancelled"]
    assert (await background.gateway.get(f"/v1/responses/{id}"))[0] == 404


async def test_a_response_can_be_cancelled_through_another_gateway(background: Background, engine: MockEngine) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, shares=background.gateway.gateway.store, background_workers=0) as other:
        id = (await Background(other).create())["id"]
        await engine.asked.wait()
        assert (await Background(other).cancel(id))["status"] == "cancelled"
    await engine.cancelled.wait()
