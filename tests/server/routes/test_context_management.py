"""`context_management` through the gateway, for every kind of response and of history."""

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI
from support.background import Background, held_back
from support.engine import DONE, MockEngine, Refusal, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected
from support.streams import check_stream

from antiphon.app.parts import Extensions
from antiphon.gateway.runs.observers import Observer
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse

pytestmark = pytest.mark.timeout(60)

MANAGED: dict[str, Any] = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
LONG = "tea " * 1000
SUMMARY = text("They talked about tea.")
QUESTION = {"role": "user", "content": "And coffee?"}
ITEMS = [
    {"role": "developer", "content": "Be kind"},
    {"role": "user", "content": "Tell me about tea"},
    {"role": "assistant", "content": LONG},
    QUESTION,
]
COMPACTED = ["Be kind", "They talked about tea.", "And coffee?"]


def contents(chat: dict[str, Any]) -> list[str]:
    """The texts of a chat request, without the words that introduce a summary."""
    return [str(message["content"]).rpartition("summary of it:\n\n")[2] for message in chat["messages"]]


def types(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


# ---- every way to ask ------------------------------------------------------------------------------------------------


async def test_a_streamed_response_shows_the_compaction_and_then_the_answer(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."))
    events = await gateway.stream(ITEMS, tools=[TOOL], **MANAGED)
    assert [event["type"].removeprefix("response.") for event in events[:5]] == [
        "created",
        "in_progress",
        "output_item.added",
        "compaction.compacting",
        "output_item.done",
    ]
    assert events[3] == {
        "type": "response.compaction.compacting",
        "sequence_number": 3,
        "item_id": events[2]["item"]["id"],
        "output_index": 0,
    }
    response = events[-1]["response"]
    assert types(response) == ["compaction", "message"]
    assert response["output"][0]["encrypted_content"].startswith("antiphon1.")
    assert response["usage"]["total_tokens"] == 2 * 17
    compacting, answering = engine.requests
    assert ("tools" in compacting, "tools" in answering) == (False, True)
    assert "hand-over" in contents(compacting)[-1]
    assert contents(answering) == COMPACTED
    assert gateway.notice == ""


async def test_a_whole_response_has_the_same_items(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."))
    response = await gateway.create(ITEMS, **MANAGED)
    assert types(response) == ["compaction", "message"]
    assert response["output_text"] == "Coffee is a drink."
    assert contents(engine.last) == COMPACTED


async def test_a_response_over_a_websocket(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."), text("Yes."))
    async with connected(gateway) as socket:
        first = await socket.create(ITEMS, store=False, **MANAGED)
        assert types(first) == ["compaction", "message"]
        assert contents(engine.last) == COMPACTED
        await socket.create("And milk?", store=False, previous_response_id=first["id"], **MANAGED)
    assert contents(engine.last) == [*COMPACTED, "Coffee is a drink.", "And milk?"]


async def test_a_response_in_the_background(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."))
    background = Background(gateway)
    made = await background.made(ITEMS, **MANAGED)
    assert types(made) == ["compaction", "message"]
    assert made["usage"]["total_tokens"] == 2 * 17
    events = await background.follow(made["id"])
    check_stream(events)
    assert "response.compaction.compacting" in [event["type"] for event in events]


async def test_the_openai_sdk_streams_it(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."))
    async with (
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
        client.responses.stream(model="mock", input=ITEMS, **MANAGED) as stream,  # type: ignore[arg-type]
    ):
        seen = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert "response.compaction.compacting" in seen
    assert ([item.type for item in final.output], final.output_text) == (["compaction", "message"], "Coffee is a drink.")


# ---- every kind of history -------------------------------------------------------------------------------------------


async def test_a_chain_goes_on_from_its_compaction(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text(LONG), SUMMARY, text("Coffee is a drink."))
    first = await gateway.create(ITEMS[:2], **MANAGED)
    second = await gateway.create([QUESTION], previous_response_id=first["id"], **MANAGED)
    assert types(second) == ["compaction", "message"]
    before = engine.last["messages"]
    assert contents(engine.last) == COMPACTED
    await gateway.create("And milk?", previous_response_id=second["id"], **MANAGED)
    assert engine.last["messages"][: len(before)] == before
    assert contents(engine.last) == [*COMPACTED, "Coffee is a drink.", "And milk?"]
    _, listed = await gateway.get(f"/v1/responses/{second['id']}/input_items?order=asc")
    assert [item["content"][0]["text"] for item in listed["data"]] == ["And coffee?"]


@pytest.mark.parametrize("how", ["whole", "not stored", "in the background", "over a WebSocket"])
async def test_a_conversation_keeps_all_items_and_goes_on_from_its_compaction(
    gateway: GatewayUnderTest, engine: MockEngine, how: str
) -> None:
    _, conversation = await gateway.post({"items": ITEMS[:3]}, "/v1/conversations")
    id = conversation["id"]
    engine.will(SUMMARY, text("Coffee is a drink."))
    if how == "in the background":
        await Background(gateway).made([QUESTION], conversation=id, **MANAGED)
    elif how == "over a WebSocket":
        async with connected(gateway) as socket:
            await socket.create([QUESTION], conversation=id, **MANAGED)
    else:
        await gateway.create([QUESTION], conversation=id, store=how == "whole", **MANAGED)
    _, listed = await gateway.get(f"/v1/conversations/{id}/items?order=asc")
    assert [item["type"] for item in listed["data"]] == [*["message"] * 4, "compaction", "message"]
    await gateway.create("And milk?", conversation=id, **MANAGED)
    assert contents(engine.last) == [*COMPACTED, "Coffee is a drink.", "And milk?"]


async def test_a_chain_may_have_compactions_of_both_kinds(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."), text("They talked about drinks."), text("Milk is one, too."))
    first = await gateway.create(ITEMS, tools=[TOOL], **MANAGED)
    second = await gateway.create([{"type": "compaction_trigger"}], previous_response_id=first["id"], tools=[TOOL], **MANAGED)
    assert (types(first), types(second)) == (["compaction", "message"], ["compaction"])
    third = await gateway.create("And milk?", previous_response_id=second["id"], tools=[TOOL], **MANAGED)
    assert types(third) == ["message"]
    kept = ["Be kind", "They talked about drinks.", "And coffee?", "Coffee is a drink."]
    assert contents(engine.last) == [*kept, "And milk?"]
    assert engine.last["tools"]


async def test_an_inline_history_goes_on_from_its_compaction(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SUMMARY, text("Coffee is a drink."))
    output = (await gateway.create(ITEMS, store=False, **MANAGED))["output"]
    await gateway.create([*ITEMS, *output, {"role": "user", "content": "And milk?"}], store=False, **MANAGED)
    assert contents(engine.last) == [*COMPACTED, "Coffee is a drink.", "And milk?"]
    assert len(engine.requests) == 3


# ---- how it is counted -----------------------------------------------------------------------------------------------


async def test_the_engines_own_template_and_tokenizer_count_where_there_are_some() -> None:
    paths = {
        "/apply-template": lambda body: {"prompt": " ".join(message["content"] for message in body["messages"])},
        "/tokenize": lambda body: {"tokens": body["content"].split()},
    }
    engine = MockEngine(owned_by="llamacpp", paths=paths, own_fields=["reasoning_format", "return_progress"])
    await engine.start()
    async with running_gateway(engine) as gateway:
        # Four letters are about one token, except for this tokenizer.
        words = [{"role": "user", "content": "One"}, {"role": "assistant", "content": "incomprehensibilities " * 900}]
        assert types(await gateway.create([*words, QUESTION], **MANAGED)) == ["message"]
        words[1]["content"] = "a " * 1100
        engine.will(SUMMARY, text("Hi"))
        assert types(await gateway.create([*words, QUESTION], **MANAGED)) == ["compaction", "message"]
    await engine.stop()


async def test_the_count_of_input_tokens_compacts_nothing(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    status, body = await gateway.post({"model": "mock", "input": ITEMS, **MANAGED}, "/v1/responses/input_tokens")
    assert (status, body["input_tokens"]) == (200, 12)
    assert len(engine.requests) == 1


async def test_usage_that_the_engine_does_not_report_is_estimated_for_both_answers(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    def silent(words: str) -> bytes:
        return chunk({"role": "assistant", "content": words}) + chunk(finish="stop") + DONE

    engine.will(silent("They talked about tea."), silent("Coffee is a drink."))
    usage = (await gateway.create(ITEMS, **MANAGED))["usage"]
    assert usage["input_tokens"] > 1000
    assert usage["output_tokens"] == 6 + 5


# ---- what goes wrong -------------------------------------------------------------------------------------------------


async def test_without_a_summary_the_answer_comes_all_the_same(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("They tal", finish="length"), text("Coffee is a drink."))
    response = await gateway.create(ITEMS, **MANAGED)
    assert (response["status"], types(response)) == ("completed", ["message"])
    assert contents(engine.last) == ["Be kind", "Tell me about tea", LONG, "And coffee?"]
    assert "not compacted: The summary was cut off." in gateway.notice


async def test_an_engine_for_which_it_is_too_long_all_the_same_gives_the_usual_error(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    overflow = {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}}
    engine.will(Refusal(400, overflow), Refusal(400, overflow))
    status, body = await gateway.post({"model": "mock", "input": ITEMS, **MANAGED})
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_client_gets_signs_of_life_while_its_history_is_compacted(engine: MockEngine) -> None:
    script, go_on = held_back("They talked", " about tea.")
    engine.will(script, text("Coffee is a drink."))
    async with running_gateway(engine, heartbeat=0.05) as gateway, connected(gateway) as socket:
        await socket.send(ITEMS, **MANAGED)
        events = [await socket.event() for _ in range(4)]
        go_on.set()
        while events[-1]["type"] != "response.completed":
            events.append(await socket.event())
    check_stream(events)
    assert [event["type"] for event in events[1:4]] == ["response.in_progress"] * 3
    assert types(events[-1]["response"]) == ["compaction", "message"]


async def test_a_background_response_is_cancelled_while_its_history_is_compacted(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    script, _ = held_back("They talked", " about tea.")
    engine.will(script)
    background = Background(gateway)
    id = (await background.create(ITEMS, **MANAGED))["id"]
    await engine.asked.wait()
    assert (await background.cancel(id))["status"] == "cancelled"
    await engine.cancelled.wait()
    assert len(engine.requests) == 1


async def test_a_client_that_goes_away_ends_the_compaction(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    script, _ = held_back("They talked", " about tea.")
    engine.will(script)
    asking = asyncio.create_task(gateway.create(ITEMS, **MANAGED))
    await engine.asked.wait()
    asking.cancel()
    await engine.cancelled.wait()
    assert len(engine.requests) == 1


async def test_a_wrong_entry_is_a_bad_request(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"model": "mock", "input": "Hi", "context_management": [{"type": "clear"}]})
    assert (status, body["error"]["param"]) == (400, "context_management[0].type")


class Notebook(Observer):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def request(self, response_id: str, request: CreateResponse) -> None:
        self.seen.append("request")

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self.seen.append(str(chat.messages[-1].content)[:11])


async def test_an_observer_sees_one_request_and_every_chat(engine: MockEngine) -> None:
    notebook = Notebook()
    engine.will(SUMMARY, text("Coffee is a drink."))
    async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: notebook])) as gateway:
        await gateway.create(ITEMS, **MANAGED)
    assert notebook.seen == ["request", "The convers", "And coffee?"]
