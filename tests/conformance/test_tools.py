"""Every type of tool and every tool choice: what the engine is offered, what the response echoes, and what is refused."""

from dataclasses import dataclass
from typing import Any

import pytest
from openai.types.responses import ToolParam
from pydantic import TypeAdapter
from support.engine import MockEngine, answer, call
from support.gateway import CHECKER, GatewayUnderTest, running_gateway

from antiphon.app.parts import Extensions
from antiphon.tools.mcp.runner import NoMcp

Tool = dict[str, Any]
TOOL: TypeAdapter[Any] = TypeAdapter(ToolParam)

NO_PARAMETERS = {"type": "object", "properties": {}}
FUNCTION: Tool = {"type": "function", "name": "weather", "parameters": NO_PARAMETERS, "strict": False}
CUSTOM: Tool = {"type": "custom", "name": "run", "description": "Runs a command."}

# The tools that the client runs, and the functions that the engine is offered in their place.
OFFERED: dict[str, tuple[Tool, list[str]]] = {
    "function": (FUNCTION, ["weather"]),
    "custom": (CUSTOM, ["run"]),
    "namespace": (
        {"type": "namespace", "name": "maps", "description": "Maps.", "tools": [{**FUNCTION, "name": "find"}]},
        ["maps__find"],
    ),
    "tool_search": ({"type": "tool_search", "execution": "client"}, ["tool_search"]),
    "local_shell": ({"type": "local_shell"}, ["local_shell"]),
    "shell": ({"type": "shell", "environment": {"type": "local"}}, ["shell"]),
    "apply_patch": ({"type": "apply_patch"}, ["apply_patch"]),
}
# The tools that OpenAI runs.
HOSTED: dict[str, Tool] = {
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "computer": {"type": "computer"},
    "computer_use_preview": {
        "type": "computer_use_preview",
        "display_height": 768,
        "display_width": 1024,
        "environment": "browser",
    },
    "image_generation": {"type": "image_generation"},
    "programmatic_tool_calling": {"type": "programmatic_tool_calling"},
    "web_search": {"type": "web_search"},
    "web_search_2025_08_26": {"type": "web_search_2025_08_26"},
    "web_search_preview": {"type": "web_search_preview"},
    "web_search_preview_2025_03_11": {"type": "web_search_preview_2025_03_11"},
}


@pytest.mark.parametrize("kind", OFFERED)
async def test_a_tool_that_the_client_runs_is_offered_as_functions(
    kind: str, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    tool, names = OFFERED[kind]
    TOOL.validate_python(tool)
    response = await gateway.create(tools=[tool])
    assert [offered["function"]["name"] for offered in engine.last["tools"]] == names
    assert not gateway.notice
    (shown,) = response["tools"]
    assert {**tool, **{name: shown[name] for name in ("tools",) if name in tool}}.items() <= shown.items()


@pytest.mark.parametrize("kind", HOSTED)
async def test_a_tool_that_openai_runs_is_left_out_with_a_notice(
    kind: str, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    TOOL.validate_python(HOSTED[kind])
    response = await gateway.create(tools=[HOSTED[kind], FUNCTION])
    assert [offered["function"]["name"] for offered in engine.last["tools"]] == ["weather"]
    assert f"tool {kind}" in gateway.notice
    assert "was left out" in gateway.notice
    assert [tool["type"] for tool in response["tools"]] == [kind, "function"]


MCP: Tool = {"type": "mcp", "server_label": "maps", "server_url": "https://maps.example/mcp"}


async def test_mcp_is_left_out_with_a_notice_where_it_is_not_installed(engine: MockEngine) -> None:
    TOOL.validate_python(MCP)
    async with running_gateway(engine, extensions=Extensions(tools={"mcp": NoMcp()}, checker=CHECKER)) as gateway:
        response = await gateway.create(tools=[MCP, FUNCTION])
        assert [offered["function"]["name"] for offered in engine.last["tools"]] == ["weather"]
        assert "tool mcp maps was left out: MCP needs the extra mcp, which is not installed" in gateway.notice
        assert [tool["type"] for tool in response["tools"]] == ["mcp", "function"]
        choice = {"type": "mcp", "server_label": "maps"}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [MCP, FUNCTION], "tool_choice": choice})
        assert (status, body["error"]["param"]) == (400, "tool_choice")


