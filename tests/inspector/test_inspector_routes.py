"""The inspector over HTTP: rows, opened requests, who sees what, and the page."""

import asyncio
import gc
import io
import threading
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from support.background import Background, held_back
from support.commands import ANTIPHON, bare_environment
from support.engine import DONE, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway
from support.sockets import connected

from antiphon.core.rerun import Rerun
from antiphon.gateway.run import ResponseRun
from antiphon.http import inspector as routes
from antiphon.http.inspector import INSPECTOR
from antiphon.http.keyring import hash_of_key
from antiphon.inspector.files import POLICY, read_page
from antiphon.inspector.views import to_view
from antiphon.settings import Settings

WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
KEYS: dict[str, Any] = {"keys": {"ann": ("key-of-ann",), "bob": ("key-of-bob",)}, "admin_key": ("key-of-admin",)}


def bearing(name: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer key-of-{name}"}}


def settings_of(engine: MockEngine, **settings: Any) -> Settings:
    return Settings(upstream=(engine.url,), port=0, **DEFAULTS, **settings)


async def rows(gateway: GatewayUnderTest, query: str = "", **options: Any) -> list[dict[str, Any]]:
    """Once none of them runs: a response is written before the run ends."""
    while True:
        status, body = await gateway.get(f"/inspector/requests{query}", **options)
        assert status == 200, body
        found: list[dict[str, Any]] = body["data"]
        if all(row["status"] != "running" for row in found):
            return found


async def opened(gateway: GatewayUnderTest, number: int, **options: Any) -> dict[str, Any]:
    status, body = await gateway.get(f"/inspector/requests/{number}", **options)
    assert status == 200, body
    return body


def living_runs() -> list[ResponseRun]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, ResponseRun)]


# ---- rows ------------------------------------------------------------------------------------------------------------


