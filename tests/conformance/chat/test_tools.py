"""Every tool, choice and format of a chat request: what the engine gets, and what comes of its answer."""

from typing import Any

import msgspec
import pytest
from support.chat import CITY, USER
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

PATH = "/v1/chat/completions"
Body = dict[str, Any]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city", "parameters": CITY, "strict": True},
}
GRAMMAR = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}}
RUN = {"type": "custom", "custom": {"name": "run", "description": "Runs a command", "format": {"type": "text"}}}
SHORT = {"type": "custom", "custom": {"name": "run", "format": GRAMMAR}}
ROME = '{"city": "Rome"}'
CALLED = answer(call("weather", ROME))


async def choice_of(gateway: GatewayUnderTest, **fields: Any) -> Body:
    status, completion = await gateway.post({"messages": [USER], **fields}, path=PATH)
    assert (status, gateway.headers["antiphon-way"]) == (200, "reliable"), completion
    (choice,) = completion["choices"]
    return dict(choice)


async def test_a_function_is_offered_and_called(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(CALLED)
    choice = await choice_of(gateway, tools=[WEATHER])
    (offered,) = engine.last["tools"]
    assert (
        offered["function"].items() >= {"name": "weather", "description": "The weather of a city", "parameters": CITY}.items()
    )
    (made,) = choice["message"]["tool_calls"]
    assert made == {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ROME}}


@pytest.mark.parametrize("tool", [RUN, SHORT], ids=["text", "grammar"])
async def test_a_custom_tool_is_a_function_with_one_string(gateway: GatewayUnderTest, engine: MockEngine, tool: Body) -> None:
    engine.will(answer(call("run", '{"input": "ls"}')))
    choice = await choice_of(gateway, tools=[tool])
    (offered,) = engine.last["tools"]
    assert offered["function"]["parameters"]["required"] == ["input"]
    (made,) = choice["message"]["tool_calls"]
    assert made == {"id": "call_1", "type": "custom", "custom": {"name": "run", "input": "ls"}}


# ---- choices ---------------------------------------------------------------------------------------------------------

ALLOWED = [{"type": "function", "function": {"name": "weather"}}]
# A choice that requires a call → the call that the engine makes in the end.
REQUIRED: dict[str, tuple[Any, bytes]] = {
    "required": ("required", CALLED),
    "function": ({"type": "function", "function": {"name": "weather"}}, CALLED),
    "custom": ({"type": "custom", "custom": {"name": "run"}}, answer(call("run", '{"input": "ls"}'))),
    "allowed_tools": ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": ALLOWED}}, CALLED),
}


@pytest.mark.parametrize("name", REQUIRED)
async def test_a_required_call_is_made_also_where_the_engine_ignores_the_choice(
    gateway: GatewayUnderTest, engine: MockEngine, name: str
) -> None:
    choice, called = REQUIRED[name]
    engine.will(text("I would rather not."), called)
    made = await choice_of(gateway, tools=[WEATHER, RUN], tool_choice=choice)
    assert (made["finish_reason"], len(made["message"]["tool_calls"]), len(engine.requests)) == ("tool_calls", 1, 2)


@pytest.mark.parametrize(
    ("choice", "offered"),
    [("auto", 2), ("none", 0), ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ALLOWED}}, 1)],
    ids=["auto", "none", "allowed_tools"],
)
async def test_a_choice_says_which_tools_may_be_called(
    gateway: GatewayUnderTest, engine: MockEngine, choice: Any, offered: int
) -> None:
    made = await choice_of(gateway, tools=[WEATHER, RUN], tool_choice=choice)
    assert made["message"]["content"] == "Hello world"
    assert len(engine.last.get("tools", [])) == offered


# ---- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
async def test_a_format_is_kept_also_where_the_engine_ignores_it(
    gateway: GatewayUnderTest, engine: MockEngine, kind: str
) -> None:
    shape = {"name": "place", "description": "A place.", "schema": CITY, "strict": True}
    format = {"type": kind, **({"json_schema": shape} if kind == "json_schema" else {})}
    engine.will(text("Rome."), text(f"Here:\n```json\n{ROME}\n```"))
    choice = await choice_of(gateway, response_format=format)
    assert msgspec.json.decode(choice["message"]["content"]) == {"city": "Rome"}
    assert engine.last["response_format"]["type"] == kind
    if kind == "json_schema":
        assert engine.last["response_format"]["json_schema"] == shape


async def test_text_is_no_format(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await choice_of(gateway, tools=[WEATHER], response_format={"type": "text"})
    assert "response_format" not in engine.last
