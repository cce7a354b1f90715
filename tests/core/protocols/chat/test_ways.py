"""Which way a request goes: a row for each field that decides it."""

from typing import Any

import pytest
from support.chat import CALL, USER, WEATHER
from support.doc_blocks import ROOT

from antiphon.core.protocols.chat.ways import ATTACHED, HELPED, HISTORY, PASSED, SEARCH, WEB_SEARCH, Rules, choose_way

ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"}
PASSED_MESSAGES: dict[str, Any] = {
    "the model is to go on with its own words": {"role": "assistant", "content": "It is"},
    "a function's result of the older API": {"role": "function", "name": "f", "content": "1"},
    "a call of the older API": {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    "an answer that was heard": {"role": "assistant", "audio": {"id": "audio_1"}},
    "a video": {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://example.com"}}]},
    "an image of the assistant": {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
}

# What needs more than an engine does.
NEEDS: dict[str, tuple[dict[str, Any], str]] = {
    "tools": ({"tools": [WEATHER]}, "tools"),
    "a custom tool": ({"tools": [{"type": "custom", "custom": {"name": "run"}}]}, "tools"),
    "a choice": ({"tool_choice": "auto"}, "tool_choice"),
    "a schema": ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "response_format"),
    "JSON": ({"response_format": {"type": "json_object"}}, "response_format"),
    "a call": ({"messages": [USER, ASSISTANT, USER]}, HISTORY),
    "a result": ({"messages": [USER, RESULT]}, HISTORY),
}
# What is passed on although it needs more.
ROWS: dict[str, Any] = {
    "n": 2,
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "logit_bias": {"50256": -100},
    "prediction": {"type": "content", "content": "x"},
    "functions": [{"name": "f"}],
    "function_call": "auto",
    "messages": [PASSED_MESSAGES["the model is to go on with its own words"]],
    "tools": [WEATHER, {"type": "web_search"}],
    "response_format": {"type": "structural_tag"},
    "grammar": 'root ::= "a"',
    "json_schema": {"type": "object"},
    "structured_outputs": {"regex": "a"},
    "guided_json": {"type": "object"},
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": "a",
    "regex": "a",
    "ebnf": "a",
    "structural_tag": "a",
    "echo": True,
    "continue_final_message": True,
    "use_beam_search": True,
    "best_of": 2,
    "prompt_logprobs": 1,
    "add_generation_prompt": False,
}
# The same fields, with a value that says nothing.
HARMLESS: dict[str, Any] = {
    "n": 1,
    "modalities": ["text"],
    "logit_bias": {},
    "functions": [],
    "prediction": None,
    "messages": [USER],
    "response_format": {"type": "text"},
    "add_generation_prompt": True,
    "echo": False,
}


def test_every_row_is_tested() -> None:
    assert ROWS.keys() == PASSED.keys()
    assert {name for _, name in NEEDS.values()} == {name for _, name in HELPED.values()}


def test_the_page_for_users_names_every_row() -> None:
    _, _, ways = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8").partition("## Clients of Chat Completions")
    fields, _, rest = ways.partition("### What only an engine can do")
    passed, _, _ = rest.partition("###")
    assert [field for field in (*HELPED, SEARCH) if f"`{field}`" not in fields] == []
    assert [field for field in (*PASSED, SEARCH) if f"`{field}`" not in passed] == []


@pytest.mark.parametrize("row", NEEDS)
def test_what_engines_do_badly_is_answered_here(row: str) -> None:
    fields, name = NEEDS[row]
    way = choose_way({"model": "m", "messages": [USER], **fields})
    assert (way.passes, way.helped, way.passed) == (False, (name,), ())
    assert name in (way.notice or "")


@pytest.mark.parametrize("field", ROWS)
def test_what_cannot_be_done_here_is_passed_on(field: str) -> None:
    body = {"model": "m", "messages": [USER], "tools": [WEATHER], field: ROWS[field]}
    way = choose_way(body)
    assert (way.passes, way.passed) == (True, (field,))
    assert field in (way.notice or "")


@pytest.mark.parametrize("field", HARMLESS)
def test_a_value_that_says_nothing_decides_nothing(field: str) -> None:
    body = {"model": "m", "messages": [USER], "tools": [WEATHER], field: HARMLESS[field]}
    assert not choose_way(body).passes


@pytest.mark.parametrize("row", PASSED_MESSAGES)
def test_a_message_that_cannot_be_read_is_passed_on(row: str) -> None:
    messages = [USER, PASSED_MESSAGES[row]]
    assert choose_way({"messages": messages, "tools": [WEATHER]}).passed == ("messages",)


PLAIN: dict[str, Any] = {
    "nothing else": {},
    "no tools": {"tools": []},
    "nothing at all": {"tools": None, "tool_choice": None, "response_format": None},
    "text": {"response_format": {"type": "text"}},
    "fields of the engine": {"top_k": 40, "min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}},
    "a thought": {"messages": [USER, {"role": "assistant", "content": "Hi", "reasoning_content": "Hm"}, USER]},
    "several answers": {"n": 2},
}


@pytest.mark.parametrize("row", PLAIN)
def test_all_others_are_passed_on_without_a_word(row: str) -> None:
    way = choose_way({"model": "m", "messages": [USER], **PLAIN[row]})
    assert (way.passes, way.notice) == (True, None)


PASSING = Rules(passed_models={"m"}, passed_keys={"ada"}, tools={WEB_SEARCH}, attaches=lambda owner, model: True)


@pytest.mark.parametrize(("model", "owner", "passes"), [("m", "", True), ("other", "ada", True), ("other", "bob", False)])
def test_a_model_and_a_key_may_be_passed_on_whatever_they_ask(model: str, owner: str, passes: bool) -> None:
    way = choose_way({"model": model, "messages": [USER], "tools": [WEATHER], SEARCH: {}}, PASSING, owner)
    assert way.passes is passes
    assert (way.notice is None) is passes


@pytest.mark.parametrize("fields", [{}, {"tools": [WEATHER]}], ids=["alone", "beside tools"])
def test_a_search_is_made_here_where_it_can_be(fields: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [USER], SEARCH: {}, **fields}
    way = choose_way(body, Rules(tools={WEB_SEARCH}))
    assert (way.passes, way.helped) == (False, (*fields, SEARCH))


def test_a_search_that_cannot_be_made_here_is_the_engines() -> None:
    assert choose_way({"model": "m", "messages": [USER], SEARCH: {}}).passes
    way = choose_way({"model": "m", "messages": [USER], SEARCH: {}, "tools": [WEATHER]})
    assert (way.passes, way.passed) == (True, (SEARCH,))


@pytest.mark.parametrize(("owner", "model", "passes"), [("ada", "m", False), ("bob", "m", True), ("ada", None, True)])
def test_what_the_operator_adds_is_offered_here(owner: str, model: str | None, passes: bool) -> None:
    rules = Rules(attaches=lambda owner, model: (owner, model) == ("ada", "m"))
    way = choose_way({"model": model, "messages": [USER]}, rules, owner)
    assert (way.passes, way.helped) == (passes, () if passes else (ATTACHED,))


@pytest.mark.parametrize(
    "body", [None, 5, "tools", [], {}, {"model": []}, {"messages": 5}, {"messages": [5, {"role": []}, {"content": [5]}]}]
)
def test_whatever_a_body_is_there_is_a_way(body: Any) -> None:
    assert choose_way(body, Rules({"m"})).passes
    if isinstance(body, dict):
        assert not choose_way({**body, "tools": [5, {"type": []}, {}]}).passes
