"""Responses with MCP tools, driven through an Exchange: lists, calls, approvals, histories."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import answer, call, chunk, text
from support.exchanges import make_environment
from support.mcp_tools import CITY, FORECAST, LISTS, REPORT, WEATHER, Conversation, FakeServers, kinds, output_of
from support.recorded import record
from support.sync_runs import run_exchange, to_stream

from antiphon.core.events.stored import OutputSoFar
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Done, ListTools, RunTools, ToolCall
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.help import Sampling
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.item_types import CONTINUE_ANSWERS
from antiphon.core.prompt.stored_form import items_to_stored_form
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.recording.file import file_to_recording, recording_to_file
from antiphon.core.recording.rerun import run_again
from antiphon.core.toolbox.mcp_servers import Listing, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import Cancelled, InvalidRequest
from antiphon.wire.events import StreamEvent
from antiphon.wire.hosted_items import McpCall, McpHttpError, McpProtocolError, McpTool, McpToolExecutionError
from antiphon.wire.responses import CreateResponse

PARIS = '{"city": "Paris"}'
ASKS = answer(call("weather__forecast", PARIS, id="a"), finish="tool_calls")
ASKS_TWICE = answer(
    call("weather__forecast", PARIS, id="a"), call("weather__report", '{"city": "Rome"}', id="b", index=1), finish="tool_calls"
)
BOUND = {**WEATHER, "require_approval": "always"}
USER = {"type": "message", "role": "user", "content": "Hi"}
NEXT = {"type": "message", "role": "user", "content": "And tomorrow?"}


def names_in(chat: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in chat.get("tools", [])]


def refusal(request: dict[str, Any], *, history: list[dict[str, Any]] | None = None) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        Conversation().run(request, history=history or [])
    return refused.value


# ---- lists -----------------------------------------------------------------------------------------------------------


def test_lists_come_first_one_item_for_each_server() -> None:
    other = {**WEATHER, "server_label": "other", "server_url": "https://other.example/mcp"}
    talk = Conversation(FakeServers({**LISTS, "other": Listing([FORECAST])}))
    thought = chunk({"reasoning_content": "Hm."})
    events = talk.run({"tools": [WEATHER, other]}, answer(thought, chunk({"content": "Hello."})))
    listing = ["output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"]
    assert kinds(events)[2:10] == listing * 2
    assert [item["type"] for item in output_of(events)] == ["mcp_list_tools", "mcp_list_tools", "reasoning", "message"]
    assert events[2]["item"] == {**output_of(events)[0], "tools": []}
    assert output_of(events)[0] == {
        "type": "mcp_list_tools",
        "id": events[2]["item"]["id"],
        "server_label": "weather",
        "tools": msgspec.to_builtins([FORECAST, REPORT]),
    }
    assert events[2]["item"]["id"].startswith("mcpl_")
    assert names_in(talk.chats[0]) == ["weather__forecast", "weather__report", "other__forecast"]
    assert talk.chats[0]["tools"][0]["function"]["parameters"] == CITY
    assert [server.label for server in talk.servers.listed] == ["weather", "other"]


def test_a_list_in_the_history_is_not_made_again() -> None:
    talk = Conversation()
    first = output_of(talk.run({}, text("Hello.")))
    other = {**WEATHER, "server_label": "other"}
    events = talk.run({"input": [USER, *first, NEXT]}, text("Hello again."))
    assert [item["type"] for item in output_of(events)] == ["message"]
    assert names_in(talk.chats[1]) == ["weather__forecast", "weather__report"]
    assert len(talk.servers.listed) == 1
    # Stored, and beside a server that is new.
    stored = [{"type": "message", "role": "user", "content": "Hi"}, *first]
    talk.servers._lists = {"other": Listing([REPORT])}
    events = talk.run({"tools": [WEATHER, other], "input": [NEXT]}, text("Yes."), history=stored)
    assert [item.get("server_label") for item in output_of(events)] == ["other", None]
    assert names_in(talk.chats[2]) == ["weather__forecast", "weather__report", "other__report"]


@pytest.mark.parametrize("allowed", [["report"], {"tool_names": ["report"]}, {"read_only": False}])
def test_a_list_shows_only_the_tools_that_are_allowed(allowed: Any) -> None:
    talk = Conversation()
    events = talk.run({"tools": [{**WEATHER, "allowed_tools": allowed}]}, text("Hello."))
    assert [tool["name"] for tool in output_of(events)[0]["tools"]] == ["report"]
    assert names_in(talk.chats[0]) == ["weather__report"]


def test_a_list_without_a_tool_that_is_allowed_now_is_made_again() -> None:
    """An earlier request may have allowed fewer."""
    talk = Conversation()
    first = output_of(talk.run({"tools": [{**WEATHER, "allowed_tools": ["report"]}]}, text("Hello.")))
    more = {**WEATHER, "allowed_tools": ["report", "forecast"]}
    second = output_of(talk.run({"tools": [more], "input": [USER, *first, NEXT]}, text("Yes.")))
    assert [tool["name"] for tool in second[0]["tools"]] == ["forecast", "report"]
    assert names_in(talk.chats[1]) == ["weather__forecast", "weather__report"]
    talk.run({"tools": [more], "input": [USER, *first, NEXT, *second, NEXT]}, text("Yes."))
    assert len(talk.servers.listed) == 2


def test_a_list_as_openai_sends_it_says_what_is_read_only() -> None:
    tools = [{"name": name, "input_schema": CITY, "annotations": {"read_only": name == "look"}} for name in ("look", "change")]
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "weather", "tools": tools}
    talk = Conversation()
    talk.run({"tools": [{**WEATHER, "allowed_tools": {"read_only": True}}], "input": [listed, NEXT]}, text("Yes."))
    assert names_in(talk.chats[0]) == ["weather__look"]


def test_the_latest_list_counts_and_one_that_failed_does_not() -> None:
    talk = Conversation()
    old = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "weather", "tools": [{"name": "old", "input_schema": {}}]}
    new = {**old, "id": "mcpl_2", "tools": [{"name": "new", "input_schema": {}}]}
    failed = {**old, "id": "mcpl_3", "tools": [], "error": "It was away."}
    talk.run({"input": [old, new, failed, NEXT]}, text("Yes."))
    assert names_in(talk.chats[0]) == ["weather__new"]
    talk.run({"input": [failed, NEXT]}, text("Yes."))
    assert names_in(talk.chats[1]) == ["weather__forecast", "weather__report"]


def test_a_list_that_cannot_be_made_fails_the_response() -> None:
    other = {**WEATHER, "server_label": "other"}
    error = McpListError("The server said no.", 401)
    talk = Conversation(FakeServers({**LISTS, "other": Listing(error=error)}))
    events = talk.run({"tools": [WEATHER, other]})
    assert kinds(events)[6:] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.failed",
        "output_item.done",
        "failed",
    ]
    assert output_of(events)[1]["error"] == "The server said no."
    assert events[-1]["response"]["error"]["code"] == "server_error"
    assert "'other'" in events[-1]["response"]["error"]["message"]
    assert "401" in events[-1]["response"]["error"]["message"]


def test_it_is_an_external_connector_error() -> None:
    exchange = Exchange(
        CreateResponse(model="m", input="Hi", tools=[WEATHER]),
        [EngineKnowledge(PLAIN)],
        make_environment(tools={"mcp": FakeServers()}),
    )
    exchange.start()
    assert exchange.step == ListTools((McpServer("weather", WEATHER["server_url"]),))
    exchange.listed("weather", Listing(error=McpListError("Away.")))
    error = exchange.error
    assert error is not None
    assert (error.status, error.kind, error.param, error.code) == (424, "external_connector_error", "tools", "http_error")


def test_a_request_without_mcp_tools_lists_nothing() -> None:
    talk = Conversation()
    events = talk.run({"tools": []}, text("Hello."))
    assert [item["type"] for item in output_of(events)] == ["message"]
    assert talk.servers.listed == []


def test_a_response_that_is_cancelled_while_it_lists_ends_as_cancelled() -> None:
    exchange = Exchange(
        CreateResponse(model="m", input="Hi", tools=[WEATHER]),
        [EngineKnowledge(PLAIN)],
        make_environment(tools={"mcp": FakeServers()}),
    )
    exchange.start()
    exchange.abort(Cancelled())
    assert exchange.listed("weather", LISTS["weather"]) == []
    exchange.end()
    assert (exchange.response.status, exchange.response.output, exchange.response.usage) == ("cancelled", [], None)


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_shows_its_arguments_and_its_result() -> None:
    talk = Conversation()
    events = talk.run({}, ASKS, text("Sunny."))
    assert kinds(events)[6:12] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    begun = {
        "type": "mcp_call",
        "id": events[6]["item"]["id"],
        "server_label": "weather",
        "name": "forecast",
        "arguments": "",
        "approval_request_id": None,
        "status": "in_progress",
        "output": None,
        "error": None,
    }
    assert events[6]["item"] == begun
    assert begun["id"].startswith("mcp_")
    assert events[7].keys() == {"type", "item_id", "output_index", "sequence_number"}
    assert output_of(events)[1] == {**begun, "arguments": PARIS, "status": "completed", "output": "It is sunny."}
    assert [item["type"] for item in output_of(events)] == ["mcp_list_tools", "mcp_call", "message"]
    assert talk.servers.calls == [ToolCall("a", "mcp", "forecast", "weather", PARIS, idempotent=True)]
    assert events[-1]["response"]["usage"]["total_tokens"] == 2 * 17


def test_arguments_may_be_missing() -> None:
    talk = Conversation(FakeServers({"weather": Listing([McpTool("forecast", {})])}))
    events = talk.run({}, answer(call("weather__forecast", "", id="a"), finish="tool_calls"), text("Sunny."))
    assert output_of(events)[1]["arguments"] == "{}"


ERRORS = {
    "protocol": McpProtocolError(-32602, "Unknown city."),
    "http": McpHttpError(502, "Bad gateway."),
    "execution": McpToolExecutionError([{"type": "text", "text": "No such city."}, {"type": "text", "text": "Try Rome."}]),
}
SAID = {"protocol": "Unknown city.", "http": "Bad gateway.", "execution": "No such city.\nTry Rome."}


@pytest.mark.parametrize("kind", list(ERRORS))
def test_a_call_that_fails_has_a_typed_error_and_the_model_goes_on(kind: str) -> None:
    talk = Conversation(FakeServers(result=lambda call: ToolResult(SAID[kind], failed=True, data=ERRORS[kind])))
    events = talk.run({}, ASKS, text("Sorry."))
    item = output_of(events)[1]
    assert (item["status"], item["output"]) == ("failed", None)
    assert item["error"] == msgspec.to_builtins(ERRORS[kind])
    assert "mcp_call.failed" in kinds(events)
    assert "mcp_call.completed" not in kinds(events)
    assert events[-1]["type"] == "response.completed"
    assert talk.chats[1]["messages"][-1]["content"] == SAID[kind]


@pytest.mark.parametrize("data", [None, *ERRORS.values(), {"type": "mystery"}, 5])
def test_the_error_says_what_the_model_was_told(data: Any) -> None:
    """So the history has the same words, whatever was left out of them."""
    talk = Conversation(FakeServers(result=lambda call: ToolResult("In short: no.", failed=True, data=data)))
    output = output_of(talk.run({}, ASKS, text("Sorry.")))
    talk.run({"input": [USER, *output, NEXT]}, text("Sorry."))
    assert talk.chats[1]["messages"][-1]["content"] == "In short: no."
    assert talk.chats[2]["messages"][: len(talk.chats[1]["messages"])] == talk.chats[1]["messages"]


def test_two_servers_may_have_equal_tools() -> None:
    other = {**WEATHER, "server_label": "other"}
    talk = Conversation(FakeServers({**LISTS, "other": Listing([FORECAST])}))
    asks = answer(call("other__forecast", PARIS, id="a"), finish="tool_calls")
    events = talk.run({"tools": [WEATHER, other]}, asks, text("Sunny."))
    assert (output_of(events)[2]["server_label"], output_of(events)[2]["name"]) == ("other", "forecast")
    assert talk.servers.calls[0].namespace == "other"


def test_a_response_that_is_cut_off_has_an_incomplete_call() -> None:
    cut = answer(call("weather__forecast", '{"city": "Pa', id="a"), finish="length")
    events = Conversation().run({}, cut)
    assert output_of(events)[1].items() >= {"status": "incomplete", "output": None, "error": None}.items()


# ---- approvals -------------------------------------------------------------------------------------------------------


def approve(request_id: str, **members: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True, **members}


def test_a_call_that_needs_approval_ends_the_response() -> None:
    talk = Conversation()
    events = talk.run({"tools": [BOUND]}, ASKS_TWICE)
    assert kinds(events)[6:] == [*["output_item.added", "output_item.done"] * 2, "completed"]
    asked = {
        "type": "mcp_approval_request",
        "id": events[6]["item"]["id"],
        "server_label": "weather",
        "name": "forecast",
        "arguments": PARIS,
    }
    assert events[6]["item"] == events[7]["item"] == output_of(events)[1] == asked
    assert asked["id"].startswith("mcpr_")
    assert talk.servers.calls == []


def test_calls_that_need_none_run_beside_one_that_does() -> None:
    talk = Conversation()
    events = talk.run({"tools": [{**WEATHER, "require_approval": {"never": {"read_only": True}}}]}, ASKS_TWICE)
    assert [item["type"] for item in output_of(events)] == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]
    assert [call.name for call in talk.servers.calls] == ["forecast"]
    assert len(talk.chats) == 1


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "sent"])
def test_an_approved_call_runs_before_the_model_is_asked(stored: bool) -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    request_id = first[1]["id"]
    before = [USER, *first]
    own = [approve(request_id)]
    items = {"input": own} if stored else {"input": [*before, *own]}
    events = talk.run({"tools": [BOUND], **items}, text("Sunny."), history=before if stored else ())
    assert kinds(events)[2:8] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    assert (
        output_of(events)[0].items()
        >= {
            "type": "mcp_call",
            "name": "forecast",
            "arguments": PARIS,
            "approval_request_id": request_id,
            "status": "completed",
            "output": "It is sunny.",
        }.items()
    )
    assert [item["type"] for item in output_of(events)] == ["mcp_call", "message"]
    assert len(talk.servers.calls) == 1
    assert [message["role"] for message in talk.chats[1]["messages"]] == ["user", "assistant", "tool"]
    assert talk.chats[1]["messages"][1]["tool_calls"][0]["function"] == {"name": "weather__forecast", "arguments": PARIS}
    assert events[-1]["response"]["usage"]["total_tokens"] == 17, "one answer of the engine"


def test_a_list_that_is_due_comes_before_the_approved_call() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    events = talk.run({"tools": [BOUND], "input": [USER, first[1], approve(first[1]["id"])]}, text("Sunny."))
    assert [item["type"] for item in output_of(events)] == ["mcp_list_tools", "mcp_call", "message"]


def test_several_approved_calls_run_in_one_step_also_if_the_model_may_make_one_at_a_time() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS_TWICE))
    before = [USER, *first, *(approve(item["id"]) for item in first[1:])]
    second = output_of(talk.run({"tools": [BOUND], "parallel_tool_calls": False, "input": before}, text("Sunny.")))
    assert [call.name for call in talk.servers.calls] == ["forecast", "report"]
    assert [message["role"] for message in talk.chats[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    # Later, it is the same.
    talk.run({"tools": [BOUND], "input": [*before, *second, NEXT]}, text("Rainy."))
    assert talk.chats[2]["messages"][:4] == talk.chats[1]["messages"]


def test_no_more_approved_calls_run_than_the_request_allows() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS_TWICE))
    before = [USER, *first, *(approve(item["id"]) for item in first[1:])]
    events = talk.run({"tools": [BOUND], "max_tool_calls": 1, "input": before}, text("Sunny."))
    second = output_of(events)
    assert [call.name for call in talk.servers.calls] == ["forecast"]
    assert [(item["type"], item["status"]) for item in second] == [
        ("mcp_call", "completed"),
        ("mcp_call", "failed"),
        ("message", "completed"),
    ]
    assert events[-1]["response"]["antiphon_notices"] == [
        "a call of weather__report was not run: max_tool_calls allows 1",
    ]
    assert "at most 1 such calls" in talk.chats[1]["messages"][-1]["content"]
    # Later, it is the same.
    talk.run({"tools": [BOUND], "input": [*before, *second, NEXT]}, text("Rainy."))
    assert talk.chats[2]["messages"][:4] == talk.chats[1]["messages"]


def test_an_approved_call_counts_for_the_calls_that_follow_and_one_that_cannot_run_does_not() -> None:
    talk = Conversation()
    free = {**WEATHER, "require_approval": {"never": {"tool_names": ["forecast"]}}}
    asks = answer(call("weather__report", '{"city": "Rome"}', id="b"), finish="tool_calls")
    first = output_of(talk.run({"tools": [free]}, asks))
    for allowed, calls in ((None, ["report"]), (["forecast"], ["forecast"])):
        talk.servers.calls.clear()
        tools = [{**free, "allowed_tools": allowed}]
        items = [USER, *first, approve(first[1]["id"])]
        talk.run({"tools": tools, "max_tool_calls": 1, "input": items}, ASKS, text("Sunny."))
        assert [call.name for call in talk.servers.calls] == calls


def test_each_request_may_be_answered_in_its_place() -> None:
    talk = Conversation()
    listed, one, other = output_of(talk.run({"tools": [BOUND]}, ASKS_TWICE))
    items = [USER, listed, one, approve(one["id"]), other, approve(other["id"])]
    talk.run({"tools": [BOUND], "input": items}, text("Sunny."))
    assert [call.name for call in talk.servers.calls] == ["forecast", "report"]


@pytest.mark.parametrize(
    "item", [{"type": ["x"]}, {"type": {}, "role": "user"}, {"type": "mcp_call", "approval_request_id": []}]
)
def test_an_item_beside_an_approval_may_be_anything_and_is_refused_by_its_member(item: dict[str, Any]) -> None:
    first = output_of(Conversation().run({"tools": [BOUND]}, ASKS))
    wrong = refusal({"tools": [BOUND], "input": [USER, *first, approve(first[1]["id"]), item]})
    assert wrong.param is not None
    assert wrong.param.startswith("input[4].")


def test_required_calls_are_done_with_once_one_was_approved() -> None:
    talk = Conversation()
    fields = {"tools": [BOUND], "tool_choice": "required"}
    first = output_of(talk.run(fields, ASKS))
    events = talk.run({**fields, "input": [USER, *first, approve(first[1]["id"])]}, text("Sunny."))
    assert events[-1]["type"] == "response.completed"


def test_a_refused_call_has_no_item_and_the_model_is_told() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    refused = approve(first[1]["id"], approve=False, reason="Too dear.")
    events = talk.run({"tools": [BOUND], "input": [USER, *first, refused]}, text("As you wish."))
    assert [item["type"] for item in output_of(events)] == ["message"]
    told = talk.chats[1]["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool"]
    assert told[2]["content"] == "The user did not approve this call, so it was not made. The reason: Too dear."
    assert talk.servers.calls == []
    # Later, it is the same.
    talk.run({"tools": [BOUND], "input": [USER, *first, refused, *output_of(events), NEXT]}, text("Fine."))
    assert talk.chats[2]["messages"][:3] == told


def test_an_approved_call_is_run_once() -> None:
    """A client may send the whole conversation again, with or without the call."""
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    approved = approve(first[1]["id"])
    second = output_of(talk.run({"tools": [BOUND], "input": [USER, *first, approved]}, text("Sunny.")))
    talk.run({"tools": [BOUND], "input": [USER, *first, approved, *second, NEXT]}, text("Rainy."))
    talk.run({"tools": [BOUND], "input": [USER, *first, approved, second[1], NEXT]}, text("Rainy."))
    talk.run({"tools": [BOUND], "input": [NEXT]}, text("Rainy."), history=[USER, *first, approved])
    talk.run({"tools": [BOUND], "input": [approved, NEXT]}, text("Rainy."), history=[USER, *first, approved, *second])
    assert len(talk.servers.calls) == 1


@pytest.mark.parametrize("kind", CONTINUE_ANSWERS)
def test_an_approval_before_what_the_model_wrote_later_has_had_its_effect(kind: str) -> None:
    """Also where the client has left out the call itself."""
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    later = {"type": kind, "id": "a", "call_id": "a", "name": "f", "arguments": "{}", "server_label": "weather"}
    talk.run({"tools": [BOUND], "input": [USER, *first, approve(first[1]["id"]), later, NEXT]}, text("Rainy."))
    assert talk.servers.calls == []


def test_an_approval_without_its_request_is_refused() -> None:
    wrong = refusal({"input": [USER, approve("mcpr_x")]})
    assert (wrong.param, wrong.code) == ("input[1].approval_request_id", "approval_request_not_found")
    assert "mcpr_x" in wrong.message


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "mcp_approval_response", "approve": True}, "approval_request_id"),
        ({"type": "mcp_approval_response", "approval_request_id": "a", "approve": "yes"}, "approve"),
        ({"type": "mcp_call", "server_label": "a", "name": "b"}, "id"),
        ({"type": "mcp_call", "id": "a", "name": "b"}, "server_label"),
        ({"type": "mcp_list_tools", "id": "a", "server_label": "a"}, "tools"),
        ({"type": "mcp_list_tools", "id": "a", "server_label": "a", "tools": [{"name": 1}]}, "tools[0].name"),
        ({"type": "mcp_approval_request", "id": "a", "server_label": "a", "name": "b"}, "arguments"),
    ],
)
def test_an_item_that_is_wrong_is_refused_by_its_member(item: dict[str, Any], param: str) -> None:
    assert refusal({"input": [USER, item]}).param == f"input[1].{param}"


def test_an_approved_call_needs_its_server() -> None:
    first = output_of(Conversation().run({"tools": [BOUND]}, ASKS))
    wrong = refusal({"tools": [], "input": [USER, *first, approve(first[1]["id"])]})
    assert wrong.param == "tools"
    assert "'weather'" in wrong.message


def test_an_approved_call_of_a_tool_that_is_not_there_any_more_fails() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    bound = {**BOUND, "allowed_tools": ["report"]}
    events = talk.run({"tools": [bound], "input": [USER, *first, approve(first[1]["id"])]}, text("Sorry."))
    assert output_of(events)[0]["status"] == "failed"
    assert "no tool forecast" in talk.chats[1]["messages"][-1]["content"]
    assert talk.servers.calls == []


def test_half_a_call_is_not_run_whoever_approves_it() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, answer(call("weather__forecast", '{"city": "Pa', id="a"), finish="length")))
    assert first[1]["arguments"] == '{"city": "Pa'
    events = talk.run({"tools": [BOUND], "input": [USER, *first, approve(first[1]["id"])]}, text("Sorry."))
    assert output_of(events)[0]["status"] == "failed"
    assert "not a JSON object" in talk.chats[1]["messages"][-1]["content"]
    assert talk.servers.calls == []


def test_a_summary_runs_no_approved_call_and_lists_nothing() -> None:
    talk = Conversation()
    first = output_of(talk.run({"tools": [BOUND]}, ASKS))
    listed = len(talk.servers.listed)
    items = [USER, first[1], approve(first[1]["id"]), {"type": "compaction_trigger"}]
    events = talk.run({"tools": [BOUND], "input": items}, text("They asked for the weather."))
    assert [item["type"] for item in output_of(events)] == ["compaction"]
    assert (talk.servers.calls, len(talk.servers.listed)) == ([], listed)


def test_a_response_that_is_cancelled_while_an_approved_call_runs_used_nothing() -> None:
    first = output_of(Conversation().run({"tools": [BOUND]}, ASKS))
    exchange = Exchange(
        CreateResponse(model="m", input=[USER, *first, approve(first[1]["id"])], tools=[BOUND]),
        [EngineKnowledge(PLAIN)],
        make_environment(tools={"mcp": FakeServers()}),
    )
    assert exchange.step == RunTools(()), "nothing is emitted before the first events"
    exchange.start()
    assert isinstance(exchange.step, RunTools)
    assert len(exchange.step.calls) == 1
    exchange.abort(Cancelled())
    assert isinstance(exchange.step, Done), "there is no answer whose usage would have to be estimated"
    exchange.end()
    assert (exchange.response.status, exchange.response.usage) == ("cancelled", None)
    assert [item.status for item in exchange.response.output] == ["incomplete"]  # type: ignore[union-attr]


# ---- histories -------------------------------------------------------------------------------------------------------


def test_list_items_make_no_message_and_no_notice() -> None:
    talk = Conversation()
    first = output_of(talk.run({}, ASKS, text("Sunny.")))
    events = talk.run({"input": [USER, *first, NEXT]}, text("Rainy."))
    assert [message["role"] for message in talk.chats[2]["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert "antiphon_notices" not in events[-1]["response"]


def test_calls_of_a_server_that_is_gone_look_the_same() -> None:
    talk = Conversation()
    first = output_of(talk.run({}, ASKS, text("Sunny.")))
    talk.run({"input": [USER, *first, NEXT]}, text("Rainy."))
    talk.run({"tools": [], "input": [USER, *first, NEXT]}, text("Rainy."))
    assert talk.chats[2]["messages"] == talk.chats[3]["messages"]


def test_an_error_in_plain_words_is_what_the_model_sees() -> None:
    talk = Conversation()
    made = {"type": "mcp_call", "id": "mcp_1", "server_label": "weather", "name": "forecast", "arguments": "{}"}
    items = [
        {**made, "error": "It broke."},
        {**made, "id": "mcp_2", "error": {"type": "new", "why": "?"}},
        {**made, "id": "mcp_3"},
    ]
    talk.run({"input": [USER, *items, NEXT]}, text("Sorry."))
    told = [message["content"] for message in talk.chats[0]["messages"] if message["role"] == "tool"]
    assert told == ["It broke.", '{"type":"new","why":"?"}', "(no output was recorded for this call)"]


results = st.sampled_from(
    [
        ToolResult("Sunny."),
        ToolResult(""),
        ToolResult("Two\nlines"),
        ToolResult("No.", failed=True),
        *(ToolResult(SAID[kind], failed=True, data=error) for kind, error in ERRORS.items()),
    ]
)
names = st.sampled_from(["weather__forecast", "weather__report", "report"])
written = st.tuples(names, st.sampled_from(["", "{}", PARIS, '{"city": ["Oslo", 1]}']))
called = st.lists(written, min_size=1, max_size=3)
answered = st.tuples(st.sampled_from(["", "Hm."]), st.sampled_from(["", "Let me look."]), called)


@settings(max_examples=150)
@given(st.lists(answered, max_size=2), st.lists(results, min_size=1, max_size=4))
def test_every_round_is_a_prefix_of_what_follows(
    made: list[tuple[str, str, list[tuple[str, str]]]], given_results: list[ToolResult]
) -> None:
    """What the model saw while the response ran is what its items become."""
    answers = []
    for thought, words, called in made:
        pieces = [chunk({"reasoning_content": thought})] if thought else []
        pieces += [chunk({"content": words})] if words else []
        pieces += [call(name, given, id=f"c{at}", index=at) for at, (name, given) in enumerate(called)]
        answers.append(answer(*pieces, finish="tool_calls"))
    left = iter(given_results * 20)
    lists = {"weather": Listing([McpTool("forecast", {}), McpTool("report", {})])}
    talk = Conversation(FakeServers(lists, result=lambda call: next(left)))
    output = output_of(talk.run({}, *answers, text("Done.")))
    live = talk.chats[-1]["messages"]
    assert all(live[: len(chat["messages"])] == chat["messages"] for chat in talk.chats)
    talk.run({"input": [USER, *output, NEXT]}, text("Yes."))
    assert talk.chats[-1]["messages"][: len(live)] == live
    assert len(talk.chats[-1]["messages"]) == len(live) + 2
    assert len(talk.servers.calls) == sum(len(called) for _, _, called in made)


# ---- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "mcp", "server_label": "weather"}, ["weather__forecast", "weather__report"]),
        ({"type": "mcp", "server_label": "weather", "name": "report"}, ["weather__report"]),
        ("required", ["weather__forecast", "weather__report", "f"]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp", "server_label": "weather"}]},
            ["weather__forecast", "weather__report"],
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "mcp", "server_label": "weather", "name": "report"}],
            },
            ["weather__report"],
        ),
    ],
)
def test_mcp_tools_can_be_required(choice: Any, names: list[str]) -> None:
    talk = Conversation()
    other = {"type": "function", "name": "f"}
    asks = answer(call(names[0], PARIS, id="a"), finish="tool_calls")
    events = talk.run({"tools": [WEATHER, other], "tool_choice": choice}, asks, text("Sunny."))
    first, second = talk.chats
    assert (names_in(first), first["tool_choice"]) == (names, "required")
    assert second["tool_choice"] == "auto", "one call is enough"
    assert events[-1]["response"]["tool_choice"] == choice


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "mcp", "server_label": "x"}, "tool_choice"),
        ({"type": "mcp", "server_label": "weather", "name": "x"}, "tool_choice"),
        ({"type": "mcp"}, "tool_choice.server_label"),
        ({"type": "mcp", "server_label": ["weather"]}, "tool_choice.server_label"),
        ({"type": "allowed_tools", "tools": [{"type": "mcp", "server_label": "x"}]}, "tool_choice.tools[0]"),
    ],
)
def test_a_choice_of_what_is_not_there_is_an_error(choice: Any, param: str) -> None:
    first = output_of(Conversation().run({}, text("Hello.")))
    assert refusal({"tool_choice": choice, "input": [USER, *first, NEXT]}).param == param


def test_a_choice_of_a_server_that_is_not_there_is_refused_before_anything_is_listed() -> None:
    for label in ("x", 5, None):
        wrong = refusal({"tool_choice": {"type": "mcp", "server_label": label}})
        assert wrong.param == ("tool_choice" if label == "x" else "tool_choice.server_label")


def test_a_choice_of_a_tool_that_is_not_in_the_list_fails_the_response() -> None:
    choice = {"type": "mcp", "server_label": "weather", "name": "x"}
    events = Conversation().run({"tool_choice": choice})
    assert [item["type"] for item in output_of(events)] == ["mcp_list_tools"]
    assert events[-1]["response"]["error"]["code"] == "invalid_prompt"
    assert "'x' of 'weather' is not among the tools" in events[-1]["response"]["error"]["message"]


def test_a_list_without_an_id_counts() -> None:
    talk = Conversation()
    listed = {"type": "mcp_list_tools", "server_label": "weather", "tools": [{"name": "new", "input_schema": {}}]}
    talk.run({"input": [listed, USER]}, text("Yes."))
    assert names_in(talk.chats[0]) == ["weather__new"]


def test_of_two_tools_with_one_name_the_stricter_counts() -> None:
    listing = Listing([FORECAST, McpTool("forecast", CITY, annotations={"readOnlyHint": False, "read_only": False})])
    talk = Conversation(FakeServers({"weather": listing}))
    events = talk.run({"tools": [{**WEATHER, "require_approval": {"never": {"read_only": True}}}]}, ASKS)
    assert output_of(events)[1]["type"] == "mcp_approval_request"


# ---- servers that the operator attaches ------------------------------------------------------------------------------

ATTACHED = {"type": "mcp", "server_label": "weather", "require_approval": "never"}


def attached(servers: FakeServers | None = None) -> Conversation:
    return Conversation(servers or FakeServers(labels=["weather"]), attached=[ATTACHED])


def test_attached_servers_are_offered_and_not_shown() -> None:
    talk = attached()
    events = talk.run({"tools": []}, ASKS, text("Sunny."))
    assert [item["type"] for item in output_of(events)] == ["mcp_call", "message"]
    assert events[-1]["response"]["tools"] == []
    assert talk.servers.listed == [McpServer("weather")]
    # Their calls come back, and they are listed for every request.
    talk.run({"tools": [], "input": [USER, *output_of(events), NEXT]}, text("Rainy."))
    assert talk.chats[2]["messages"][: len(talk.chats[1]["messages"])] == talk.chats[1]["messages"]
    assert len(talk.servers.listed) == 2


def test_an_attached_server_that_cannot_be_listed_is_left_out_with_a_notice() -> None:
    events = attached(FakeServers({}, labels=["weather"])).run({"tools": []}, text("Hello."))
    assert [item["type"] for item in output_of(events)] == ["message"]
    assert events[-1]["response"]["antiphon_notices"] == ["the tools of MCP server weather are not offered: It is not there."]


def test_a_clients_own_server_of_the_same_label_counts() -> None:
    talk = attached()
    talk.run({"tools": [WEATHER]}, text("Hello."))
    assert talk.servers.listed == [McpServer("weather", WEATHER["server_url"])]


def test_a_list_of_the_client_says_nothing_about_an_attached_server() -> None:
    talk = attached()
    false = {"type": "mcp_list_tools", "id": "l", "server_label": "weather", "tools": [{"name": "erase", "input_schema": {}}]}
    talk.run({"tools": [], "input": [false, USER]}, text("Hello."))
    assert names_in(talk.chats[0]) == ["weather__forecast", "weather__report"]


@pytest.mark.parametrize("rule", ["never", "always"])
def test_a_server_in_input_items_does_not_take_the_place_of_an_attached_one(rule: str) -> None:
    other = {**WEATHER, "server_url": "https://other.example/mcp", "require_approval": "never"}
    items = [{"type": "additional_tools", "role": "developer", "tools": [other]}, USER]
    servers = FakeServers(labels=["weather"])
    talk = Conversation(servers, attached=[{**ATTACHED, "require_approval": rule}])
    events = talk.run({"tools": [], "input": items}, ASKS, *([text("Sunny.")] if rule == "never" else []))
    assert output_of(events)[0]["type"] == ("mcp_call" if rule == "never" else "mcp_approval_request")
    assert servers.listed == [McpServer("weather")]
    assert "has an MCP server of its own with the label weather" in events[-1]["response"]["antiphon_notices"][0]


# ---- tools that a search has to find -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["never", "always"])
def test_a_deferred_server_is_listed_at_once_and_its_tools_are_offered_once_they_are_found(rule: str) -> None:
    talk = Conversation()
    tools = [{"type": "tool_search"}, {**WEATHER, "defer_loading": True, "require_approval": rule}]
    search = answer(call("tool_search", '{"query": "forecast weather"}', id="s"), finish="tool_calls")
    then = [text("Sunny.")] if rule == "never" else []
    events = talk.run({"tools": tools}, search, ASKS, *then)
    assert names_in(talk.chats[0]) == ["tool_search"]
    assert "weather__forecast" in names_in(talk.chats[1])
    made = ["mcp_call", "message"] if rule == "never" else ["mcp_approval_request"]
    found = ["tool_search_call", "tool_search_output"]
    assert [item["type"] for item in output_of(events)] == ["mcp_list_tools", *found, *made]
    assert len(talk.servers.calls) == (rule == "never"), "a search is no way around the approval"
    # The next request offers them from the beginning.
    talk.run({"tools": tools, "input": [USER, *output_of(events), NEXT]}, text("Rainy."))
    assert names_in(talk.chats[-1]) == names_in(talk.chats[1])
    live = talk.chats[-2]["messages"]
    assert talk.chats[-1]["messages"][: len(live)] == live


def test_an_approved_call_of_a_deferred_tool_runs_also_if_the_search_was_not_sent_again() -> None:
    talk = Conversation()
    tools = [{"type": "tool_search"}, {**BOUND, "defer_loading": True}]
    search = answer(call("tool_search", '{"query": "forecast weather"}', id="s"), finish="tool_calls")
    first = output_of(talk.run({"tools": tools}, search, ASKS))
    events = talk.run({"tools": tools, "input": [USER, first[0], first[-1], approve(first[-1]["id"])]}, text("Sunny."))
    assert [item["type"] for item in output_of(events)] == ["mcp_call", "message"]
    assert len(talk.servers.calls) == 1


def test_what_a_search_showed_of_a_server_is_no_server() -> None:
    talk = Conversation(FakeServers(check_url=lambda url: "it is redacted" if "redacted" in url else None))
    tools = [{"type": "tool_search"}, {**WEATHER, "defer_loading": True}]
    search = answer(call("tool_search", '{"query": "forecast weather"}', id="s"), finish="tool_calls")
    first = output_of(talk.run({"tools": tools}, search, ASKS, text("Sunny.")))
    assert first[2]["tools"][0]["server_url"] == "https://weather.example/<redacted>"
    items = [USER, *first, NEXT]
    events = talk.run({"tools": [], "input": items}, text("Rainy."))
    assert len(talk.servers.listed) == 1
    assert names_in(talk.chats[-1]) == []
    why = "the address of its server is not stored. Send the tool again"
    assert events[-1]["response"]["antiphon_notices"] == [f"tool mcp weather was left out: {why}"]
    # With the tool, there is nothing to say.
    events = talk.run({"tools": [WEATHER], "input": items}, text("Rainy."))
    assert "weather__forecast" in names_in(talk.chats[-1])
    assert "antiphon_notices" not in events[-1]["response"]


# ---- what else there is of it ------------------------------------------------------------------------------------------


def test_a_stored_definition_is_left_out_because_it_has_no_address() -> None:
    talk = Conversation()
    tools = {"type": "additional_tools", "role": "developer", "tools": [{**WEATHER, "server_label": "found"}]}
    stored = items_to_stored_form([tools], lambda prefix: "id")
    assert stored[0]["tools"][0]["server_url"] == "https://weather.example/<redacted>"
    events = talk.run({"tools": []}, text("Hello."), history=stored)
    assert talk.servers.listed == []
    assert "the address of its server is not stored" in events[-1]["response"]["antiphon_notices"][0]


def test_the_length_of_an_answer_does_not_depend_on_what_is_listed() -> None:
    knowledge = EngineKnowledge(PLAIN)
    knowledge.sampling = {"m": Sampling(most_tokens=1024)}
    for tools, most in (([WEATHER], None), ([], 1024)):
        events = Conversation().run({"tools": tools}, text("Hello."), engines=[knowledge])
        assert {event["response"]["max_output_tokens"] for event in events if "response" in event} == {most}


def test_a_running_response_shows_the_arguments_so_far() -> None:
    events = Conversation().run({}, ASKS, text("Sunny."))
    so_far = OutputSoFar()
    for event in events[: kinds(events).index("mcp_call_arguments.done")]:
        so_far.add(msgspec.convert(event, StreamEvent))
    last = so_far.items()[-1]
    assert isinstance(last, McpCall)
    assert (last.arguments, last.status) == (PARIS, "in_progress")


# ---- recordings ------------------------------------------------------------------------------------------------------


def test_a_recording_runs_again_without_the_secrets() -> None:
    servers = FakeServers(
        {**LISTS, "files": Listing([McpTool("read", {})])},
        labels=["files"],
        result=lambda call: ToolResult("No.", failed=True, data=ERRORS["protocol"]),
    )
    secret = {**WEATHER, "authorization": "s3cret", "headers": {"X": "s3cret"}, "server_url": "https://h/s3cret"}
    recording, events = record(
        {"tools": [secret]},
        ASKS,
        text("Sorry."),
        run_tool=servers.to_result,
        list_tools=servers.to_listing,
        attached=[{"type": "mcp", "server_label": "files"}],
        tools={"mcp": servers},
    )
    assert servers.listed[0].authorization == "s3cret"
    expected = to_stream(events)
    assert b"mcp_call.failed" in expected
    file = recording_to_file(recording, "1")
    for again in (recording, file_to_recording(file)):
        rerun = run_again(again)
        assert (rerun.trouble, to_stream(rerun.events)) == (None, expected)
    for data in (file, recording.body, recording.request or b"", expected):
        assert b"s3cret" not in data


# ---- whatever a client sends -------------------------------------------------------------------------------------------

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["", "weather", "mcpr_1", "forecast", "always", "{}", "a\nb"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "tool_names", "type", "x"]), inner),
    max_leaves=4,
)
MEMBERS = (
    "id server_label server_url name arguments output error tools approval_request_id approve reason status headers "
    "authorization allowed_tools require_approval defer_loading allowed_callers connector_id server_description".split()
)
TYPES = ["mcp", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "additional_tools", ["x"]]
good: dict[str, Any] = {
    "server_label": "weather",
    "server_url": "https://h",
    "id": "mcpr_1",
    "name": "forecast",
    "arguments": "{}",
    "tools": [],
}
good |= {"approval_request_id": "mcpr_1", "approve": True}
thing = st.builds(
    lambda kind, base, wrong: {"type": kind, **base, **wrong},
    st.sampled_from(TYPES),
    st.sampled_from([{}, good]),
    st.dictionaries(st.sampled_from(MEMBERS), junk, max_size=3),
)


@settings(max_examples=200)
@given(st.lists(thing, max_size=2), st.lists(thing, max_size=4), st.lists(thing, max_size=2), junk)
def test_whatever_a_client_sends_is_answered_or_refused(
    tools: list[Any], items: list[Any], history: list[Any], choice: Any
) -> None:
    servers = FakeServers(labels=["weather"])
    body = msgspec.json.encode({"model": "m", "tools": tools, "input": [*items, USER], "tool_choice": choice})
    try:
        request, _ = body_to_request(body)
        exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment(tools={"mcp": servers}), history=history)
    except InvalidRequest:
        return
    for _ in run_exchange(exchange, lambda step: [text("Yes.")], servers.to_result, servers.to_listing):
        pass
    assert exchange.response.status in ("completed", "failed")
