"""Every request is a row of the inspector."""

from typing import Any

import msgspec
import pytest
from support.background import Background, held_back
from support.chat import USER, WEATHER
from support.engine import MockEngine, Refusal, answer, call, text
from support.gateway import running_gateway
from support.inspector import KEYS, bearing, opened, rows
from support.inspector import WEATHER as TOOL
from support.sockets import connected

from antiphon.server.inspector.rows import ANSWER_LENGTH, MOST_NAMES, last_words_of_chat, messages_of_chat


async def test_a_request_is_a_row_with_its_tokens_and_times(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        response = await gateway.create("What is the answer?")
        (row,) = await rows(gateway)
    assert (row["number"], row["id"], row["status"]) == (1, response["id"], "completed")
    assert (row["model"], row["engine"], row["channel"], row["stream"]) == ("mock", engine.url, "http", False)
    assert (row["input_tokens"], row["output_tokens"], row["asks"]) == (12, 5, 1)
    assert (row["preview"], row["dialect"]) == ("What is the answer?", "plain")
    assert 0 < row["first_token"] <= row["seconds"]


async def test_a_row_has_the_beginning_of_the_answer_and_the_names_of_its_calls(engine: MockEngine) -> None:
    calls = b"".join(call("weather", '{"city": "Oslo"}', index=at, id=f"call_{at}") for at in range(MOST_NAMES + 1))
    engine.will(text("An answer" + " that goes on" * 100), answer(calls, finish="tool_calls"))
    async with running_gateway(engine) as gateway:
        for _ in range(2):
            await gateway.create("Hi", tools=[TOOL])
        called, said = await rows(gateway)
        (found,) = await rows(gateway, "?search=AN%20ANSWER")
    assert said["answer"] == ("An answer" + " that goes on" * 100)[:ANSWER_LENGTH]
    assert (said["called"], called["answer"]) == ([], None)
    assert (called["called"], called["tool_calls"]) == (["weather"] * MOST_NAMES, MOST_NAMES + 1)
    assert found["number"] == said["number"]


async def test_without_texts_a_row_has_no_answer_and_is_not_found_by_it(engine: MockEngine) -> None:
    engine.will(text("An answer"))
    async with running_gateway(engine, inspector_bodies=False) as gateway:
        await gateway.create("Hi")
        (row,) = await rows(gateway)
        assert await rows(gateway, "?search=answer") == []
    assert (row["preview"], row["answer"]) == (None, None)


async def test_the_newest_rows_come_first_a_page_at_a_time(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        for number in range(5):
            await gateway.create(f"Question {number}", store=False)
        status, page = await gateway.get("/inspector/requests?limit=2")
        assert status == 200
        assert ([row["number"] for row in page["data"]], page["has_more"]) == ([5, 4], True)
        _, page = await gateway.get("/inspector/requests?limit=3&before=4")
    assert ([row["number"] for row in page["data"]], page["has_more"]) == ([3, 2, 1], False)


async def test_rows_can_be_searched_and_filtered(engine: MockEngine) -> None:
    engine.lists("mock", "other")
    async with running_gateway(engine) as gateway:
        await gateway.create("Tea or coffee?")
        await gateway.create("Milk?", model="other")
        await gateway.post({"model": "mock", "input": 7})
        engine.will(Refusal(400, {"error": {"message": "No way", "code": 400}}))
        await gateway.post({"model": "mock", "input": "x"})
        found = {
            query: [row["number"] for row in await rows(gateway, query)]
            for query in (
                "?search=TEA",
                "?model=other",
                "?status=failed",
                "?status=completed&model=mock",
                "?status=running",
                "?search=way",
            )
        }
        status, body = await gateway.get("/inspector/requests?status=done")
    assert found == {
        "?search=TEA": [1],
        "?model=other": [2],
        "?status=failed": [4, 3],
        "?status=completed&model=mock": [1],
        "?status=running": [],
        "?search=way": [4],
    }
    assert (status, body["error"]["param"]) == (400, "status")


async def test_a_refused_request_is_a_row_with_its_body_and_its_error(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.post({"model": "mock", "input": 7})
        await gateway.post(b"{nonsense")
        second, first = await rows(gateway)
        view, broken = await opened(gateway, 1), await opened(gateway, 2)
    assert (first["status"], first["http_status"], first["id"]) == ("refused", 400, None)
    assert (first["error"]["param"], second["error"]["code"]) == ("input", "invalid_json")
    assert view["client"]["body"] == {"model": "mock", "input": 7}
    assert (view["error"]["code"], view["asks"], view["timeline"]) == (first["error"]["code"], [], [])
    assert (broken["client"]["body"], broken["client"]["text"]) == (None, "{nonsense")
    assert broken["error"]["explanation"] == "The body of the request is not a JSON object."


async def test_requests_of_other_protocols_are_rows(engine: MockEngine) -> None:
    engine.otherwise = lambda body: text("Hello")
    async with running_gateway(engine) as gateway:
        message = {"model": "mock", "max_tokens": 9, "messages": [USER], "stream": True}
        for path, more in (("/v1/messages", {}), ("/v1/chat/completions", {"tools": [WEATHER]}), ("/v1/chat/completions", {})):
            async with gateway.client.post(gateway.url + path, json={**message, **more}) as answered:
                await answered.read()
        passed, chat, first = await rows(gateway)
        view = await opened(gateway, 3)
        status, refused = await gateway.get("/inspector/requests/3/recording")
    assert [row["path"] for row in (first, chat, passed)] == ["/v1/messages", *["/v1/chat/completions"] * 2]
    assert [row["status"] for row in (first, chat, passed)] == ["completed", "completed", "passed"]
    assert {row["preview"] for row in (first, chat, passed)} == {"Hi"}
    assert (passed["model"], passed["engine"], passed["http_status"]) == ("mock", engine.url, 200)
    assert (view["client"]["body"], view["asks"], view["timeline"]) == (message, [], [])
    assert status == 404
    assert refused["error"]["message"].startswith("The request was passed on to the engine as it came")


@pytest.mark.parametrize("content", ["a", [{"type": "text", "text": "a"}]])
def test_what_the_user_said_last_is_read_of_a_chat_request_that_was_passed_on(content: Any) -> None:
    messages = [{"role": "user", "content": "b"}, {"role": "user", "content": content}, {"role": "assistant", "content": "c"}]
    read = messages_of_chat(msgspec.json.encode({"messages": messages}))
    assert (last_words_of_chat(read) or "").strip() == "a"


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"messages": []}', b'{"messages": [1]}', b'{"messages":[{}]}' + b" " * 65_536])
def test_a_body_that_is_none_or_too_long_has_no_last_words(body: bytes) -> None:
    assert last_words_of_chat(messages_of_chat(body)) is None


async def test_a_passed_on_request_that_fails_is_a_failed_row(engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "no", "code": 400}}))
    async with running_gateway(engine) as gateway:
        await gateway.post({"model": "mock", "messages": [USER]}, "/v1/chat/completions")
        (row,) = await rows(gateway)
    assert (row["status"], row["http_status"], row["error"]["message"]) == ("failed", 400, "The engine answered with HTTP 400.")


