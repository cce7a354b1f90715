"""The parts of a toolbox: each has one subject, and together they say what a call means."""

from typing import Any

import pytest

from antiphon.core.toolbox.deferred import DeferredTools
from antiphon.core.toolbox.easy_function import EasyFunction, EasyFunctions
from antiphon.core.toolbox.mcp_servers import McpServers
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.requirements import CheckedTools, SchemaCheck
from antiphon.core.toolbox.toolbox import OfferedTools, Toolbox
from antiphon.core.toolbox.tools import ToolIdentity

MOST_ATTRIBUTES = 12
RUN = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}
MAIL = {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send"}]}
LATER = {"type": "function", "name": "later", "defer_loading": True}


def renamed(written: dict[str, Any]) -> dict[str, Any] | None:
    return {"cmd": written["line"]} if "line" in written else None


def named_back(written: dict[str, Any]) -> dict[str, Any] | None:
    return {"line": written["cmd"]} if "cmd" in written else None


SHELL = EasyFunction("shell", "Runs a line.", {}, {}, renamed, named_back)


@pytest.mark.parametrize("part", [Toolbox, OfferedTools, DeferredTools, EasyFunctions, McpServers, CheckedTools])
def test_no_part_has_many_attributes(part: Any) -> None:
    assert len(part.__struct_fields__) <= MOST_ATTRIBUTES


def test_a_tool_that_an_easy_function_replaces_can_be_called_by_both_names() -> None:
    box = tools_to_box([RUN, MAIL])
    run = ToolIdentity("function", "run")
    box.replace(run, [SHELL])
    assert list(box.offered.functions) == ["shell", "mail__send"]
    assert box.identity_of("shell") == box.identity_of("run") == run
    assert box.functions_of(run) == ["shell"]
    assert box.replaced_names(["shell"]) == ["run"]
    assert (box.offered_as("run"), box.offered_as("shell")) == (("shell",), ("shell",))
    assert box.tool_arguments("shell", '{"line": "ls"}') == '{"cmd":"ls"}'
    assert box.tool_arguments("run", '{"cmd": "ls"}') is None


def test_the_history_shows_a_call_as_the_easy_function_that_expresses_it() -> None:
    box = tools_to_box([RUN])
    run = ToolIdentity("function", "run")
    box.replace(run, [SHELL])
    assert (box.as_called(run, '{"cmd": "ls"}').name, box.as_called(run, '{"cmd": "ls"}').arguments) == (
        "shell",
        '{"line":"ls"}',
    )
    assert box.as_called(run, "{}").name == "run"
    assert box.name_in_history("run", '{"cmd": "ls"}') == box.name_in_history("shell", '{"line": "ls"}') == "shell"


def test_a_model_may_leave_the_namespace_out() -> None:
    box = tools_to_box([RUN, MAIL])
    assert box.identity_of("send") == ToolIdentity("function", "send", "mail")
    assert (box.knows("send"), box.knows("invented")) == (True, False)


def test_a_deferred_tool_keeps_its_name_until_it_is_found() -> None:
    box = tools_to_box([{"type": "tool_search"}, LATER])
    later = ToolIdentity("function", "later", "later")
    assert list(box.offered.functions) == ["tool_search"]
    assert (box.name_of(later), box.deferred.names) == ("later", {"later"})
    box.offer_deferred(later)
    assert list(box.offered.functions) == ["tool_search", "later"]


def test_a_call_is_checked_by_whichever_name_it_is_made() -> None:
    check = SchemaCheck(b"{}", buffered=True)
    tools = CheckedTools(tools_to_box([RUN, MAIL]), {"mail__send": check})
    assert tools.check_of("mail__send") is tools.check_of("send") is check
    assert tools.check_of("run") is None
