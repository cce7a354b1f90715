"""`include` for stored items: reasoning is sealed when it is fetched, if the client asks for that."""

from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest
from support.streams import check_stream, parse

from antiphon.sealing import item_to_sealed

SEALED = "include[]=reasoning.encrypted_content"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I know."}]}
THINKING = answer(chunk({"reasoning": "I think so."}), call("f", "{}", id="c1"), finish="tool_calls")


async def fetched(gateway: GatewayUnderTest, path: str) -> dict[str, Any]:
    status, body = await gateway.get(path)
    assert status == 200, body
    return body


async def opened(gateway: GatewayUnderTest, engine: MockEngine, item: dict[str, Any]) -> str:
    """What the engine gets when a client sends back only the seal of a reasoning item."""
    kept = {"type": "reasoning", "summary": [], "encrypted_content": item["encrypted_content"]}
    await gateway.create([{"role": "user", "content": "Hi"}, kept, {"role": "assistant", "content": "Yes"}], store=False)
    assert gateway.notice == ""
    reached: str = engine.last["messages"][1]["content"]
    return reached


@pytest.mark.parametrize(
    "query",
    [
        "include[]=reasoning.encrypted_content",
        "include%5B%5D=reasoning.encrypted_content",
        "include=reasoning.encrypted_content",
        "include[0]=reasoning.encrypted_content",
        "include=message.input_image.image_url&include=reasoning.encrypted_content",
        "include[0]=message.input_image.image_url&include[1]=reasoning.encrypted_content",
    ],
)
async def test_a_stored_response_is_shown_with_its_reasoning_sealed(
    gateway: GatewayUnderTest, engine: MockEngine, query: str
) -> None:
    engine.will(THINKING)
    made = await gateway.create(tools=[TOOL])
    path = f"/v1/responses/{made['id']}"
    shown = await fetched(gateway, f"{path}?{query}")
    reasoning, called = shown["output"]
    assert reasoning.pop("encrypted_content").startswith("antiphon1.")
    assert shown == made
    assert called["call_id"] == "c1"
    assert await fetched(gateway, path) == made, "nothing of it was stored"


