"""Who sees what in the inspector, and what is hidden."""

import msgspec
import pytest
from support.engine import MockEngine, answer, call, chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.inspector import KEYS, WEATHER, bearing, opened, rows

from antiphon.ids import hash_of_key
from antiphon.server.inspector.inspector import POLICY, read_page
from antiphon.server.parts import APP


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
        recordings = gateway.app[APP].inspection.inspector.recordings
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
