"""Conversations with models whose chat templates make demands: the engine rejects what such a template would reject."""

from typing import Any

from msgspec.structs import replace
from support.demands import complaint
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import CHECKER, running_gateway
from support.items import assistant, call_output, user
from support.toy_tool import DICE, Dice

from antiphon.app.parts import Extensions
from antiphon.core.knowledge.dialects import PLAIN

MISTRAL: dict[str, Any] = {"call_id_length": 9, "alternates": True, "shows_text_with_calls": False}
LLAMA: dict[str, Any] = {"takes_parallel_calls": False, "shows_text_with_calls": False, "begins_with_user": True}
ROLLS = answer(
    chunk({"content": "I roll."}),
    call("roll", '{"sides": 6}', id="a"),
    call("roll", '{"sides": 20}', id="b", index=1),
    finish="tool_calls",
)


async def test_the_client_keeps_the_ids_of_the_engine(engine: MockEngine) -> None:
    engine.objects_to = lambda body: complaint(body["messages"], replace(PLAIN, **MISTRAL))
    engine.will(answer(call("f", "{}", id="call_1"), finish="tool_calls"), text("Done."))
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    async with running_gateway(engine) as gateway:
        gateway.gateway.pool.engines[0].knowledge.learn("mock", MISTRAL)
        called = await gateway.create("Hi", tools=[tool])
        assert called["output"][0]["call_id"] == "call_1"
        done = await gateway.create([call_output("call_1"), user("And?")], tools=[tool], previous_response_id=called["id"])
    assert done["output"][0]["content"][0]["text"] == "Done."
    _, called_again, result, noted, asked = engine.last["messages"]
    assert called_again["tool_calls"][0]["id"] == result["tool_call_id"] != "call_1"
    assert [noted["role"], asked["content"]] == ["assistant", "And?"]


async def test_a_round_of_tools_satisfies_an_engine_with_every_demand(engine: MockEngine) -> None:
    engine.objects_to = lambda body: complaint(body["messages"], replace(PLAIN, **LLAMA))
    engine.will(ROLLS, text("A six and a twenty."))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        gateway.gateway.pool.engines[0].knowledge.learn("mock", LLAMA)
        body = {"model": "mock", "input": [assistant("Hello")], "tools": [DICE], "store": False}
        status, response = await gateway.post(body)
    assert (status, [item["type"] for item in response["output"]]) == (200, ["message", "dice_call", "dice_call", "message"])
    assert [message["role"] for message in engine.last["messages"]][-4:] == ["assistant", "tool", "assistant", "tool"]
