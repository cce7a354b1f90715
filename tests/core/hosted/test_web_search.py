"""web_search without I/O: its actions, what the model reads, and what histories say of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversions import messages
from support.engine import answer, call, text
from support.exchanges import Recorder, run_answers
from support.recorded import record
from support.sync_runs import to_stream

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.search_results import (
    SearchResult,
    WebSearchData,
    clean,
    clean_page,
    data_to_result,
    numbered,
    results_to_text,
    shortened,
)
from antiphon.core.hosted.web_search import (
    KIND,
    OPEN,
    SEARCH,
    TYPES,
    WebSearch,
    action_to_arguments,
    arguments_to_action,
    count_searches,
    offered_tool,
)
from antiphon.core.recording.file import file_to_recording, recording_to_file
from antiphon.core.recording.rerun import run_again
from antiphon.core.stream.citations import Sources
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.wire.responses import ToolUsage

TOOL = {"type": "web_search"}
TOOLS: Any = dict.fromkeys(TYPES, WebSearch())
SEARCHED = answer(call("web_search", '{"query": "Rome"}'), finish="tool_calls")
FOUND = WebSearchData(
    [SearchResult("https://a.example/", "A", "about A"), SearchResult("https://b.example/", "B")], "Found:", 1
)


def search(call: ToolCall) -> ToolResult:
    return data_to_result(FOUND)


# ---- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("web_search", {"query": "a"}, {"type": "search", "query": "a", "queries": ["a"]}),
        ("web_search", {"queries": ["a", "b", " a "]}, {"type": "search", "query": "a", "queries": ["a", "b"]}),
        ("web_search", {"query": "a", "queries": "b"}, {"type": "search", "query": "a", "queries": ["a", "b"]}),
        ("web_search", {"query": 3, "queries": {}}, {"type": "search", "query": "", "queries": []}),
        ("open_page", {"url": "https://a"}, {"type": "open_page", "url": "https://a"}),
        ("open_page", {"url": 3}, {"type": "open_page", "url": ""}),
        ("find_in_page", {"url": "u", "pattern": "p"}, {"type": "find_in_page", "url": "u", "pattern": "p"}),
        ("find_in_page", {}, {"type": "find_in_page", "url": "", "pattern": ""}),
    ],
)
def test_whatever_the_model_writes_is_an_action(name: str, arguments: dict[str, Any], action: dict[str, Any]) -> None:
    assert arguments_to_action(name, arguments) == action


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
members = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("type", "query", "queries", "url", "pattern", "sources"), json_values)
)


@given(members, st.sampled_from(["search", "open_page", "find_in_page", "find", "fly"]), json_values)
def test_no_item_of_another_server_breaks_a_request(action: dict[str, Any], kind: str, status: Any) -> None:
    for given_action in (action, {**action, "type": kind}, kind, None):
        item = {"type": "web_search_call", "id": "ws_1", "status": status, "action": given_action}
        sent = messages([{"role": "user", "content": "Hi"}, item])
        assert [message["role"] for message in sent] in (["user", "assistant"], ["user", "assistant", "tool"])


ARGUMENTS: dict[str, dict[str, Any]] = {
    "web_search": {"query": "a", "queries": ["b"]},
    "open_page": {"url": "u"},
    "find_in_page": {"url": "u", "pattern": "p"},
}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"status": "completed"}, "(the result is not shown again)"),
        ({"status": "failed"}, "(the call failed)"),
        ({}, "(the result is not shown again)"),
    ],
)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_in_a_history_it_is_the_call_as_the_model_made_it_and_a_short_result(
    name: str, item: dict[str, Any], words: str
) -> None:
    arguments = ARGUMENTS[name]
    history = {"type": "web_search_call", "id": "ws_1", "action": arguments_to_action(name, arguments), **item}
    _, called, found = messages([{"role": "user", "content": "Hi"}, history])
    (made,) = called["tool_calls"]
    assert (made["function"]["name"], msgspec.json.decode(made["function"]["arguments"])) == (name, arguments)
    assert found == {"role": "tool", "tool_call_id": made["id"], "content": words}


def test_sources_that_a_history_has_are_shown_again() -> None:
    action = {"type": "search", "query": "a", "sources": [{"type": "url", "url": "https://a.example"}, 3, {"url": None}]}
    *_, found = messages([{"role": "user", "content": "Hi"}, {"type": "web_search_call", "action": action}])
    assert found["content"] == "(the results are not shown again, only their addresses)\nhttps://a.example"


def test_the_prompt_does_not_depend_on_the_items_id() -> None:
    item = {"type": "web_search_call", "action": {"type": "search", "query": "a"}}
    without, with_id = (messages([{"role": "user", "content": "Hi"}, each]) for each in (item, {**item, "id": "ws_1"}))
    assert without == with_id


def test_an_action_that_is_not_known_has_no_function() -> None:
    assert action_to_arguments({"type": "fly"}) is None
    assert action_to_arguments({"type": "open_page", "url": None}) is None


# ---- what the model reads --------------------------------------------------------------------------------------------


def test_results_are_numbered_from_the_next_number_of_the_response() -> None:
    sources = Sources()
    first, second = (numbered(WebSearchData, data_to_result(FOUND), sources, 10_000) for _ in range(2))
    assert first.output == data_to_result(FOUND).output
    assert "[3] A\nhttps://a.example/\nabout A\n\n[4] B\nhttps://b.example/\n\n" in second.output
    assert "such as [3]." in second.output
    assert [sources.get(number).url for number in (1, 4)] == ["https://a.example/", "https://b.example/"]  # type: ignore[union-attr]


def test_a_failure_and_nothing_found_take_no_numbers() -> None:
    sources = Sources()
    for result in (ToolResult("no", failed=True), data_to_result(WebSearchData(words="Nothing."))):
        assert numbered(WebSearchData, result, sources, 10_000) is result
    assert len(sources) == 0


def test_a_result_without_a_title_is_shown_by_its_address() -> None:
    shown = results_to_text(WebSearchData([SearchResult("https://a.example/", "", "about")]), 1)
    assert shown.startswith("[1] https://a.example/\nabout\n")


def test_searches_are_counted() -> None:
    usage, search = ToolUsage(), ToolIdentity(KIND, SEARCH)
    count_searches(usage, search, data_to_result(WebSearchData(searches=3)))
    count_searches(usage, search, ToolResult("found"))
    count_searches(usage, ToolIdentity(KIND, OPEN), ToolResult("a page"))
    assert usage.web_search.num_requests == 4


@pytest.mark.parametrize(
    ("dirty", "clean_text"),
    [
        ("a <strong>b</strong>\n c", "a b c"),
        ("2 < 3 &amp; 4 > 1", "2 < 3 & 4 > 1"),
        ("Rome[1] is[23] old【4†x】.", "Rome is old."),
        (None, ""),
        (3, ""),
    ],
)
def test_snippets_are_plain_text_without_footnotes(dirty: Any, clean_text: str) -> None:
    assert clean(dirty) == clean_text


def test_a_page_keeps_its_lines() -> None:
    assert clean_page("# A \n\n\n\nb\t c[2]\n- d") == "# A\n\nb c\n- d"


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abc def", 4) == "abc\n(cut here: 3 more characters)"


# ---- an exchange -----------------------------------------------------------------------------------------------------


def test_two_calls_of_one_answer_are_two_items_with_numbers_that_run_on() -> None:
    both = answer(
        call("web_search", '{"query": "a"}', id="a"), call("web_search", '{"query": "b"}', id="b", index=1), finish="tool_calls"
    )
    asked = Recorder()
    events = run_answers({"tools": [TOOL]}, both, text("See [3]."), run_tool=search, tools=TOOLS, on_ask=asked)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["web_search_call", "web_search_call", "message"]
    assert [item["action"]["query"] for item in output[:2]] == ["a", "b"]
    assert [message["content"][:13] for message in asked.chats[-1]["messages"][-2:]] == ["Found:\n\n[1] A", "Found:\n\n[3] A"]
    assert output[-1]["content"][0]["annotations"][0]["url"] == "https://a.example/"


def test_a_call_that_is_cut_off_is_a_failed_item() -> None:
    cut = answer(call("web_search", '{"query": "a'), finish="length")
    events = run_answers({"tools": [TOOL]}, cut, run_tool=search, tools=TOOLS)
    (item,) = events[-1]["response"]["output"]
    assert (item["type"], item["status"]) == ("web_search_call", "failed")
    assert events[-1]["response"]["status"] == "incomplete"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_however_the_engines_bytes_are_split_the_events_are_the_same(size: int) -> None:
    answers = (SEARCHED, text("See [1", "] and [", "2]."))
    split = [[data[at : at + size] for at in range(0, len(data), size)] for data in answers]
    whole = run_answers({"tools": [TOOL]}, *answers, run_tool=search, tools=TOOLS)
    pieces = run_answers({"tools": [TOOL]}, *split, run_tool=search, tools=TOOLS)
    assert pieces[-1]["response"]["output"] == whole[-1]["response"]["output"]
    assert [event for event in pieces if "web_search" in event["type"]] == [e for e in whole if "web_search" in e["type"]]


def test_a_recording_runs_again_also_with_data_that_was_in_a_file() -> None:
    include = ["web_search_call.action.sources", "web_search_call.results"]
    recording, events = record({"tools": [TOOL], "include": include}, SEARCHED, text("See [2]."), run_tool=search, tools=TOOLS)
    expected = to_stream(events)
    assert to_stream(run_again(recording).events) == expected
    rerun = run_again(file_to_recording(recording_to_file(recording, "1")))
    assert (rerun.trouble, to_stream(rerun.events)) == (None, expected)


def test_the_definition_that_counts_is_the_first_that_is_offered() -> None:
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": "f"},
        {"type": "web_search", "external_web_access": False, "search_context_size": "low"},
        {"type": "web_search_preview", "search_context_size": "high"},
        {"type": "web_search", "search_context_size": "low"},
    ]
    assert offered_tool(tools).search_context_size == "high"
    assert offered_tool([]).domains == []