async def test_an_engine_that_is_away_is_a_failed_row_with_advice(engine: MockEngine) -> None:
    engine.will(*[Refusal(500, {"error": {"message": "Out of memory", "code": 500}})] * 3)
    async with running_gateway(engine, retries=0) as gateway:
        status, _ = await gateway.post({"model": "mock", "input": "Hi"})
        (row,) = await rows(gateway)
        view = await opened(gateway, 1)
    assert (row["status"], row["http_status"]) == ("failed", status)
    assert "Out of memory" in view["error"]["message"]
    assert view["error"]["what_to_do"]
    assert "Out of memory" in view["asks"][0]["refused"]["message"]
    assert [moment["kind"] for moment in view["timeline"]] == ["ask", "refused"]


async def test_a_client_that_leaves_is_a_row(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine) as gateway:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(f"{gateway.url}/v1/responses", json=body) as answered:
            await answered.content.readuntil(b"output_text.delta")
            (row,) = (await gateway.get("/inspector/requests?status=running"))[1]["data"]
            running = await opened(gateway, 1)
            answered.close()
        (left,) = await rows(gateway)
        go_on.set()
        view = await opened(gateway, 1)
    assert (row["status"], left["status"]) == ("running", "left")
    assert row["seconds"] is None
    assert running["timeline"][-1]["event"]["delta"] == "Hel"
    assert running["response"] is None
    assert view["exact"] is True


async def test_websockets_background_responses_and_compactions_are_rows(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        async with connected(gateway) as socket:
            await socket.create("Over a socket")
        await Background(gateway).made("In the background")
        await gateway.post({"model": "mock", "input": "To be compacted"}, "/v1/responses/compact")
        found = await rows(gateway)
        views = [await opened(gateway, row["number"]) for row in found]
    assert [row["channel"] for row in found] == ["compact", "background", "websocket"]
    assert all(view["exact"] for view in views)
    assert views[0]["client"]["path"] == "/v1/responses/compact"
    assert views[0]["asks"][0]["purpose"] == "compaction"


async def test_a_few_headers_are_kept_and_no_secret(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        headers = {**bearing("ann")["headers"], "User-Agent": "a client", "X-Secret": "hidden", "Cookie": "hidden"}
        await gateway.post({"model": "mock", "input": "Hi"}, headers=headers)
        await gateway.post({"model": "mock", "input": 7}, headers=headers)
        await rows(gateway, **bearing("ann"))
        views = [await opened(gateway, number, **bearing("ann")) for number in (1, 2)]
    assert [view["client"]["headers"]["User-Agent"] for view in views] == ["a client"] * 2
    assert "hidden" not in str(views)
    assert "key-of-ann" not in str(views)
