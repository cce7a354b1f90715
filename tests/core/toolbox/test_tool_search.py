"""Tool search that the gateway runs: deferred tools are hidden, found, and offered from then on."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.engine import answer, call, chunk, text
from support.exchanges import Event, Recorder, run_answers

from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.search import (
    MOST_BY_NAMES,
    MOST_BY_WORDS,
    MOST_LINES,
    MOST_NAMES,
    describe_search,
    found_to_text,
    search,
)
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction
from antiphon.wire.responses import CreateResponse

Tool = dict[str, Any]
Item = dict[str, Any]

SEARCH: Tool = {"type": "tool_search"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LATER = {"defer_loading": True}
NOW: Tool = {"type": "function", "name": "now", "description": "The time."}
WEATHER: Tool = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": CITY,
    **LATER,
}
MAIL: Tool = {"type": "custom", "name": "sendMail", "description": "Sends an email.", **LATER}
ORDERS: Tool = {"type": "function", "name": "list_orders", "description": "The open orders of a customer.", **LATER}
REFUND: Tool = {"type": "function", "name": "refund", "description": "Pays an order back.", **LATER}
WHOAMI: Tool = {"type": "function", "name": "whoami", "description": "Who is signed in."}
CRM: Tool = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers and what they bought.",
    "tools": [ORDERS, REFUND, WHOAMI],
}
TOOLS: list[Tool] = [NOW, SEARCH, WEATHER, MAIL, CRM]
SERVER: Tool = {
    "type": "mcp",
    "server_label": "repo",
    "server_description": "Source code.",
    "headers": {"k": "secret"},
    **LATER,
}


def box_of(*tools: Tool, found: list[Tool] | None = None) -> Toolbox:
    more = [(f"input[0].tools[{at}]", tool) for at, tool in enumerate(found or [])]
    box = tools_to_box(tools, more, {**DEFINITIONS, "mcp": define_server})
    describe_search(box)
    return box


def define_server(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    """Adds tools as the definition of an MCP server does."""
    for name, about in (
        ("read_file", "Reads a file."),
        ("blame", "Who wrote a line."),
        ("search_code", "Finds text in files."),
    ):
        box.add(ToolIdentity("mcp", name, tool["server_label"]), ChatFunction("", about), where)


def converted(items: Any, tools: list[Tool], **fields: Any) -> Conversion:
    request = msgspec.convert({"model": "m", "input": items, "tools": tools, **fields}, CreateResponse)
    return request_to_chat(ChatInputs(request, items, PLAIN, "m"))


def names_of(tools: list[Tool]) -> list[str]:
    """What was found, in short."""
    return [
        f"{tool['name']}({' '.join(inner['name'] for inner in tool['tools'])})" if tool["type"] == "namespace" else tool["name"]
        for tool in tools
    ]


def output_of(events: list[Event]) -> list[Item]:
    output: list[Item] = events[-1]["response"]["output"]
    return output


def searching(query: str, id: str = "call_1", **arguments: Any) -> bytes:
    return answer(call("tool_search", json.dumps({"query": query} | arguments), id=id), finish="tool_calls")


# ---- what the model sees -----------------------------------------------------------------------------------------------


def test_deferred_tools_are_hidden_and_the_search_lists_what_there_is() -> None:
    box = box_of(*TOOLS, SERVER)
    assert list(box.offered.functions) == ["now", "tool_search", "crm__whoami"]
    description = box.offered.functions["tool_search"].function.description or ""
    assert description.splitlines()[1:] == [
        "- get_weather: The weather of a city.",
        "- sendMail: Sends an email.",
        "- crm (2 tools): Customers and what they bought.",
        "- repo (3 tools): Source code.",
    ]
    assert box.notices == []


def test_a_namespace_can_be_deferred_as_a_whole() -> None:
    box = box_of(SEARCH, {**CRM, **LATER, "tools": [WHOAMI, NOW]})
    assert list(box.offered.functions) == ["tool_search"]
    assert names_of(search(box, '{"query": "crm"}')) == ["crm(whoami now)"]


def test_without_a_search_deferred_tools_are_offered_with_a_notice() -> None:
    for tools in ([WEATHER], [WEATHER, {**SEARCH, "execution": "client"}]):
        box = box_of(*tools)
        assert "get_weather" in box.offered.functions
        assert box.notices == ["defer_loading of get_weather has no effect: the model sees the tool from the start"]


def test_a_search_without_deferred_tools_is_left_out() -> None:
    box = box_of(NOW, SEARCH, {**SERVER, "defer_loading": False})
    assert "tool_search" not in box.offered.functions
    assert box.notices == ["tool tool_search was left out: there is nothing to search, because no tool has defer_loading"]


@pytest.mark.parametrize("execution", [None, "server"])
def test_the_search_is_the_gateways_unless_it_is_the_clients(execution: str | None) -> None:
    assert box_of({**SEARCH, "execution": execution}, WEATHER).offered.identities["tool_search"].kind == "server_tool_search"


def test_an_own_description_comes_first_and_own_parameters_have_no_effect() -> None:
    box = box_of({**SEARCH, "description": "Look here.", "parameters": CITY}, WEATHER)
    assert (box.offered.functions["tool_search"].function.description or "").startswith(
        "Look here. These have to be found before they can be called:\n- get_weather"
    )
    assert box.notices == ["parameters of tool tool_search has no effect: the gateway runs the search"]


def test_a_long_list_is_cut() -> None:
    tools = [{**WEATHER, "name": f"f{number}", "description": "word " * 100} for number in range(MOST_LINES + 7)]
    lines = (box_of(SEARCH, *tools).offered.functions["tool_search"].function.description or "").splitlines()
    assert (len(lines), lines[-1]) == (MOST_LINES + 2, "- and 7 more")
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize("wrong", [{"type": ["x"]}, {"type": None}, {}, {"function": {"defer_loading": True}}])
def test_a_malformed_tool_beside_a_search_is_named(wrong: Tool) -> None:
    with pytest.raises(InvalidRequest) as raised:
        box_of(SEARCH, wrong)
    assert raised.value.param == "tools[1].type"


def test_a_schema_that_cannot_be_read_is_an_error_before_the_tool_is_found() -> None:
    strict = {**WEATHER, "strict": True, "parameters": {"type": "object", "properties": {"n": {"type": "no type"}}}}
    events = run_answers({"tools": [SEARCH, strict]})
    assert events[-1]["response"]["error"]["message"].startswith("Invalid `tools[1].parameters`")


# ---- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"query": "What is the weather in Paris?"}, ["get_weather"]),
        ({"query": "orders of a customer"}, ["crm(list_orders refund)"]),
        ({"query": "send mails"}, ["sendMail"]),
        ({"query": "get_weather"}, ["get_weather"]),
        ({"query": "crm"}, ["crm(list_orders refund)"]),
        ({"query": "crm.refund"}, ["crm(refund)"]),
        ({"query": "CRM__refund"}, ["crm(refund)"]),
        ({"paths": ["crm"]}, ["crm(list_orders refund)"]),
        ({"paths": ["crm/list_orders", "get_weather"]}, ["crm(list_orders)", "get_weather"]),
        ({"paths": "refund"}, ["crm(refund)"]),
        ({"paths": ["weather"]}, ["get_weather"]),
        ({"query": ["refund"], "paths": None}, ["crm(refund)"]),
        ({"words": "weather"}, ["get_weather"]),
        ({"query": "whoami"}, []),
        ({"query": "quantum physics"}, []),
        ({"query": ""}, []),
        ({"query": 3, "paths": [4, {}]}, []),
        ({}, []),
    ],
)
def test_tools_are_found_by_words_and_by_names(arguments: dict[str, Any], found: list[str]) -> None:
    assert names_of(search(box_of(*TOOLS), json.dumps(arguments))) == found


@pytest.mark.parametrize(
    ("arguments", "found"), [('"weather"', ["get_weather"]), ("the weath", []), ("[]", []), ("weather", ["get_weather"])]
)
def test_arguments_of_another_shape_are_words(arguments: str, found: list[str]) -> None:
    assert names_of(search(box_of(*TOOLS), arguments)) == found


def test_definitions_are_shown_as_they_were_given() -> None:
    found = search(box_of(*TOOLS), '{"paths": ["get_weather", "sendMail", "crm.refund"]}')
    assert found == [{**WEATHER, "strict": None}, MAIL, {**CRM, "tools": [{**REFUND, "parameters": None, "strict": None}]}]


def test_tools_of_a_server_are_shown_as_the_server_without_its_secrets() -> None:
    box = box_of(SEARCH, SERVER)
    (found,) = search(box, '{"query": "who wrote this line of a file"}')
    assert found.items() >= {"type": "mcp", "server_label": "repo", "headers": None, "defer_loading": True}.items()
    assert found["allowed_tools"][0] == "blame"
    assert search(box, '{"paths": ["repo"]}')[0]["allowed_tools"] == ["read_file", "blame", "search_code"]
    later = box_of(NOW, SEARCH, SERVER, found=[{**SERVER, "allowed_tools": ["search_code", "blame"]}])
    assert list(later.offered.functions) == ["now", "tool_search", "repo__search_code", "repo__blame"]
    assert later.offered.functions["tool_search"] == box_of(NOW, SEARCH, SERVER).offered.functions["tool_search"]
    assert found_to_text([found], later) == f"These tools can be called now: repo__{', repo__'.join(found['allowed_tools'])}."


def test_a_search_finds_a_few_by_words_and_not_too_many_by_names() -> None:
    tools = [{**ORDERS, "name": f"orders_{number}"} for number in range(100)]
    box = box_of(SEARCH, {**CRM, "tools": tools})
    assert len(search(box, '{"query": "open orders"}')[0]["tools"]) == MOST_BY_WORDS
    assert len(search(box, '{"query": "crm"}')[0]["tools"]) == MOST_BY_NAMES


def test_a_model_that_finds_nothing_is_told_what_there_is() -> None:
    tools = [{**WEATHER, "name": f"f{number}"} for number in range(MOST_NAMES + 5)]
    words = found_to_text([], box_of(SEARCH, *tools))
    assert words.startswith("No tool fits. Search again with other words, or with one of these names: f0, f1, ")
    assert words.endswith("f59, and 5 more.")
    assert found_to_text([], box_of()) == "No tool fits."


@pytest.mark.parametrize(
    "tool", [{}, {"type": "namespace"}, {"type": "namespace", "tools": [3]}, {"type": "mcp", "allowed_tools": {}}]
)
def test_odd_definitions_in_a_history_break_nothing(tool: Tool) -> None:
    assert found_to_text([tool], box_of(*TOOLS))


def test_a_found_tool_is_added_at_the_end_under_the_name_that_was_kept_for_it() -> None:
    clash = {"type": "function", "name": "crm__refund"}
    box = box_of(CRM, SEARCH, clash, WEATHER, found=[WEATHER, {**CRM, "tools": [REFUND]}])
    own_name = box.name_of(ToolIdentity("function", "crm__refund"))
    assert list(box.offered.functions)[:3] == ["crm__whoami", "tool_search", own_name]
    assert list(box.offered.functions)[3:] == ["get_weather", "crm__refund"]
    assert box.identity_of("crm__refund") == ToolIdentity("function", "refund", "crm")
    assert len(box.offered.functions) == 5


def test_two_deferred_tools_with_one_name_are_told_apart() -> None:
    mail = {**WEATHER, "name": "sendMail"}
    box = box_of(SEARCH, mail, MAIL)
    found = search(box, '{"query": "sendMail"}')
    words = found_to_text(found, box)
    assert words.startswith("These tools can be called now: sendMail, sendMail_")
    assert list(box_of(SEARCH, mail, MAIL, found=found).offered.functions)[1:] == words[31:-1].split(", ")


def test_many_tools_are_searched_in_no_time() -> None:
    tools = [{**WEATHER, "name": f"f{number}", "description": "some other words " * 200} for number in range(300)]
    assert names_of(search(box_of(SEARCH, *tools, ORDERS), '{"query": "orders"}')) == ["list_orders"]


texts = st.sampled_from(["", "crm", "list_orders", "read.file", "Été", "a b"])
leaf = st.fixed_dictionaries(
    {"type": st.sampled_from(["function", "custom"]), "name": texts},
    optional={"description": texts | st.none(), "defer_loading": st.booleans() | st.none() | texts, "strict": st.booleans()},
)
grouped = st.fixed_dictionaries(
    {"type": st.just("namespace"), "name": texts, "tools": st.lists(leaf, max_size=3)},
    optional={"defer_loading": st.booleans(), "description": texts},
)
server = st.fixed_dictionaries({"type": st.just("mcp"), "server_label": texts, "defer_loading": st.booleans()})


# One tool deferred and not; a namespace with the name of its tool.
@example([{"type": "mcp", "server_label": "crm", "defer_loading": deferred} for deferred in (True, False)], [])
@example([{"type": "namespace", "name": "a.b", "tools": [{"type": "function", "name": "a.b", "defer_loading": True}]}], ["a.b"])
@given(st.lists(leaf | grouped | server, max_size=5), st.lists(texts, max_size=2))
def test_whatever_is_deferred_is_hidden_or_found_and_then_offered(tools: list[Tool], paths: list[str]) -> None:
    try:
        box = box_of(SEARCH, *tools)
    except InvalidRequest:
        return
    assert box.offered.functions.keys().isdisjoint(box.deferred.names)
    found = search(box, json.dumps({"paths": paths}))
    later = box_of(SEARCH, *tools, found=found)
    assert list(later.offered.functions)[: len(box.offered.functions)] == list(box.offered.functions)
    assert set(later.offered.functions) - set(box.offered.functions) <= box.deferred.names
    assert len(later.offered.functions) > len(box.offered.functions) or not found
    assert found_to_text(found, later) == found_to_text(found, box)


# ---- the response ------------------------------------------------------------------------------------------------------


def test_a_search_and_what_it_found_are_items_and_then_the_tool_is_called() -> None:
    asked = Recorder()
    events = run_answers(
        {"tools": TOOLS},
        searching("weather in Paris"),
        answer(call("get_weather", '{"city": "Paris"}', id="call_2"), finish="tool_calls"),
        on_ask=asked,
    )
    searched, found, called = output_of(events)
    assert (searched["type"], searched["execution"], searched["call_id"]) == ("tool_search_call", "server", None)
    assert searched["arguments"] == {"query": "weather in Paris"}
    assert found == {
        "type": "tool_search_output",
        "id": found["id"],
        "call_id": None,
        "execution": "server",
        "status": "completed",
        "tools": [{**WEATHER, "strict": None}],
    }
    assert (searched["id"][:4], found["id"][:4]) == ("tsc_", "tso_")
    # As the API names a deferred function that is in no namespace.
    assert (called["name"], called["namespace"]) == ("get_weather", "get_weather")
    about_items = [(event["type"], event["item"]["type"]) for event in events if "item" in event]
    assert about_items[:4] == [
        ("response.output_item.added", "tool_search_call"),
        ("response.output_item.done", "tool_search_call"),
        ("response.output_item.added", "tool_search_output"),
        ("response.output_item.done", "tool_search_output"),
    ]
    first, second = asked.chats
    assert [tool["function"]["name"] for tool in first["tools"]] == ["now", "tool_search", "crm__whoami"]
    assert second["tools"] == [*first["tools"], second["tools"][-1]]
    assert second["tools"][-1]["function"]["parameters"] == CITY
    assert second["messages"][-1]["content"] == "These tools can be called now: get_weather."


def test_a_tool_of_a_namespace_is_called_with_its_namespace() -> None:
    events = run_answers(
        {"tools": TOOLS}, searching("crm"), answer(call("crm__refund", "{}", id="call_2"), finish="tool_calls")
    )
    assert [item["type"] for item in output_of(events)] == ["tool_search_call", "tool_search_output", "function_call"]
    assert (output_of(events)[2]["name"], output_of(events)[2]["namespace"]) == ("refund", "crm")


def test_searches_of_one_answer_are_followed_by_what_each_found() -> None:
    both = answer(
        call("tool_search", '{"query": "weather"}', id="a"),
        call("tool_search", '{"paths": ["refund"]}', id="b", index=1),
        finish="tool_calls",
    )
    events = run_answers({"tools": TOOLS}, both, text("Ready."))
    kinds = ["tool_search_call", "tool_search_output"]
    assert [item["type"] for item in output_of(events)] == [*kinds, *kinds, "message"]
    assert [names_of(item["tools"]) for item in output_of(events) if "tools" in item] == [["get_weather"], ["crm(refund)"]]


def test_a_search_beside_a_call_of_the_client_ends_the_response_with_that_call() -> None:
    both = answer(call("tool_search", '{"query": "weather"}', id="a"), call("now", "{}", id="b", index=1), finish="tool_calls")
    events = run_answers({"tools": TOOLS}, both)
    assert [item["type"] for item in output_of(events)] == ["tool_search_call", "tool_search_output", "function_call"]


def test_a_search_that_finds_nothing_has_no_tools_and_the_model_goes_on() -> None:
    asked = Recorder()
    events = run_answers({"tools": TOOLS}, searching("quantum physics"), text("I cannot."), on_ask=asked)
    assert output_of(events)[1]["tools"] == []
    assert asked.chats[1]["tools"] == asked.chats[0]["tools"]
    assert asked.chats[1]["messages"][-1]["content"].startswith("No tool fits.")


def test_a_search_without_words_is_asked_for_again() -> None:
    nothing = answer(call("tool_search", "{}"), finish="tool_calls")
    events = run_answers({"tools": TOOLS}, nothing, searching("weather"), text("Ready."))
    assert [item["type"] for item in output_of(events)] == ["tool_search_call", "tool_search_output", "message"]


def test_a_search_that_is_cut_off_finds_nothing() -> None:
    events = run_answers({"tools": TOOLS}, answer(call("tool_search", '{"query": "weath'), finish="length"))
    (item,) = output_of(events)
    assert (item["type"], item["status"], item["arguments"]) == ("tool_search_call", "incomplete", {})
    assert events[-1]["type"] == "response.incomplete"


def test_the_grammar_of_a_custom_tool_counts_once_it_is_found() -> None:
    numbers = {**MAIL, "name": "add", "format": {"type": "grammar", "syntax": "regex", "definition": r"\d+"}}
    wrong = answer(call("add", '{"input": "one"}', id="call_2"), finish="tool_calls")
    right = answer(call("add", '{"input": "1"}', id="call_3"), finish="tool_calls")
    events = run_answers({"tools": [SEARCH, numbers]}, searching("add"), wrong, right)
    assert output_of(events)[-1]["input"] == "1"


# ---- tool_choice -------------------------------------------------------------------------------------------------------


def test_a_call_can_be_required_and_after_a_search_the_model_is_free() -> None:
    asked = Recorder()
    run_answers({"tools": TOOLS, "tool_choice": "required"}, searching("weather"), text("Ready."), on_ask=asked)
    assert [chat["tool_choice"] for chat in asked.chats] == ["required", "auto"]
    assert [len(chat["tools"]) for chat in asked.chats] == [3, 4]


@pytest.mark.parametrize(
    "choice", [{"type": "function", "name": "get_weather"}, {"type": "function", "name": "refund", "namespace": "crm"}]
)
def test_a_tool_that_is_not_found_yet_cannot_be_required(choice: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        converted([{"role": "user", "content": "Hi"}], TOOLS, tool_choice=choice)
    assert raised.value.param == "tool_choice"
    assert "has defer_loading, so the model has to find it first. Require tool_search instead" in raised.value.message


def test_a_search_of_nothing_cannot_be_required() -> None:
    with pytest.raises(InvalidRequest) as raised:
        converted([{"role": "user", "content": "Hi"}], [SEARCH, NOW], tool_choice={"type": "tool_search"})
    assert raised.value.message == "Invalid `tool_choice`: tool_search has nothing to search: no tool has `defer_loading`."


def test_only_allowed_tools_are_found() -> None:
    allowed = [{"type": "function", "name": "now"}, {"type": "namespace", "name": "crm"}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    asked = Recorder()
    events = run_answers(
        {"tools": TOOLS, "tool_choice": choice}, searching("", paths=["get_weather", "crm"]), text("Ready."), on_ask=asked
    )
    assert names_of(output_of(events)[1]["tools"]) == ["crm(list_orders refund)"]
    offered = [[tool["function"]["name"] for tool in chat["tools"]] for chat in asked.chats]
    assert offered[0] == ["now", "tool_search", "crm__whoami"]
    assert offered[1] == [*offered[0], "crm__list_orders", "crm__refund"]


# ---- the history -------------------------------------------------------------------------------------------------------


def continued(tools: list[Tool], *answers: bytes) -> tuple[list[dict[str, Any]], list[Item]]:
    """The chat requests of a response, and the items of the conversation then."""
    asked = Recorder()
    events = run_answers({"tools": tools}, *answers, on_ask=asked)
    return asked.chats, [{"role": "user", "content": "Hi"}, *output_of(events)]


def chat_of(conversion: Conversion) -> dict[str, Any]:
    chat: dict[str, Any] = msgspec.to_builtins(conversion.chat)
    return chat


def test_what_was_found_is_offered_in_later_turns_and_the_prompt_begins_alike() -> None:
    chats, items = continued(
        TOOLS, searching("weather"), searching("nothing like this", "b"), searching("refund", "c"), text("Ready.")
    )
    assert len(chats) == 4
    later = chat_of(converted([*items, {"role": "user", "content": "Go on"}], TOOLS))
    for before, after in zip(chats, [*chats[1:], later], strict=True):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"][: len(before["tools"])] == before["tools"]
    assert [tool["function"]["name"] for tool in later["tools"][-2:]] == ["get_weather", "crm__refund"]


words = st.sampled_from(["weather", "refund", "crm", "mail", "open orders", "nothing at all", "é", "", "get_weather crm"])


@given(st.lists(st.tuples(words, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_every_prompt_begins_like_the_one_before_it(turns: list[tuple[str, bool, bool]]) -> None:
    answers = [
        answer(
            *([chunk({"reasoning_content": f"Thought {at}."})] if thinks else []),
            *([chunk({"content": f"Search {at}."})] if says else []),
            # Not the same again: that would be a loop.
            call("tool_search", json.dumps({"query": f"{query} {at}", "n": None}), id=f"call_{at}"),
            finish="tool_calls",
        )
        for at, (query, thinks, says) in enumerate(turns)
    ]
    chats, items = continued(TOOLS, *answers, text("Ready."))
    later = chat_of(converted([*items, {"role": "user", "content": "Go on"}], TOOLS))
    for before, after in zip(chats, [*chats[1:], later], strict=True):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"][: len(before["tools"])] == before["tools"]


def test_a_history_without_ids_is_a_search_and_its_result() -> None:
    _, items = continued(TOOLS, searching("weather"), text("Ready."))
    bare = [{name: value for name, value in item.items() if name not in ("id", "status")} for item in items]
    messages = chat_of(converted(bare, TOOLS))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2]["content"] == "These tools can be called now: get_weather."


def test_calls_of_a_found_tool_keep_its_name_with_or_without_their_namespace() -> None:
    _, items = continued(TOOLS, searching("weather"), answer(call("get_weather", "{}", id="c"), finish="tool_calls"))
    output = {"type": "function_call_output", "call_id": "c", "output": "sunny"}
    whole = chat_of(converted([*items, output], TOOLS))
    plain = [{name: value for name, value in item.items() if name != "namespace"} for item in items]
    assert chat_of(converted([*plain, output], TOOLS)) == whole
    assert whole["messages"][-2]["tool_calls"][0]["function"]["name"] == "get_weather"
    # The client sends no tools any more.
    assert chat_of(converted([*items, output], []))["messages"] == whole["messages"]


def test_an_output_whose_search_is_gone_only_offers_its_tools() -> None:
    _, items = continued(TOOLS, searching("weather"), text("Ready."))
    chat = chat_of(converted([items[0], items[2], items[3]], TOOLS))
    assert [message["role"] for message in chat["messages"]] == ["user", "assistant"]
    assert chat["tools"][-1]["function"]["name"] == "get_weather"


def test_a_search_without_an_output_has_a_placeholder() -> None:
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "tool_search_call", "id": "tsc_1", "call_id": None, "arguments": {"query": "maps"}},
    ]
    conversion = converted(items, TOOLS)
    call_message, result = conversion.chat.messages[1:]
    assert call_message.tool_calls
    assert call_message.tool_calls[0].function.arguments == '{"query":"maps"}'
    assert result.content == "(no output was recorded for this call)"
    assert "call tool_search_1 has no output: a placeholder was sent" in conversion.notices


def test_parallel_searches_begin_later_prompts_alike() -> None:
    both = answer(
        chunk({"reasoning_content": "Hm."}),
        call("tool_search", '{"query": "weather"}', id="a"),
        call("tool_search", '{"query": "refund"}', id="b", index=1),
        finish="tool_calls",
    )
    chats, items = continued(TOOLS, both, searching("mail", "c"), text("Ready."))
    later = chat_of(converted([*items, {"role": "user", "content": "Go on"}], TOOLS))
    for before, after in zip(chats, [*chats[1:], later], strict=True):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"][: len(before["tools"])] == before["tools"]
