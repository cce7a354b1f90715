"""Background responses with `store: false`: there while they run and for ten minutes after their end, then gone."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from support.background import Background, held_back
from support.engine import Answer, MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import Clock, count_rows
from support.streams import check_stream

from antiphon.store import Store, open_store

pytestmark = pytest.mark.timeout(60)

KEPT = 600


@pytest.fixture
def clock() -> Clock:
    """Of the store. The gateway's own clock goes on as ever."""
    now = Clock()
    now.now = time.time()
    return now


@asynccontextmanager
async def gateway_on(store: Store, engine: MockEngine, **settings: Any) -> AsyncIterator[Background]:
    async with running_gateway(engine, shares=store, **settings) as gateway:
        yield Background(gateway)


@pytest_asyncio.fixture
async def background(store: Store, engine: MockEngine) -> AsyncIterator[Background]:
    async with gateway_on(store, engine) as running:
        yield running


def client_of(gateway: GatewayUnderTest) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0)


async def polled(client: AsyncOpenAI, id: str) -> Any:
    response = await client.responses.retrieve(id)
    while response.status in {"queued", "in_progress"}:
        await asyncio.sleep(0.01)
        response = await client.responses.retrieve(id)
    return response


async def until_empty(url: str, store: Store, before: dict[str, int]) -> None:
    """The gateway sweeps its store when it starts."""
    while await count_rows(url, store) != before:
        await asyncio.sleep(0.01)


