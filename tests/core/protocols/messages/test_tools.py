"""Tools of Anthropic's API as tools of the Responses API."""

from typing import Any

import pytest

from antiphon.core.protocols.messages.tools import TYPES, ToolReader, choice_to_responses
from antiphon.wire.messages import ToolChoice


def read(*tools: dict[str, Any], servers: tuple[dict[str, Any], ...] = ()) -> ToolReader:
    reader = ToolReader(list(servers))
    for at, tool in enumerate(tools):
        reader.read(tool, f"tools[{at}]")
    reader.finish()
    return reader


def test_a_tool_with_a_schema_is_a_function() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    given = {"name": "look", "description": "Looks.", "input_schema": schema, "strict": True, "cache_control": {}}
    made = {"type": "function", "name": "look", "description": "Looks.", "parameters": schema, "strict": True}
    assert read(given).tools == read({"type": "custom", **given}).tools == [made]


@pytest.mark.parametrize(
    ("kind", "name", "members"),
    [
        ("bash_20250124", "bash", {"command", "restart"}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"command", "path", "old_str", "new_str"}),
        ("memory_20250818", "memory", {"command", "path", "old_path"}),
        ("computer_20250124", "computer", {"action", "coordinate"}),
    ],
)
def test_a_tool_of_a_known_type_is_a_function_with_its_schema(kind: str, name: str, members: set[str]) -> None:
    (made,) = read({"type": kind, "name": name}).tools
    assert (made["type"], made["name"]) == ("function", name)
    assert members <= made["parameters"]["properties"].keys()


def test_tools_that_servers_run_become_ours() -> None:
    made = read(
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["a.example"]},
        {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        {"name": "look", "input_schema": {}, "defer_loading": True},
    )
    assert made.tools == [
        {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "tool_search"},
        {"type": "function", "name": "look", "parameters": {}, "defer_loading": True},
    ]
    assert made.include == ["web_search_call.results", "code_interpreter_call.outputs"]
    # Code has no limit, and all calls are counted together.
    assert made.most_calls is None
    assert made.notices == [
        "max_uses has no effect: the calls of all tools that the gateway runs are counted together, and some have no limit"
    ]


def test_limits_count_if_every_tool_of_the_gateway_has_one() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    fetch = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2, "allowed_domains": ["a.example"]}
    assert (read(search).most_calls, read(search, fetch).most_calls, read().most_calls) == (3, 5, None)
    assert read(search, fetch).notices == ["allowed_domains or user_location of tool web_fetch_20250910 has no effect here"]


def test_mcp_servers_offer_what_their_tool_sets_say() -> None:
    servers = tuple({"type": "url", "name": name, "url": f"https://{name}.example"} for name in ("a", "b", "c"))
    only = {
        "type": "mcp_toolset",
        "mcp_server_name": "b",
        "default_config": {"enabled": False},
        "configs": {"look": {"enabled": True}},
    }
    made = read(only, {"type": "mcp_toolset", "mcp_server_name": "other"}, servers=servers)
    offered = {tool["server_label"]: tool.get("allowed_tools") for tool in made.tools}
    assert offered == {"a": None, "b": ["look"], "c": None}
    assert {tool["require_approval"] for tool in made.tools} == {"never"}
    assert made.notices == ["the tool set of MCP server 'other' was left out: `mcp_servers` does not have it"]


def test_a_server_that_is_turned_off_offers_nothing() -> None:
    server = {"name": "a", "url": "https://a.example", "tool_configuration": {"enabled": False}}
    assert read(servers=(server,)).tools == []


def test_a_server_gets_its_token() -> None:
    config = {"allowed_tools": ["look"]}
    server = {"name": "a", "url": "https://a.example", "authorization_token": "t", "tool_configuration": config}
    (made,) = read(servers=(server,)).tools
    assert (made["authorization"], made["allowed_tools"]) == ("t", ["look"])


def test_what_has_no_effect_is_said() -> None:
    web = {"type": "web_search_20250305", "name": "web_search", "blocked_domains": ["b.example"]}
    made = read(web, {"type": "advisor_20260301", "name": "advisor"})
    assert made.notices == [
        "blocked_domains of tool web_search_20250305 has no effect here",
        "the tool advisor_20260301 was left out: the gateway does not run it",
    ]


def test_a_tool_that_the_gateway_runs_can_be_required() -> None:
    choice = ToolChoice(type="tool", name="web_search")
    assert choice_to_responses(choice, {"web_search": "web_search"}) == {"type": "web_search"}
    assert choice_to_responses(choice, {}) == {"type": "function", "name": "web_search"}
    hosted = read({"type": "code_execution_20250825", "name": "code_execution"}).hosted
    assert choice_to_responses(ToolChoice(type="tool", name="code_execution"), hosted) == {"type": "code_interpreter"}


def test_every_type_is_read() -> None:
    for kind in TYPES:
        dated = kind if kind in ("custom", "mcp_toolset") else f"{kind}_20260101"
        named = {"mcp_server_name": "a"} if kind == "mcp_toolset" else {"name": "tool"}
        made = read({"type": dated, **named}, servers=({"name": "a", "url": "https://a.example"},))
        # A tool, and the server; the one that nobody runs is said.
        assert len(made.tools) + len(made.notices) == (1 if kind == "mcp_toolset" else 2), kind