async def test_a_client_can_continue_without_the_store_from_what_it_fetched(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(THINKING)
    made = await gateway.create(tools=[TOOL])
    reasoning = (await fetched(gateway, f"/v1/responses/{made['id']}?{SEALED}"))["output"][0]
    assert "I think so." in await opened(gateway, engine, reasoning)


async def test_reasoning_that_is_sealed_already_is_unchanged(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(THINKING)
    made = await gateway.create(tools=[TOOL], include=["reasoning.encrypted_content"])
    for query in ("", f"?{SEALED}"):
        assert (await fetched(gateway, f"/v1/responses/{made['id']}{query}"))["output"] == made["output"]


async def test_input_items_are_sealed_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    made = await gateway.create([{"role": "user", "content": "Hi"}, THOUGHT, {"role": "user", "content": "So?"}])
    path = f"/v1/responses/{made['id']}/input_items?order=asc"
    plain, shown = (await fetched(gateway, path))["data"], (await fetched(gateway, f"{path}&{SEALED}"))["data"]
    assert "encrypted_content" not in plain[1]
    assert "I know." in await opened(gateway, engine, shown[1])
    assert shown[::2] == plain[::2]


async def test_items_of_a_conversation_are_sealed_however_they_are_fetched(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    path = f"/v1/conversations/{conversation['id']}/items"
    _, added = await gateway.post({"items": [THOUGHT]}, f"{path}?{SEALED}")
    _, again = await gateway.post({"items": [THOUGHT]}, path)
    assert "encrypted_content" not in again["data"][0]
    (id,) = (item["id"] for item in added["data"])
    listed = (await fetched(gateway, f"{path}?{SEALED}&order=asc"))["data"]
    assert "encrypted_content" not in await fetched(gateway, f"{path}/{id}"), "nothing of it was stored"
    for item in (added["data"][0], *listed, await fetched(gateway, f"{path}/{id}?{SEALED}")):
        assert "I know." in await opened(gateway, engine, item)


async def test_a_background_response_that_is_followed_is_sealed_in_its_events(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(chunk({"reasoning": 'I think "so".\n\n"type":"reasoning"'}), chunk({"content": "Yes."})))
    background = Background(gateway)
    id = (await background.made())["id"]
    plain = await background.follow(id)
    async with gateway.client.get(f"{gateway.url}/v1/responses/{id}?stream=true&{SEALED}") as followed:
        events = parse(await followed.read())
    # The item at its end and in the response is the same, and so has the same seal.
    reasoning = check_stream(events)["output"][0]
    assert 'I think "so".' in await opened(gateway, engine, reasoning)
    sealed = str(events).replace(f", 'encrypted_content': '{reasoning['encrypted_content']}'", "")
    assert sealed == str(plain)


@pytest.mark.parametrize("content", ["I know.", [{"type": "text", "text": "I know."}, {"type": "reasoning_text", "text": ""}]])
async def test_reasoning_is_sealed_in_every_form_in_which_it_can_be_sent(
    gateway: GatewayUnderTest, engine: MockEngine, content: Any
) -> None:
    _, conversation = await gateway.post({"items": [{"type": "reasoning", "content": content}]}, "/v1/conversations")
    (item,) = (await fetched(gateway, f"/v1/conversations/{conversation['id']}/items?{SEALED}"))["data"]
    assert "I know." in await opened(gateway, engine, item)


@pytest.mark.parametrize("thought", [{}, {"content": []}, {"content": None, "encrypted_content": "gAAAA"}])
async def test_reasoning_without_a_text_has_nothing_to_seal(gateway: GatewayUnderTest, thought: dict[str, Any]) -> None:
    _, conversation = await gateway.post({"items": [{"type": "reasoning", **thought}]}, "/v1/conversations")
    path = f"/v1/conversations/{conversation['id']}/items"
    assert await fetched(gateway, f"{path}?{SEALED}") == await fetched(gateway, path)


@pytest.mark.parametrize(
    ("content", "sealed"), [([{"text": "I know."}, {"text": None}, "?"], "I know."), (5, None), ([5], None)]
)
def test_reasoning_that_was_stored_unchecked_is_sealed_as_far_as_it_has_text(content: Any, sealed: str | None) -> None:
    assert item_to_sealed({"type": "reasoning", "content": content}, str).get("encrypted_content") == sealed


async def test_an_unknown_include_is_rejected_by_its_place(gateway: GatewayUnderTest) -> None:
    response = f"/v1/responses/{(await gateway.create())['id']}"
    _, conversation = await gateway.post({"items": [THOUGHT]}, "/v1/conversations")
    items = f"/v1/conversations/{conversation['id']}/items"
    item = (await fetched(gateway, items))["data"][0]["id"]
    query = f"?{SEALED}&include[]=everything"
    for path in (response, f"{response}/input_items", items, f"{items}/{item}"):
        status, body = await gateway.get(path + query)
        assert (status, body["error"]["param"]) == (400, "include[1]")
        assert "'everything'" in body["error"]["message"]
    status, body = await gateway.post({"items": [THOUGHT]}, items + query)
    assert (status, body["error"]["param"]) == (400, "include[1]")
    assert len((await fetched(gateway, items))["data"]) == 1, "the rejected item was not added"


async def test_an_include_for_what_is_always_shown_is_accepted(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}
    engine.will(text("A picture."))
    made = await gateway.create([{"role": "user", "content": [image]}])
    path = f"/v1/responses/{made['id']}/input_items"
    for query in ("", "?include=message.input_image.image_url"):
        assert (await fetched(gateway, path + query))["data"][0]["content"] == [image]


async def test_padding_of_a_fetched_response_is_accepted_and_changes_nothing(gateway: GatewayUnderTest) -> None:
    background = Background(gateway)
    id = (await background.made())["id"]
    plain = await background.follow(id)
    for padded in ("true", "false"):
        query = f"stream=true&include_obfuscation={padded}&starting_after=3"
        async with gateway.client.get(f"{gateway.url}/v1/responses/{id}?{query}") as followed:
            assert parse(await followed.read()) == plain[4:]
    assert (await fetched(gateway, f"/v1/responses/{id}?include_obfuscation=true"))["status"] == "completed"