# Tools that run at OpenAI if they are asked to.
AT_OPENAI: dict[str, Tool] = {
    "shell": {"type": "shell", "environment": {"type": "container_auto"}},
}


@pytest.mark.parametrize("kind", AT_OPENAI)
async def test_a_tool_that_is_to_run_at_openai_is_left_out_with_a_notice(
    kind: str, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    TOOL.validate_python(AT_OPENAI[kind])
    await gateway.create(tools=[AT_OPENAI[kind], FUNCTION])
    assert [offered["function"]["name"] for offered in engine.last["tools"]] == ["weather"]
    assert f"tool {kind}" in gateway.notice


async def test_a_search_that_the_gateway_runs_is_a_function_and_hides_what_it_finds(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    search: Tool = {"type": "tool_search", "execution": "server"}
    TOOL.validate_python(search)
    response = await gateway.create(tools=[search, {**FUNCTION, "defer_loading": True}])
    assert [offered["function"]["name"] for offered in engine.last["tools"]] == ["tool_search"]
    assert not gateway.notice
    assert [tool["type"] for tool in response["tools"]] == ["tool_search", "function"]
    await gateway.create(tools=[search, FUNCTION])
    assert [offered["function"]["name"] for offered in engine.last["tools"]] == ["weather"]
    assert "tool tool_search was left out: there is nothing to search" in gateway.notice


# ---- tool_choice -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    choice: str | Tool
    # What the engine is to call, if anything; and whether it is offered tools at all.
    called: str | None = None
    offered: tuple[str, ...] = ("weather", "run", "shell", "apply_patch")


TOOLS = [FUNCTION, CUSTOM, OFFERED["shell"][0], OFFERED["apply_patch"][0]]
CHOICES: dict[str, Choice] = {
    "auto": Choice("auto"),
    "none": Choice("none", offered=()),
    "required": Choice("required", "weather"),
    "function": Choice({"type": "function", "name": "weather"}, "weather"),
    "custom": Choice({"type": "custom", "name": "run"}, "run"),
    "shell": Choice({"type": "shell"}, "shell"),
    "apply_patch": Choice({"type": "apply_patch"}, "apply_patch"),
    "allowed_tools": Choice(
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]}, offered=("weather",)
    ),
}
ARGUMENTS = {
    "weather": "{}",
    "run": '{"input": "ls"}',
    "shell": '{"commands": ["ls"]}',
    "apply_patch": '{"type": "delete_file", "path": "a.py"}',
}


@pytest.mark.parametrize("kind", CHOICES)
async def test_a_tool_choice_is_kept(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    case = CHOICES[kind]
    if case.called:
        engine.will(answer(call(case.called, ARGUMENTS[case.called]), finish="tool_calls"))
    response = await gateway.create(tools=TOOLS, tool_choice=case.choice)
    assert response["tool_choice"] == case.choice
    offered = [tool["function"]["name"] for tool in engine.last.get("tools", [])]
    assert set(offered) >= {case.called} if case.called else tuple(offered) == case.offered
    assert [item["type"].endswith("_call") for item in response["output"]] == [case.called is not None]


FORCED = {**HOSTED, "computer_use": {"type": "computer_use"}}


@pytest.mark.parametrize("kind", sorted(FORCED.keys() - {"web_search", "web_search_2025_08_26"}))
async def test_a_tool_that_openai_runs_cannot_be_forced(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    choice = {"type": kind}
    tools = [HOSTED.get(kind, HOSTED["computer"]), FUNCTION]
    status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": tools, "tool_choice": choice})
    assert (status, body["error"]["param"]) == (400, "tool_choice")
    assert not engine.requests