async def test_the_sdk_polls_and_follows_it_and_then_it_is_gone(
    background: Background, store: Store, url: str, clock: Clock, engine: MockEngine
) -> None:
    before = await count_rows(url, store)
    async with client_of(background.gateway) as client:
        queued = await client.responses.create(model="mock", input="Hi", background=True, store=False)
        assert (queued.status, queued.background, queued.to_dict()["store"]) == ("queued", True, False)
        response = await polled(client, queued.id)
        assert (response.status, response.output_text, response.to_dict()["store"]) == ("completed", "Hello world", False)
        clock.forward(KEPT - 1)
        events = [event async for event in await client.responses.retrieve(queued.id, stream=True, starting_after=2)]
        assert (events[0].sequence_number, events[-1].type) == (3, "response.completed")
        inputs = await client.responses.input_items.list(queued.id)
        assert [item.type for item in inputs.data] == ["message"]
        clock.forward(1)
        for gone in (
            client.responses.retrieve(queued.id),
            client.responses.retrieve(queued.id, stream=True),
            client.responses.cancel(queued.id),
            client.responses.delete(queued.id),
            client.responses.input_items.list(queued.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await gone
    # What a gateway does as it starts, and each minute.
    async with gateway_on(store, engine):
        await until_empty(url, store, before)


@pytest.mark.parametrize("status", ["failed", "incomplete", "cancelled"])
async def test_it_is_gone_however_it_ends(store: Store, url: str, clock: Clock, engine: MockEngine, status: str) -> None:
    before = await count_rows(url, store)
    answers: dict[str, Answer] = {
        "failed": Refusal(400, "no"),
        "incomplete": text("Hel", finish="length"),
        "cancelled": held_back("Hel", "lo")[0],
    }
    engine.will(answers[status])
    async with gateway_on(store, engine) as background:
        id = (await background.create(store=False))["id"]
        await engine.asked.wait()
        ended = await (background.cancel(id) if status == "cancelled" else background.ended(id))
        assert (ended["status"], ended["store"]) == (status, False)
        clock.forward(KEPT)
    async with gateway_on(store, engine):
        await until_empty(url, store, before)


async def test_it_is_there_as_long_as_it_waits_and_runs(store: Store, clock: Clock, engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    # The lease outlasts what passes in a moment here.
    async with gateway_on(store, engine, background_lease=1e6) as background:
        id = (await background.create(store=False))["id"]
        await engine.asked.wait()
        clock.forward(10 * KEPT)
        assert await store.sweep() == 0
        assert (await background.get(id))["status"] == "in_progress"
        go_on.set()
        assert (await background.ended(id))["status"] == "completed"
        check_stream(await background.follow(id))


async def test_it_cannot_be_continued_nor_its_items_referred_to(background: Background, engine: MockEngine) -> None:
    gateway = background.gateway
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create(store=False))["id"]
    unknown = await gateway.post({"input": "Go on", "previous_response_id": "resp_nowhere"})
    assert unknown[1]["error"]["code"] == "previous_response_not_found"
    expected = (400, unknown[1]["error"] | {"message": unknown[1]["error"]["message"].replace("resp_nowhere", id)})
    await engine.asked.wait()
    status, body = await gateway.post({"input": "Go on", "previous_response_id": id})
    assert (status, body["error"]) == expected
    go_on.set()
    response = await background.ended(id)
    for in_background in (False, True):
        status, body = await gateway.post({"input": "Go on", "previous_response_id": id, "background": in_background})
        assert (status, body["error"]) == expected
    _, inputs = await gateway.get(f"/v1/responses/{id}/input_items")
    for item in (response["output"][0], inputs["data"][0]):
        status, body = await gateway.post({"input": [{"type": "item_reference", "id": item["id"]}]})
        assert (status, body["error"]["param"]) == (400, "input[0].id")


async def test_a_conversation_gets_its_items_as_it_does_from_a_response_in_the_foreground(
    background: Background, clock: Clock, engine: MockEngine
) -> None:
    gateway = background.gateway
    _, conversation = await gateway.post({}, "/v1/conversations")
    await background.made("One", store=False, conversation=conversation["id"])
    await gateway.create("Two", store=False, conversation=conversation["id"])
    clock.forward(10 * KEPT)
    await gateway.create("Three", store=False, conversation=conversation["id"])
    said = [message["content"] for message in engine.last["messages"]]
    assert said == ["One", "Hello world", "Two", "Hello world", "Three"]


async def test_it_survives_a_restart_but_not_the_time_that_the_gateway_was_down(
    tmp_path: Path, clock: Clock, engine: MockEngine
) -> None:
    url = f"sqlite:{tmp_path / 'responses.db'}"
    async with open_store(url, clock) as store:
        before = await count_rows(url, store)
        async with gateway_on(store, engine, background_workers=0) as background:
            id = (await background.create(store=False))["id"]
    clock.forward(10 * KEPT)
    async with open_store(url, clock) as store, gateway_on(store, engine) as background:
        assert (await background.ended(id))["output"][0]["content"][0]["text"] == "Hello world"
    clock.forward(KEPT - 1)
    async with open_store(url, clock) as store, gateway_on(store, engine) as background:
        assert (await background.get(id))["status"] == "completed"
    clock.forward(1)
    async with open_store(url, clock) as store, gateway_on(store, engine) as background:
        status, _ = await background.gateway.get(f"/v1/responses/{id}")
        assert status == 404
        await until_empty(url, store, before)


async def test_of_several_gateways_any_runs_shows_and_removes_it(url: str, clock: Clock, engine: MockEngine) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_store(url, clock))
        second = first if url == "memory:" else await stack.enter_async_context(open_store(url, clock))
        before = await count_rows(url, first)
        accepts = await stack.enter_async_context(gateway_on(first, engine, background_workers=0))
        runs = await stack.enter_async_context(gateway_on(second, engine))
        id = (await accepts.create(store=False))["id"]
        assert (await accepts.ended(id))["status"] == "completed"
        assert check_stream(await accepts.follow(id)) == check_stream(await runs.follow(id))
        clock.forward(KEPT)
        for each in (accepts, runs):
            assert (await each.gateway.get(f"/v1/responses/{id}"))[0] == 404
        await asyncio.gather(first.sweep(), second.sweep())
        assert await count_rows(url, first) == before


async def test_how_long_it_is_kept_is_a_setting(store: Store, clock: Clock, engine: MockEngine) -> None:
    async with gateway_on(store, engine, unstored_retention=59.5) as background:
        id = (await background.made(store=False))["id"]
        clock.forward(59)
        assert (await background.get(id))["status"] == "completed"
        clock.forward(1)
        assert (await background.gateway.get(f"/v1/responses/{id}"))[0] == 404
