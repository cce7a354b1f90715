"""/v1/messages/batches: made, worked through, read, listed, cancelled and deleted; by the anthropic SDK, too."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import msgspec
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from anthropic.resources.messages import AsyncBatches
from anthropic.types.messages import MessageBatch
from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway
from support.ways_in import Doors, until

PATH = "/v1/messages/batches"
Body = dict[str, Any]


@pytest_asyncio.fixture
async def stored(engine: MockEngine, url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=url) as gateway:
        yield gateway


def asked(id: str, **params: Any) -> Body:
    message = {"role": "user", "content": id}
    return {"custom_id": id, "params": {"model": "mock", "max_tokens": 9, "messages": [message], **params}}


async def made(gateway: GatewayUnderTest, *requests: Body) -> Body:
    status, batch = await gateway.post({"requests": list(requests)}, PATH)
    assert status == 200, batch
    return batch


async def ended(gateway: GatewayUnderTest, id: str) -> Body:
    for _ in range(1000):
        _, batch = await gateway.get(f"{PATH}/{id}")
        if batch["processing_status"] == "ended":
            return batch
        await asyncio.sleep(0.02)
    raise AssertionError(batch)


async def results(gateway: GatewayUnderTest, batch: Body) -> dict[str, Body]:
    async with gateway.client.get(batch["results_url"]) as answer:
        assert answer.status == 200
        lines = [msgspec.json.decode(each) for each in (await answer.read()).splitlines()]
    found = {line["custom_id"]: line["result"] for line in lines}
    assert len(found) == len(lines)
    return found


async def test_each_request_has_one_result(stored: GatewayUnderTest, engine: MockEngine) -> None:
    engine.otherwise = lambda body: (
        Refusal(400, {"error": {"message": "no"}}) if body["messages"][0]["content"] == "bad" else text("Hello")
    )
    batch = await made(stored, asked("good"), asked("bad"), asked("streams", stream=True), asked("wrong", max_tokens="many"))
    assert batch["type"] == "message_batch"
    assert batch["id"].startswith("msgbatch_")
    assert (batch["processing_status"], batch["results_url"], batch["ended_at"]) == ("in_progress", None, None)
    assert batch["request_counts"] == {"processing": 4, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    batch = await ended(stored, batch["id"])
    assert batch["request_counts"] == {"processing": 0, "succeeded": 1, "errored": 3, "canceled": 0, "expired": 0}
    assert batch["created_at"] <= batch["ended_at"] < batch["expires_at"]
    assert batch["ended_at"].endswith("Z")
    found = await results(stored, batch)
    assert (found["good"]["type"], found["good"]["message"]["content"][0]["text"]) == ("succeeded", "Hello")
    for id in ("bad", "streams", "wrong"):
        assert (found[id]["type"], found[id]["error"]["type"]) == ("errored", "error")
        assert found[id]["error"]["error"]["type"] == "invalid_request_error"


async def test_what_has_no_effect_is_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    batch = await made(gateway, asked("one", color=1) | {"priority": 5}, asked("two"))
    assert gateway.notice == "field requests[0].priority is unknown and was left out"
    found = await results(gateway, await ended(gateway, batch["id"]))
    assert "color" in found["one"]["antiphon_notices"][0]
    assert "antiphon_notices" not in found["two"]


async def test_batches_of_messages_are_listed_cancelled_and_deleted(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    doors = Doors(engine)
    ids = [(await made(gateway, *(asked(f"r{number}") for number in range(6))))["id"] for _ in range(2)]
    _, listed = await gateway.get(PATH)
    assert ([each["id"] for each in listed["data"]], listed["has_more"]) == (ids[::-1], False)
    _, page = await gateway.get(f"{PATH}?limit=1&after_id={ids[1]}")
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[0], ids[0], False)
    _, page = await gateway.get(f"{PATH}?limit=1&before_id={ids[0]}")
    assert page["first_id"] == ids[1]
    # Those of OpenAI's API are others.
    assert (await gateway.get("/v1/batches"))[1]["data"] == []
    assert (await gateway.get(f"/v1/batches/{ids[0]}"))[0] == 404
    await until(lambda: doors.waiting == 4)
    status, error = await gateway.get(f"{PATH}/{ids[0]}", method="DELETE")
    assert (status, error["type"], error["error"]["type"]) == (400, "error", "invalid_request_error")
    status, error = await gateway.get(f"{PATH}/{ids[0]}/results")
    assert (status, error["error"]["type"]) == (404, "not_found_error")
    for id in ids:
        _, cancelling = await gateway.get(f"{PATH}/{id}/cancel", method="POST")
        assert cancelling["processing_status"] == "canceling"
        assert cancelling["cancel_initiated_at"]
    doors.open(100)
    batches = [await ended(gateway, id) for id in ids]
    counts = [batch["request_counts"] for batch in batches]
    assert sum(each["succeeded"] for each in counts) == 4
    assert sum(each["canceled"] for each in counts) == 8
    found = [result for batch in batches for result in (await results(gateway, batch)).values()]
    assert sorted(result["type"] for result in found) == ["canceled"] * 8 + ["succeeded"] * 4
    status, deleted = await gateway.get(f"{PATH}/{ids[0]}", method="DELETE")
    assert (status, deleted) == (200, {"id": ids[0], "type": "message_batch_deleted"})
    assert (await gateway.get(f"{PATH}/{ids[0]}"))[0] == 404
    async with gateway.client.get(batches[0]["results_url"]) as gone:
        assert gone.status == 404


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        ([], "requests"),
        ([asked("a"), asked("a")], "'a'"),
        ([{"custom_id": "with space", "params": {}}], "custom_id"),
        ([{"custom_id": "a"}], "params"),
    ],
)
async def test_a_body_that_is_wrong_is_a_400_of_anthropic(requests: list[Body], says: str, gateway: GatewayUnderTest) -> None:
    status, error = await gateway.post({"requests": requests}, PATH)
    assert (status, error["type"], error["error"]["type"]) == (400, "error", "invalid_request_error")
    assert says in error["error"]["message"]


async def ended_for_sdk(batches: AsyncBatches, id: str) -> MessageBatch:
    for _ in range(1000):
        if (batch := await batches.retrieve(id)).processing_status == "ended":
            return batch
        await asyncio.sleep(0.02)
    raise AssertionError(batch)


@pytest.mark.parametrize("is_beta", [False, True])
async def test_the_sdk_has_all_of_a_batch(is_beta: bool, stored: GatewayUnderTest, engine: MockEngine) -> None:
    async with AsyncAnthropic(base_url=stored.url, api_key="any", max_retries=0, _strict_response_validation=True) as client:
        # Their methods are the same.
        batches: AsyncBatches = client.beta.messages.batches if is_beta else client.messages.batches  # type: ignore[assignment]
        requests: Any = [asked(f"r{number}") for number in range(5)]
        first = await batches.create(requests=requests)
        batch = await ended_for_sdk(batches, first.id)
        assert batch.request_counts.succeeded == 5
        assert batch.ended_at is not None
        assert batch.created_at <= batch.ended_at < batch.expires_at
        found = {each.custom_id: each.result async for each in await batches.results(batch.id)}
        assert sorted(found) == [f"r{number}" for number in range(5)]
        for result in found.values():
            assert result.type == "succeeded"
            [block] = result.message.content
            assert block.type == "text"
            assert block.text == "Hello world"
        doors = Doors(engine)
        second = await batches.create(requests=requests)
        await until(lambda: doors.waiting == 4)
        assert (await batches.cancel(second.id)).processing_status == "canceling"
        doors.open(100)
        counts = (await ended_for_sdk(batches, second.id)).request_counts
        assert (counts.succeeded, counts.canceled, counts.processing) == (4, 1, 0)
        # It asks for further pages by itself.
        assert [each.id async for each in batches.list(limit=1)] == [second.id, first.id]
        assert (await batches.delete(first.id)).type == "message_batch_deleted"
        with pytest.raises(anthropic.NotFoundError):
            await batches.retrieve(first.id)
