"""The tools of a program cost nothing where a request has none."""

import pytest
from msgspec import structs
from support.exchanges import make_environment
from support.operations import count_calls

from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.hosted.mcp.forms import McpForm
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.toolbox import NO_TOOLS
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.wire.chat import ChatFunction
from antiphon.wire.responses import CreateResponse

FUNCTION = {"type": "function", "name": "f"}


def environment_with(count: int) -> Environment:
    return make_environment(tools={f"tool_{number}": McpTools() for number in range(count)})


def calls_to_begin(environment: Environment) -> int:
    def begin() -> None:
        Exchange(CreateResponse(model="m", input="hi"), [EngineKnowledge(PLAIN)], environment.changed(check_grammars=True))

    begin()
    return count_calls(begin)


def test_a_request_without_tools_costs_the_same_however_many_tools_the_gateway_runs() -> None:
    assert calls_to_begin(environment_with(50)) == calls_to_begin(environment_with(1))


def test_a_changed_environment_has_the_tables_of_its_own_tools() -> None:
    none = make_environment()
    some = none.changed(tools={"thing": McpTools()})
    assert "thing" not in none.forms
    assert some.forms["thing"] is McpForm
    assert some.hosted_kinds.keys() - none.hosted_kinds.keys() == {"thing"}
    assert "thing" in some.tool_definitions
    assert some.changed(check_grammars=False).forms is some.forms
    assert some.changed(tools={}).tool_definitions == none.tool_definitions


def test_an_environment_with_another_tool_is_made_once_for_the_same_tool() -> None:
    environment = make_environment(tools={"mcp": McpTools(["a"]), "thing": McpTools()})
    tool = McpTools(["b"])
    made = environment.with_tool("mcp", tool)
    assert made.tools == {"mcp": tool, "thing": environment.tools["thing"]}
    assert environment.with_tool("mcp", tool) is made
    assert environment.with_tool("mcp", other := McpTools(["b"])).tools["mcp"] is other
    assert environment.with_tool("thing", other).tools["thing"] is other
    changed = environment.changed(check_grammars=False)
    assert not changed.with_tool("mcp", tool).check_grammars


def test_what_is_recorded_of_mcp_servers_follows_the_operator() -> None:
    labels = {"a": 1}
    servers = McpTools(labels.keys())
    before = servers.as_recorded()
    assert before is servers.as_recorded()
    labels["b"] = 2
    assert servers.as_recorded().labels == ("a", "b")
    assert before.labels == ("a",)


def test_requests_without_tools_share_a_box_to_which_nothing_can_be_added() -> None:
    assert tools_to_box(()) is tools_to_box([], []) is NO_TOOLS
    with pytest.raises(TypeError):
        NO_TOOLS.add(ToolIdentity("function", "f"), ChatFunction(name=""), "tools[0]")
    parts = (NO_TOOLS, NO_TOOLS.offered, NO_TOOLS.deferred, NO_TOOLS.easy, NO_TOOLS.servers)
    members = [value for part in parts for value in structs.asdict(part).values() if value not in parts]
    assert len(members) > 20
    assert not any(hasattr(member, name) for member in members for name in ("append", "add", "__setitem__"))
    assert not tools_to_box(()).offered.names


def test_a_request_with_tools_has_a_box_of_its_own() -> None:
    first, second = tools_to_box([FUNCTION]), tools_to_box([FUNCTION])
    assert first is not second
    assert list(first.offered.functions) == ["f"]
