"""Every type of tool, and every member of one: what the engine gets of it, or what the client is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.bad_mcp_server import BadMcpServer
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.kernels import ScriptedKernels, interpreting
from support.messages import HI, PATH, VERSION, Body, body, create
from support.search_services import SearchServices, searching

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK: Body = {"name": "look", "description": "Looks.", "input_schema": SCHEMA}


def named(kind: str, name: str, **members: Any) -> Body:
    return {"type": kind, "name": name, **members}


# The type of a tool → its definition, and the functions that the engine gets.
CLIENTS: dict[str, tuple[Body, list[str]]] = {
    "custom": ({**LOOK, "type": "custom"}, ["look"]),
    **{kind: (named(kind, "bash"), ["bash"]) for kind in ("bash_20241022", "bash_20250124")},
    **{kind: (named(kind, "editor"), ["editor"]) for kind in ("text_editor_20241022", "text_editor_20250124")},
    **{kind: (named(kind, "editor"), ["editor"]) for kind in ("text_editor_20250429", "text_editor_20250728")},
    "memory_20250818": (named("memory_20250818", "memory"), ["memory"]),
    **{
        kind: (named(kind, "computer"), ["computer"])
        for kind in ("computer_20241022", "computer_20250124", "computer_20251124")
    },
    "computer_toolset_20260801": (
        {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}},
        ["computer__key", "computer__hold_key", "computer__type"],
    ),
    "browser_toolset_20260801": (
        {"type": "browser_toolset_20260801", "configs": None},
        ["browser__navigate", "browser__list_tabs"],
    ),
}


def offered(engine: MockEngine) -> list[str]:
    return [tool["function"]["name"] for tool in engine.last.get("tools", ())]


def function(engine: MockEngine, name: str) -> Body:
    found: Body = next(tool["function"] for tool in engine.last["tools"] if tool["function"]["name"] == name)
    return found


async def test_the_tools_of_a_client_are_offered_as_functions(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for kind, (tool, names) in CLIENTS.items():
        await create(gateway, tools=[tool])
        assert offered(engine)[: len(names)] == names, kind
        assert not gateway.notice
        assert "computer__zoom" not in offered(engine)


@pytest.mark.parametrize(
    ("kind", "toolset"), [("computer_toolset_20260801", "computer"), ("browser_toolset_20260801", "browser")]
)
async def test_a_call_of_a_toolset_says_where_it_belongs(
    engine: MockEngine, gateway: GatewayUnderTest, kind: str, toolset: str
) -> None:
    engine.will(answer(call(f"{toolset}__screenshot", "{}", id="a"), finish="tool_calls"), text("A cat."))
    tools = [{"type": kind}]
    message = await create(gateway, tools=tools)
    (used,) = message["content"]
    assert (used["type"], used["name"], used["toolset_name"]) == ("tool_use", "screenshot", toolset)
    result = {"type": "tool_result", "tool_use_id": "a", "toolset_name": toolset, "content": "(a cat)"}
    history = [*HI, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    assert (await create(gateway, history, tools=tools))["content"] == [{"type": "text", "text": "A cat."}]
    (sent,) = engine.last["messages"][1]["tool_calls"]
    assert sent["function"]["name"] == f"{toolset}__screenshot"


# ---- members -----------------------------------------------------------------------------------------------------------

SEARCH = named("tool_search_tool_bm25_20251119", "tool_search_tool_bm25")
EXAMPLES = [{"at": "it"}]
# A member → the tool, and what is offered of it.
MEMBERS: dict[str, tuple[Body, Body]] = {
    "custom.description": (LOOK, {"description": "Looks."}),
    "custom.input_schema": (LOOK, {"parameters": SCHEMA}),
    "custom.strict": ({**LOOK, "strict": True}, {"strict": True}),
    "custom.eager_input_streaming": ({**LOOK, "eager_input_streaming": True}, {}),
    "custom.input_examples": (
        {**LOOK, "input_examples": EXAMPLES},
        {"description": 'Looks.\n\nExamples of the input:\n{"at":"it"}'},
    ),
    "bash.strict": (named("bash_20250124", "bash", strict=True), {"strict": True}),
    "text_editor.strict": (named("text_editor_20250728", "editor", strict=True), {"strict": True}),
    "text_editor.max_characters": (named("text_editor_20250728", "editor", max_characters=99), {}),
    "memory.strict": (named("memory_20250818", "memory", strict=True), {"strict": True}),
    "computer.strict": (named("computer_20251124", "computer", strict=True), {"strict": True}),
    "computer.display_width_px": (
        named("computer_20251124", "computer", display_width_px=800, display_height_px=600, enable_zoom=True),
        {
            "description": "Controls a computer with screen, keyboard and mouse. The screen is 800 pixels wide and 600 high. "
            "The action zoom shows a region larger."
        },
    ),
    **{
        f"{kind.partition('_2')[0]}.input_examples": (named(kind, kind[:3], input_examples=EXAMPLES), {})
        for kind in ("bash_20250124", "text_editor_20250728", "memory_20250818", "computer_20251124")
    },
}


async def test_the_members_of_a_tool_are_sent(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for member, (tool, sent) in MEMBERS.items():
        await create(gateway, tools=[tool])
        assert sent.items() <= function(engine, tool["name"]).items(), member
        if member.endswith("input_examples"):
            assert function(engine, tool["name"])["description"].endswith('Examples of the input:\n{"at":"it"}')
        assert not gateway.notice


DEFERRED = {
    "custom": LOOK,
    "bash": named("bash_20250124", "bash"),
    "text_editor": named("text_editor_20250728", "editor"),
    "memory": named("memory_20250818", "memory"),
    "computer": named("computer_20251124", "computer"),
}


async def test_a_tool_that_is_deferred_waits_until_it_is_found(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for kind, known in DEFERRED.items():
        tool = {**known, "defer_loading": True}
        await create(gateway, tools=[SEARCH, tool])
        assert offered(engine) == ["tool_search"], kind
        await create(gateway, tools=[tool])
        assert offered(engine) == [], kind


async def test_programs_call_no_tools(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for tool in DEFERRED.values():
        await create(gateway, tools=[{**tool, "allowed_callers": ["direct", "code_execution_20260120"]}])
        assert not gateway.notice
        await create(gateway, tools=[{**tool, "allowed_callers": ["code_execution_20260120"]}])
        assert gateway.notice == f"the tool {tool['name']!r} is called by the model itself: programs call no tools here"
        assert offered(engine) == [tool["name"]]


@pytest.mark.parametrize("member", ["display_number", "colour"])
async def test_a_member_that_changes_nothing_is_named(gateway: GatewayUnderTest, member: str) -> None:
    await create(gateway, tools=[named("computer_20250124", "computer", **{member: 1})])
    assert gateway.notice == f"{member} of tool computer_20250124 has no effect here"


# ---- tools that the gateway runs ---------------------------------------------------------------------------------------

WEB = ("web_search_20250305", "web_search_20260209", "web_search_20260318")
PAGES = ("web_fetch_20250910", "web_fetch_20260209", "web_fetch_20260309", "web_fetch_20260318")
CODE = ("code_execution_20250522", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521")


@asynccontextmanager
async def equipped(engine: MockEngine, kind: str, folder: Path) -> AsyncIterator[GatewayUnderTest]:
    """A gateway that runs this tool."""
    if kind.startswith("web"):
        async with SearchServices() as services, searching(engine, services) as gateway:
            yield gateway
    elif kind.startswith("code"):
        async with interpreting(engine, ScriptedKernels(), folder) as gateway:
            yield gateway
    else:
        async with running_gateway(engine) as gateway:
            yield gateway


def name_of(kind: str) -> str:
    return kind.partition("_2")[0]


# A member of a tool that the gateway runs → its value, and words of the notice.
STRICT: dict[str, tuple[Any, str]] = {"strict": (True, ""), "allowed_callers": (["direct"], "")}
HOSTED: dict[str, dict[str, tuple[Any, str]]] = {
    "web_search": {
        **STRICT,
        "allowed_domains": (["a.example"], ""),
        "blocked_domains": (["a.example"], "blocked_domains of tool"),
        "max_uses": (2, ""),
        "user_location": ({"type": "approximate", "city": "Rome"}, ""),
        "response_inclusion": ("excluded", ""),
    },
    "web_fetch": {
        **STRICT,
        "allowed_domains": (["a.example"], ""),
        "blocked_domains": (["a.example"], "blocked_domains of tool"),
        "citations": ({"enabled": True}, ""),
        "max_content_tokens": (1000, "max_content_tokens of tool"),
        "max_uses": (2, ""),
        "response_inclusion": ("full", ""),
        "url_sources": ({"user_input": {"type": "none"}}, "url_sources of tool"),
        "use_cache": (False, ""),
    },
    "code_execution": {**STRICT, "allowed_callers": (["code_execution_20260120"], "programs call no tools here")},
    "tool_search_tool_bm25": STRICT,
    "tool_search_tool_regex": STRICT,
}
VERSIONS = {"web_search": WEB, "web_fetch": PAGES, "code_execution": CODE} | {
    name: [name, f"{name}_20251119"] for name in ("tool_search_tool_bm25", "tool_search_tool_regex")
}
FUNCTIONS = {"web": ["web_search", "open_page", "find_in_page"], "cod": ["python"], "too": ["tool_search"]}
FOUND = {**LOOK, "defer_loading": True}


@pytest.mark.parametrize("name", HOSTED)
async def test_a_tool_of_the_gateway_is_offered_with_its_members(engine: MockEngine, tmp_path: Path, name: str) -> None:
    async with equipped(engine, name, tmp_path) as gateway:
        for kind in VERSIONS[name]:
            await create(gateway, tools=[named(kind, name), *([FOUND] if name.startswith("tool") else [])])
            assert offered(engine) == FUNCTIONS[name[:3]], kind
            assert not gateway.notice
        for member, (value, notice) in HOSTED[name].items():
            await create(gateway, tools=[named(VERSIONS[name][-1], name, **{member: value}), FOUND])
            assert notice in gateway.notice if notice else not gateway.notice, member
            if member in ("allowed_domains", "user_location"):
                words = "a.example" if member == "allowed_domains" else "Rome"
                assert words in msgspec.json.encode(engine.last["tools"]).decode()
        # It does not wait beside a search.
        await create(gateway, tools=[SEARCH, FOUND, named(VERSIONS[name][-1], name, defer_loading=True)])
        assert f"defer_loading of tool {VERSIONS[name][-1]} has no effect here" in gateway.notice


async def test_an_advisor_is_left_out(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    members = {
        "model": "m",
        "max_tokens": 9,
        "max_uses": 1,
        "caching": {"type": "ephemeral"},
        "strict": True,
        "defer_loading": False,
    }
    await create(gateway, tools=[named("advisor_20260301", "advisor", allowed_callers=["direct"], **members)])
    assert gateway.notice == "the tool advisor_20260301 was left out: the gateway does not run it"
    assert offered(engine) == []


# ---- MCP servers -------------------------------------------------------------------------------------------------------

LISTED = {"name": "echo", "description": "Says it again.", "input_schema": {"type": "object"}}


def server_at(server: BadMcpServer) -> list[Body]:
    allowed = {"enabled": True, "allowed_tools": ["echo"]}
    named = {"type": "url", "name": "bad", "url": f"{server.url}/mcp"}
    return [{**named, "authorization_token": "secret", "tool_configuration": allowed}]


async def served(gateway: GatewayUnderTest, server: BadMcpServer, *messages: Body, headers: Any = None, **tool: Any) -> Body:
    """With a tool set, which has these members."""
    tools = [{"type": "mcp_toolset", "mcp_server_name": "bad", **tool}]
    asked = body([*HI, *messages], mcp_servers=server_at(server), tools=tools)
    status, message = await gateway.post(asked, PATH, headers=VERSION | (headers or {}))
    assert status == 200, message
    return message


async def test_a_server_offers_what_the_request_says(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with BadMcpServer() as server:
        await served(gateway, server, default_config={"enabled": False}, configs={"echo": {"enabled": True}})
        assert offered(engine) == ["bad__echo"]
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer secret"}
        await create(gateway, mcp_servers=server_at(server))
        assert offered(engine) == ["bad__echo"]


async def test_a_server_whose_tools_are_listed_is_not_asked(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    other = {**LISTED, "name": "other"}
    async with BadMcpServer() as server:
        await served(gateway, server, tools=[LISTED, other], configs={"other": {"enabled": False}})
        assert offered(engine) == ["bad__echo"]
        listing = {"type": "mcp_tool_listing", "mcp_server_name": "bad", "tools": [LISTED]}
        await served(gateway, server, {"role": "assistant", "content": [listing]}, {"role": "user", "content": "So?"})
        assert offered(engine) == ["bad__echo"]
        assert server.headers == []


async def test_a_list_of_tools_is_shown_to_those_who_know_it(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with BadMcpServer() as server:
        message = await served(gateway, server, headers={"anthropic-beta": "mcp-client-2026-09-15"})
        listing, said = message["content"]
        assert (listing["type"], listing["mcp_server_name"], said["type"]) == ("mcp_tool_listing", "bad", "text")
        assert "echo" in [tool["name"] for tool in listing["tools"]]
        assert [block["type"] for block in (await served(gateway, server))["content"]] == ["text"]


async def test_what_a_tool_set_cannot_say_has_a_notice(gateway: GatewayUnderTest) -> None:
    async with BadMcpServer() as server:
        await served(gateway, server, configs={"echo": {"enabled": False, "defer_loading": True}})
    assert gateway.notice == (
        "configs of tool mcp_toolset has no effect here; configs.defer_loading of tool mcp_toolset has no effect here"
    )