async def test_a_request_is_a_row_with_its_tokens_and_times(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        response = await gateway.create("What is the answer?")
        (row,) = await rows(gateway)
    assert (row["number"], row["id"], row["status"]) == (1, response["id"], "completed")
    assert (row["model"], row["engine"], row["channel"], row["stream"]) == ("mock", engine.url, "http", False)
    assert (row["input_tokens"], row["output_tokens"], row["asks"]) == (12, 5, 1)
    assert (row["preview"], row["dialect"]) == ("What is the answer?", "plain")
    assert 0 < row["first_token"] <= row["seconds"]


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


# ---- an opened request -----------------------------------------------------------------------------------------------


async def test_an_opened_request_shows_all_three_sides_of_a_tool_conversation(engine: MockEngine) -> None:
    engine.will(answer(call("weather", '{"city": "Rome"}'), finish="tool_calls"), text("It ", "rains."))
    async with running_gateway(engine) as gateway:
        first = await gateway.stream("Rome?", tools=[WEATHER])
        output = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
        previous = first[-1]["response"]["id"]
        second = await gateway.stream([output], tools=[WEATHER], previous_response_id=previous)
        view = await opened(gateway, 2)
    assert view["client"]["body"]["input"] == [output]
    assert [item["type"] for item in view["history"]] == ["message", "function_call"]
    (ask,) = view["asks"]
    assert ask["chat"] == engine.last
    assert (ask["engine"], ask["purpose"], ask["refused"]) == (engine.url, "answer", None)
    events = [moment["event"] for moment in view["timeline"] if moment["kind"] == "event"]
    assert events == second
    assert view["response"] == second[-1]["response"]
    deltas = [moment for moment in view["timeline"] if moment["type"] == "response.output_text.delta"]
    assert len(deltas) == 2
    for moment in deltas:
        assert msgspec.json.encode(moment["event"]["delta"]).decode() in view["chunks"][moment["chunk"]]["text"]
    assert (view["exact"], view["inexact_reason"]) == (True, None)
    assert (view["changes"]["previous"], view["changes"]["prefix_changed"]) == (1, False)
    assert view["row"]["previous"] == 1
    assert view["row"]["prefix_changed"] is False


async def test_a_call_whose_arguments_are_an_object_is_shown(engine: MockEngine) -> None:
    engine.will(answer(call("tool_search", '{"query": "weather"}'), finish="tool_calls"))
    async with running_gateway(engine) as gateway:
        events = await gateway.stream("Find a tool.", tools=[{"type": "tool_search", "execution": "client"}])
        (row,) = await rows(gateway)
        shown = await opened(gateway, row["number"])
    assert events[-1]["response"]["output"][0]["arguments"] == {"query": "weather"}
    assert (row["status"], row["tool_calls"], shown["exact"]) == ("completed", 1, True)


async def test_notices_are_explained(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create("Hi", colour="green")
        (row,) = await rows(gateway)
        view = await opened(gateway, 1)
    assert row["notices"] == 1
    assert view["notices"] == [
        {
            "text": "field colour is unknown and was left out",
            "explanation": "The request has a field that is not part of the Responses API. It had no effect.",
        }
    ]


class SlowViews:
    """The thread in which requests are opened, which goes on when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._to_view = to_view
        monkeypatch.setattr(routes, "to_view", self.to_view)
        self.threads: list[str] = []
        self.begun = asyncio.Event()
        self.may_end = threading.Event()
        self._loop = asyncio.get_running_loop()

    def to_view(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.threads.append(threading.current_thread().name)
        self._loop.call_soon_threadsafe(self.begun.set)
        self.may_end.wait(20)
        return self._to_view(*arguments, **options)


async def test_opened_requests_do_not_delay_the_large_requests_of_others(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        await gateway.post({"model": "mock", "input": "x" * 300_000}, **bearing("ann"))
        views = SlowViews(monkeypatch)
        opening = [asyncio.create_task(opened(gateway, 1, **bearing("ann"))) for _ in range(6)]
        try:
            await views.begun.wait()
            status, _ = await gateway.post({"model": "mock", "input": "y" * 300_000}, **bearing("bob"))
            waiting = len(views.threads)
        finally:
            views.may_end.set()
        shown = await asyncio.gather(*opening)
    assert (status, waiting) == (200, 1)
    assert len(set(views.threads)) == 1
    assert all(view["exact"] for view in shown)


async def test_a_large_request_is_run_again_beside_the_loop(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create("x" * 300_000)
        view = await opened(gateway, 1)
    assert view["exact"] is True
    assert view["asks"][0]["chat"]["messages"][0]["content"] == "x" * 300_000


async def test_items_that_were_referred_to_are_shown_in_their_place(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        first = await gateway.create("Hi")
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        await gateway.create([reference, {"role": "user", "content": "More"}])
        view = await opened(gateway, 2)
    assert view["client"]["body"]["input"][0] == reference
    assert view["asks"][0]["chat"] == engine.last
    assert view["exact"] is True


async def test_a_request_that_failed_does_not_keep_its_run_in_memory(engine: MockEngine) -> None:
    engine.will(*[Refusal(500, {"error": {"message": "Out of memory", "code": 500}})] * 2)
    # Other tests of this process may have left some.
    earlier = {id(run) for run in living_runs()}
    async with running_gateway(engine, retries=0) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"})
        await rows(gateway)
        assert {id(run) for run in living_runs()} <= earlier
        assert (await opened(gateway, 1))["error"]


async def test_opening_a_request_that_was_refused_keeps_nothing_of_it_in_memory(engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "No."}}))
    async with running_gateway(engine) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"})
        await rows(gateway)
        for _ in range(2):
            assert (await opened(gateway, 1))["asks"][0]["refused"]["message"].endswith("No.")
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, Rerun)]


async def test_what_is_forgotten_or_never_was_is_not_found(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create("Hi")
        await rows(gateway)
        for number in ("2", "0", "x", "-1", "9" * 5000):
            assert (await gateway.get(f"/inspector/requests/{number}"))[0] == 404
        async with gateway.client.delete(f"{gateway.url}/inspector/requests") as answered:
            assert answered.status == 204
        assert await rows(gateway) == []
        assert (await gateway.get("/inspector/requests/1"))[0] == 404
        _, status = await gateway.get("/inspector/status")
    assert (status["recording"]["requests"], status["recording"]["bytes"]) == (0, 0)


# ---- what changed since the turn before ------------------------------------------------------------------------------


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


# ---- who sees what ---------------------------------------------------------------------------------------------------


async def test_a_key_sees_its_own_requests_and_the_admin_key_all(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        for name in ("ann", "bob"):
            await gateway.post({"model": "mock", "input": f"I am {name}"}, **bearing(name))
        seen = {name: [row["owner"] for row in await rows(gateway, **bearing(name))] for name in ("ann", "bob", "admin")}
        statuses = {name: (await gateway.get("/inspector/requests/1", **bearing(name)))[0] for name in ("ann", "bob", "admin")}
        for path in ("status", "requests", "requests/1", "requests/1/recording", "live"):
            status, body = await gateway.get(f"/inspector/{path}")
            assert (status, body["error"]["code"]) == (401, "invalid_api_key")
        assert (await gateway.get("/inspector/requests/1/recording", **bearing("bob")))[0] == 404
        _, who = await gateway.get("/inspector/status", **bearing("ann"))
        await (await gateway.client.delete(f"{gateway.url}/inspector/requests", **bearing("bob"))).read()
        left = await rows(gateway, **bearing("admin"))
    assert seen == {"ann": ["ann"], "bob": ["bob"], "admin": ["bob", "ann"]}
    assert statuses == {"ann": 200, "bob": 404, "admin": 200}
    assert (who["keys"], who["owner"], who["admin"], who["recording"]["requests"]) == (True, "ann", False, 1)
    assert [row["owner"] for row in left] == ["ann"]


async def sealed_turns(gateway: GatewayUnderTest, sealed: str) -> None:
    """Two requests of ann: the answer to the first has a seal, which the second sends back."""
    first = {"model": "mock", "input": "Hi", "store": False, "include": ["reasoning.encrypted_content"]}
    path = "/v1/responses/compact" if sealed == "compaction" else "/v1/responses"
    async with gateway.client.post(gateway.url + path, json=first, **bearing("ann")) as answered:
        assert answered.status == 200, await answered.text()
        output = (await answered.json())["output"]
    (item,) = (each for each in output if each["type"] == sealed)
    seal = {
        "type": sealed,
        "encrypted_content": item["encrypted_content"],
        **({"summary": []} if sealed == "reasoning" else {}),
    }
    items = [{"role": "user", "content": "Hi"}, seal, {"role": "user", "content": "More"}]
    status, _ = await gateway.post({"model": "mock", "input": items, "store": False}, **bearing("ann"))
    assert status == 200
    await rows(gateway, **bearing("ann"))


@pytest.mark.parametrize("sealed", ["reasoning", "compaction"])
async def test_the_admin_key_does_not_see_what_was_in_the_seals_of_others(engine: MockEngine, sealed: str) -> None:
    secret = "Zanzibar"
    said = {"content": secret} if sealed == "compaction" else {"reasoning_content": secret}
    engine.will(answer(chunk(said), chunk({"content": " "})))
    async with running_gateway(engine, **KEYS) as gateway:
        await sealed_turns(gateway, sealed)
        assert secret in str(engine.last)
        views, files = {}, {}
        for name in ("ann", "admin"):
            views[name] = await opened(gateway, 2, **bearing(name))
            async with gateway.client.get(f"{gateway.url}/inspector/requests/2/recording", **bearing(name)) as answered:
                files[name] = await answered.text()
    assert views["ann"]["exact"] is True
    assert (secret in str(views["ann"]), secret in files["ann"]) == (True, True)
    assert (secret in str(views["admin"]), secret in files["admin"]) == (False, False)
    assert "characters]" in str(views["admin"]["asks"][0]["chat"])
    assert "seals of another owner" in views["admin"]["inexact_reason"]
    assert views["admin"]["response"]["id"] == views["ann"]["response"]["id"]


async def test_a_key_without_a_name_is_shown_by_a_few_letters_of_its_hash(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("key-of-nobody",), admin_key=("key-of-admin",)) as gateway:
        hash = hash_of_key(b"key-of-nobody")
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("nobody"))
        (row,) = await rows(gateway, **bearing("admin"))
        view = await opened(gateway, 1, **bearing("nobody"))
        _, status = await gateway.get("/inspector/status", **bearing("nobody"))
        found = await rows(gateway, f"?search={hash[:8]}", **bearing("admin"))
    assert row["owner"] == view["row"]["owner"] == status["owner"] == f"unnamed-{hash[:6]}"
    assert hash not in str(view)
    assert found == []


async def test_the_page_needs_no_key_and_has_a_strict_policy(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        async with gateway.client.get(f"{gateway.url}/") as answered:
            page = await answered.text()
            assert (answered.status, answered.content_type) == (200, "text/html")
            assert answered.headers["Content-Security-Policy"] == POLICY
            assert answered.headers["X-Content-Type-Options"] == "nosniff"
            assert answered.headers["Referrer-Policy"] == "no-referrer"
            etag = answered.headers["ETag"]
        async with gateway.client.get(f"{gateway.url}/", headers={"If-None-Match": etag}) as answered:
            assert (answered.status, await answered.read()) == (304, b"")
        for name, file in read_page().items():
            async with gateway.client.get(f"{gateway.url}/inspector/page/{name}") as answered:
                assert (answered.status, answered.headers["Content-Type"]) == (200, file.type)
                assert await answered.read() == file.data
        for path in ("/inspector/page/nothing.js", "/inspector/page/..%2ffiles.py", "/inspector/page/__init__.py"):
            assert (await gateway.get(path))[0] == 404
    assert "<html" in page


async def test_switched_off_nothing_is_recorded_and_there_is_no_page(engine: MockEngine) -> None:
    async with running_gateway(engine, inspector=False) as gateway:
        await gateway.create("Hi")
        for path in ("/", "/inspector/requests", "/inspector/requests/1", "/inspector/live"):
            status, body = await gateway.get(path)
            assert (status, body["error"]["code"]) == (404, "inspector_off")
            assert "`inspector`" in body["error"]["message"]
        status, body = await gateway.get("/inspector/status")
    assert (status, body["recording"]["on"]) == (200, False)


async def test_hidden_texts_are_nowhere(engine: MockEngine) -> None:
    secret = "Zanzibar"
    engine.will(
        answer(chunk({"reasoning_content": secret}), chunk({"content": secret}), call("weather", f'{{"city": "{secret}"}}'))
    )
    async with running_gateway(engine, inspector_bodies=False) as gateway:
        items = [{"role": "user", "content": [{"type": "input_text", "text": secret}]}]
        metadata = {"name": secret}
        await gateway.create(items, instructions=secret, tools=[WEATHER | {"description": secret}], metadata=metadata)
        await gateway.post({"model": "mock", "input": "Hi", "tools": secret})
        await gateway.post(secret.encode())
        found = await rows(gateway)
        views = [await opened(gateway, row["number"]) for row in found]
        status, refused = await gateway.get("/inspector/requests/1/recording")
    assert secret not in str(found)
    assert secret not in str(views)
    view = views[-1]
    assert view["client"]["redacted"] is True
    assert view["client"]["body"]["input"][0]["content"] == [{"type": "input_text", "text": "[8 characters]"}]
    assert view["asks"][0]["chat"]["messages"][0] == {"role": "system", "content": "[8 characters]"}
    assert (view["asks"][0]["chat"]["tools"][0]["function"]["name"], view["row"]["output_tokens"]) == ("weather", 5)
    assert [moment["type"] for moment in view["timeline"] if moment["event"]][-1] == "response.completed"
    assert '"content":"[8 characters]"' in "".join(each["text"] for each in view["chunks"])
    assert (status, refused["error"]["code"]) == (403, "bodies_hidden")


@pytest.mark.parametrize("bodies", [True, False])
async def test_hidden_texts_are_not_found(engine: MockEngine, bodies: bool) -> None:
    async with running_gateway(engine, inspector_bodies=bodies) as gateway:
        await gateway.create("The password is hunter2")
        await gateway.post({"model": "mock", "input": "Hi", "previous_response_id": "hunter3"})
        found = {text: len(await rows(gateway, f"?search={text}")) for text in ("hunter2", "hunter3", "completed")}
    assert found == {"hunter2": int(bodies), "hunter3": int(bodies), "completed": 1}


@pytest.mark.parametrize("bodies", [True, False])
async def test_the_reason_of_a_failed_rerun_quotes_nothing_where_texts_are_hidden(engine: MockEngine, bodies: bool) -> None:
    secret = "Zanzibar"
    async with running_gateway(engine, inspector_bodies=bodies) as gateway:
        await gateway.create("Hi")
        await rows(gateway)
        recordings = gateway.app[INSPECTOR].recordings
        assert recordings is not None
        (request,) = recordings
        choice = {"type": "function", "name": secret}
        request.recording.body = msgspec.json.encode(
            {"model": "mock", "input": "Hi", "tools": [WEATHER], "tool_choice": choice}
        )
        view = await opened(gateway, 1)
    assert (view["exact"], view["error"], view["response"]) == (False, None, None)
    assert view["inexact_reason"].startswith("The request cannot be read again.")
    assert (secret in str(view["inexact_reason"])) is bodies


@pytest.mark.parametrize("bodies", [True, False])
async def test_a_body_that_is_too_deep_can_be_opened(engine: MockEngine, bodies: bool) -> None:
    async with running_gateway(engine, inspector_bodies=bodies) as gateway:
        for depth in (150, 900, 100_000):
            await gateway.post(b'{"model": "mock", "input": ' + b"[" * depth + b"]" * depth + b"}")
        found = await rows(gateway)
        views = [await opened(gateway, row["number"]) for row in found]
    assert [row["status"] for row in found] == ["refused"] * 3
    assert all(view["error"] for view in views)


# ---- memory ----------------------------------------------------------------------------------------------------------


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


async def test_so_many_requests_are_kept_and_no_more(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.inspector.recordings.MOST_ENDED", 3)
    async with running_gateway(engine) as gateway:
        for _ in range(5):
            await gateway.create("Hi", store=False)
        assert [row["number"] for row in await rows(gateway)] == [5, 4, 3]


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


# ---- live ------------------------------------------------------------------------------------------------------------


class Watching:
    """Reads the rows of a live stream."""

    def __init__(self, answered: aiohttp.ClientResponse) -> None:
        self._answered = answered

    async def next(self) -> dict[str, Any]:
        while True:
            frame = await self._answered.content.readuntil(b"\n\n")
            if frame.startswith(b"event: row\ndata: "):
                row: dict[str, Any] = msgspec.json.decode(frame.partition(b"data: ")[2])
                return row

    async def until(self, status: str) -> dict[str, Any]:
        while (row := await self.next())["status"] != status:
            pass
        return row


async def test_rows_are_shown_live_to_their_end(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine) as gateway, gateway.client.get(f"{gateway.url}/inspector/live") as answered:
        assert answered.content_type == "text/event-stream"
        viewer = Watching(answered)
        asking = asyncio.create_task(gateway.create("Hi"))
        row = await viewer.next()
        assert (row["number"], row["status"]) == (1, "running")
        go_on.set()
        response = await asking
        row = await viewer.until("completed")
        assert (row["id"], row["output_tokens"]) == (response["id"], 5)


async def test_a_viewer_sees_only_what_its_key_may_see(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, **KEYS) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live", **bearing("ann")) as answered,
    ):
        viewer = Watching(answered)
        for name in ("bob", "ann"):
            await gateway.post({"model": "mock", "input": "Hi"}, **bearing(name))
        assert (await viewer.until("completed"))["owner"] == "ann"


@pytest.mark.parametrize("name", ["ann", "admin"])
async def test_a_key_that_was_removed_watches_no_longer(engine: MockEngine, name: str) -> None:
    async with (
        running_gateway(engine, **KEYS) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live", **bearing(name)) as answered,
        asyncio.timeout(10),
    ):
        await answered.content.readuntil(b"\n\n")
        left = {"keys": {"ann": ("another-key",), "bob": ("key-of-bob", "key-of-ann-now")}, "admin_key": ("another-admin-key",)}
        await gateway.reload(settings_of(engine, **left))
        for key in ("another-key", "key-of-bob"):
            await gateway.post({"model": "mock", "input": "Hi"}, headers={"Authorization": f"Bearer {key}"})
        rest = await answered.content.read()
    assert b"event: row" not in rest


async def test_who_watches_without_a_key_stops_when_keys_are_set(engine: MockEngine) -> None:
    async with (
        running_gateway(engine) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live") as answered,
        asyncio.timeout(10),
    ):
        await answered.content.readuntil(b"\n\n")
        await gateway.reload(settings_of(engine, **KEYS))
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ann"))
        rest = await answered.content.read()
    assert b"event: row" not in rest


async def test_a_key_that_gets_a_name_goes_on_watching(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, api_key=("key-of-ann",)) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live", **bearing("ann")) as answered,
        asyncio.timeout(10),
    ):
        await answered.content.readuntil(b"\n\n")
        await gateway.reload(settings_of(engine, keys={"ann": ("key-of-ann",)}))
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ann"))
        assert (await Watching(answered).until("completed"))["owner"] == "ann"


async def test_a_shutdown_does_not_wait_for_viewers(engine: MockEngine) -> None:
    async with asyncio.timeout(10):
        async with running_gateway(engine, shutdown_timeout=60) as gateway:
            answered = await gateway.client.get(f"{gateway.url}/inspector/live")
            await answered.content.readuntil(b"\n\n")
        assert await answered.content.read() == b""


# ---- recordings as files ---------------------------------------------------------------------------------------------


async def run(*arguments: str) -> tuple[int, bytes, str]:
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=bare_environment()
    )
    out, err = await process.communicate()
    return process.returncode or 0, out, err.decode()


async def test_a_recording_is_replayed_to_the_bytes_that_the_client_got(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(answer(chunk({"reasoning_content": "Hm"}), chunk({"content": "Yes"})))
    async with running_gateway(engine, **KEYS) as gateway:
        body = {"model": "mock", "input": "Hi", "stream": True, "store": False}
        async with gateway.client.post(f"{gateway.url}/v1/responses", json=body, **bearing("ann")) as answered:
            got = await answered.read()
        await rows(gateway, **bearing("ann"))
        async with gateway.client.get(f"{gateway.url}/inspector/requests/1/recording", **bearing("ann")) as answered:
            assert answered.headers["Content-Disposition"] == 'attachment; filename="antiphon-1.json"'
            recording = await answered.read()
    assert b"key-of-ann" not in recording
    file = tmp_path / "antiphon-1.json"
    file.write_bytes(recording)
    assert await run("replay", str(file)) == (0, got, "")


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b'{"antiphon_recording": 99}', 2, "version 99"),
        (b'{"antiphon_recording": 1, "body": 3}', 2, "damaged"),
    ],
)
async def test_a_file_that_is_no_recording_is_refused(data: bytes, status: int, message: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(data)
    code, out, err = await run("replay", str(file))
    assert (code, out) == (status, b"")
    assert message in err


async def test_a_refused_request_has_no_recording(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.post({"model": "mock", "input": 7})
        status, body = await gateway.get("/inspector/requests/1/recording")
    assert status == 404
    assert "refused before it ran" in body["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_replay_of_a_refused_request_is_its_error(engine: MockEngine, tmp_path: Path, stream: bool) -> None:
    engine.will(Refusal(400, {"error": {"message": "No such thing."}}))
    async with running_gateway(engine) as gateway:
        assert (await gateway.post({"model": "mock", "input": "Hi", "stream": stream}))[0] == 400
        await rows(gateway)
        async with gateway.client.get(f"{gateway.url}/inspector/requests/1/recording") as answered:
            file = tmp_path / "refused.json"
            file.write_bytes(await answered.read())
    status, out, err = await run("replay", str(file))
    assert (status, out) == (1, b""), err
    assert err == "antiphon: the client got an error, and no events: 400 The engine refused the request: No such thing.\n"
