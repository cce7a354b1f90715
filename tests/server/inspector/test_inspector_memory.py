"""The memory of the inspector is bounded."""

import asyncio
import io
from typing import Any

import msgspec
import pytest
from support.engine import DONE, MockEngine, Refusal, Writer, chunk, text
from support.gateway import running_gateway
from support.inspector import WEATHER, opened, rows


async def test_the_oldest_requests_are_forgotten_first(engine: MockEngine) -> None:
    async with running_gateway(engine, inspector_bytes=1024 * 1024) as gateway:
        for number in range(20):
            await gateway.create(f"{number} " + "x" * 100_000, store=False)
        found = await rows(gateway)
        _, status = await gateway.get("/inspector/status")
    numbers = [row["number"] for row in found]
    assert numbers == list(range(20, 20 - len(numbers), -1))
    assert 5 <= len(numbers) < 12
    assert status["recording"]["bytes"] <= status["recording"]["max_bytes"] == 1024 * 1024


async def test_a_request_too_large_is_cut_and_says_so(engine: MockEngine) -> None:
    async def much(write: Writer) -> None:
        for _ in range(40):
            await write(chunk({"content": "y" * 10_000}))
        await write(chunk(finish="stop") + DONE)

    engine.will(much, text("Fine"))
    async with running_gateway(engine, inspector_bytes=1024 * 1024) as gateway:
        await gateway.create("Much")
        await gateway.create("z" * 200_000)
        found = await rows(gateway)
        cut, left_out = await opened(gateway, 1), await opened(gateway, 2)
    assert [row["status"] for row in found] == ["completed", "completed"]
    assert (cut["exact"], cut["inexact_reason"]) == (False, "The recording was cut: it would have become too large.")
    assert len(cut["chunks"]) > 5
    assert left_out["exact"] is False
    assert left_out["client"]["text"].endswith("zzz")
    assert left_out["inexact_reason"]


@pytest.mark.parametrize(
    "quoted",
    [
        {"previous_response_id": "r" * 1_000_000},
        {"conversation": "r" * 1_000_000},
        {"tool_choice": {"type": "function", "name": "r" * 1_000_000}, "tools": [WEATHER]},
        {"input": [{"type": "item_reference", "id": "r" * 1_000_000}]},
        {"input": [{"role": "user", "content": [{"type": "r" * 1_000_000}]}]},
    ],
    ids=lambda quoted: next(iter(quoted)),
)
async def test_an_error_quotes_only_the_beginning_of_a_value(engine: MockEngine, quoted: dict[str, Any]) -> None:
    async with running_gateway(engine) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", **quoted})
        (row,) = await rows(gateway)
    assert (status // 100, row["status"]) == (4, "refused")
    assert "rrr" in body["error"]["message"]
    assert len(body["error"]["message"]) < 500
    assert row["error"]["message"] == body["error"]["message"]


async def test_a_row_keeps_only_the_beginning_of_a_long_error(engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "x" * 50_000}}))
    async with running_gateway(engine) as gateway:
        _, body = await gateway.post({"model": "mock", "input": "Hi"})
        (row,) = await rows(gateway)
    assert len(body["error"]["message"]) > 1000
    assert row["error"]["message"] == body["error"]["message"][:500] + "…"


async def test_a_request_that_is_not_kept_whole_shows_no_error_and_no_response(engine: MockEngine) -> None:
    engine.will(text("Fine"), text(*["word " * 10] * 2000))
    async with running_gateway(engine, inspector_bytes=1024 * 1024) as gateway:
        await gateway.create("z" * 200_000)
        await gateway.create("Much")
        await rows(gateway)
        left_out, cut = await opened(gateway, 1), await opened(gateway, 2)
        status, refused = await gateway.get("/inspector/requests/1/recording")
    assert (left_out["row"]["status"], left_out["error"], left_out["response"]) == ("completed", None, None)
    assert (left_out["asks"], left_out["timeline"], left_out["exact"]) == ([], [], False)
    assert left_out["inexact_reason"].startswith("The recording was left out")
    assert (cut["row"]["status"], cut["error"], cut["response"]) == ("completed", None, None)
    assert cut["timeline"]
    assert (status, refused["error"]["message"]) == (404, left_out["inexact_reason"])


async def test_of_a_large_refused_body_with_images_only_the_beginning_is_searched(engine: MockEngine) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "iVBORw0KGgo" * 1000}
    parts = [image, {"type": "input_text", "text": "x" * 3_000_000}, image]
    body = msgspec.json.encode({"model": "mock", "temperature": "hot", "input": [{"role": "user", "content": parts}]})
    async with running_gateway(engine) as gateway:
        json = {"Content-Type": "application/json"}
        async with gateway.client.post(f"{gateway.url}/v1/responses", data=io.BytesIO(body), headers=json) as answered:
            assert answered.status == 400
        await rows(gateway)
        _, status = await gateway.get("/inspector/status")
        view = await opened(gateway, 1)
    assert view["client"]["text"].startswith('{"model":')
    assert "not/kept/11000/characters" in view["client"]["text"]
    assert status["recording"]["bytes"] < 1_100_000


async def test_running_requests_give_their_memory_back_when_there_is_no_other(engine: MockEngine) -> None:
    go_on, sent = asyncio.Event(), asyncio.Semaphore(0)

    async def much(write: Writer) -> None:
        for _ in range(10):
            await write(chunk({"content": "y" * 10_000}))
        sent.release()
        await go_on.wait()
        await write(chunk(finish="stop") + DONE)

    engine.will(*[much] * 20)
    async with running_gateway(engine, inspector_bytes=1024 * 1024) as gateway:
        tasks = [asyncio.create_task(gateway.create(f"Question {number}", store=False)) for number in range(20)]
        for _ in tasks:
            await sent.acquire()
        go_on.set()
        await asyncio.gather(*tasks)
        await rows(gateway)
        _, status = await gateway.get("/inspector/status")
    assert status["recording"]["bytes"] <= 1024 * 1024


async def test_images_are_not_kept(engine: MockEngine) -> None:
    image = "data:image/png;base64," + "iVBORw0KGgo" * 10_000
    parts = [{"type": "input_image", "image_url": image}, {"type": "input_text", "text": "What is it?"}]
    async with running_gateway(engine) as gateway:
        await gateway.create([{"role": "user", "content": parts}])
        await rows(gateway)
        _, status = await gateway.get("/inspector/status")
        view = await opened(gateway, 1)
    assert engine.last["messages"][0]["content"][0]["image_url"]["url"] == image
    assert status["recording"]["bytes"] < 20_000
    assert view["exact"] is True
    assert "not/kept/110000/characters" in str(view["asks"][0]["chat"])


async def test_of_too_many_requests_a_second_some_are_left_out_and_counted(engine: MockEngine) -> None:
    # One request uses up the burst, too.
    async with running_gateway(engine, inspector_rate=0.01) as gateway:
        ids = [(await gateway.create("Hi"))["id"] for _ in range(3)]
        # Who is refused is always shown.
        await gateway.post({"model": "mock", "input": 7})
        found = await rows(gateway)
        _, status = await gateway.get("/inspector/status")
    assert [row["id"] for row in found] == [None, ids[0]]
    assert status["recording"]["left_out"] == 2
