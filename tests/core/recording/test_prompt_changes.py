"""What changed between two prompts of a conversation, and where the cache of the engine ends."""

import tracemalloc
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from antiphon.core.recording.prompt_changes import ONLY_LONGER, Asked, PromptPrint, closest, compare, to_print
from antiphon.wire.chat import ChatMessage, ChatRequest

ENGINE = "http://engine"


def chat(*messages: dict[str, Any], model: str = "m", **fields: Any) -> ChatRequest:
    return msgspec.convert({"model": model, "messages": list(messages), **fields}, ChatRequest)


def asked(*messages: dict[str, Any], engine: str = ENGINE, **fields: Any) -> Asked:
    return Asked(engine, chat(*messages, **fields))


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


SYSTEM = {"role": "system", "content": "Be kind."}
ASK = {"role": "user", "content": "Hi"}
SAID = {"role": "assistant", "content": "Hello", "reasoning_content": "Hm"}
CALLED = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "content": "6", "tool_call_id": "c"}
MORE = {"role": "user", "content": "More"}
TURN = (SYSTEM, ASK, SAID, CALLED, RESULT)


def test_a_prompt_that_only_grew_has_no_difference() -> None:
    change = compare(asked(*TURN), asked(*TURN, MORE, ASK))
    assert (change.where, change.why) == (None, ONLY_LONGER)
    assert (change.shared_messages, change.messages, change.shared_share, change.added) == (5, 7, 1.0, 2)


def edited(message: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**message, **members}


@pytest.mark.parametrize(
    ("later", "path", "words"),
    [
        (asked(edited(SYSTEM, content="Be rude."), *TURN[1:], MORE), "messages[0].content", "The instructions changed"),
        (asked(SYSTEM, edited(ASK, content="Ho"), *TURN[2:], MORE), "messages[1].content", "message of the user was edited"),
        (
            asked(SYSTEM, ASK, {"role": "assistant", "content": "Hello"}, *TURN[3:], MORE),
            "messages[2].reasoning_content",
            "no longer",
        ),
        (
            asked(SYSTEM, ASK, edited(SAID, reasoning_content="Ha"), MORE),
            "messages[2].reasoning_content",
            "reasoning of this turn",
        ),
        (asked(SYSTEM, ASK, edited(SAID, content="Hello!"), *TURN[3:]), "messages[2].content", "answer of the model"),
        (asked(*TURN[:4], edited(RESULT, content="7"), MORE), "messages[4].content", "result of an earlier tool call"),
        (asked(*TURN[:4], edited(RESULT, tool_call_id="d")), "messages[4].tool_call_id", "id of this call"),
        (asked(SYSTEM, ASK, CALLED, RESULT, MORE), "messages[2].reasoning_content", "1 message was left out in the middle"),
        (asked(SYSTEM, CALLED, RESULT, MORE), "messages[1].role", "2 messages were left out in the middle"),
        (asked(SYSTEM, MORE, *TURN[1:]), "messages[1].content", "1 message was inserted before"),
        (asked(SYSTEM, ASK), "messages[2]", "The prompt ends earlier"),
        (asked(SYSTEM, SAID), "messages[1].role", "left out"),
        (asked(*TURN, MORE, model="n"), "model", "Another model"),
        (asked(*TURN, MORE, engine="http://other"), None, "Another engine"),
        (asked(*TURN, MORE, reasoning_effort="high"), "reasoning_effort", "the chat template may write"),
        (asked(*TURN, MORE, tools=[tool("f"), tool("g")]), "tools[1]", "added: g"),
        (asked(*TURN, MORE, tools=[]), "tools[0]", "removed: f"),
        (asked(*TURN, MORE, tools=[tool("f", "other")]), "tools[0]", "changed: f"),
    ],
)
def test_the_first_difference_has_its_place_and_its_cause(later: Asked, path: str | None, words: str) -> None:
    tools = [tool("f")]
    earlier = asked(*TURN, tools=tools)
    if later.chat.tools is msgspec.UNSET:
        later = Asked(later.engine, structs.replace(later.chat, tools=earlier.chat.tools))
    change = compare(earlier, later)
    assert change.where is not None
    assert change.where.path == path
    assert words in change.why


def test_another_order_of_tools_is_named() -> None:
    change = compare(asked(ASK, tools=[tool("f"), tool("g")]), asked(ASK, tools=[tool("g"), tool("f")]))
    assert "their order changed" in change.why


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Today is 2026-08-21.", "Today is 2026-08-22."),
        ("It is 09:15 now.", "It is 09:16 now."),
        ("The 21/08/2026 it is.", "The 22/08/2026 it is."),
    ],
)
def test_a_date_in_the_instructions_is_recognized(before: str, after: str) -> None:
    change = compare(asked(edited(SYSTEM, content=before), ASK), asked(edited(SYSTEM, content=after), ASK))
    assert "a date or time" in change.why


def test_other_numbers_are_no_dates() -> None:
    change = compare(asked(edited(SYSTEM, content="Use 1 word.")), asked(edited(SYSTEM, content="Use 2 words.")))
    assert change.why == "The instructions changed, from character 4 on."


def test_the_share_is_that_of_the_text_before_the_difference() -> None:
    long = {"role": "user", "content": "x" * 10_000}
    change = compare(asked(SYSTEM, long, ASK), asked(SYSTEM, long, MORE))
    assert 0.95 < change.shared_share < 1
    assert compare(asked(ASK, long), asked(MORE, long)).shared_share == 0


def test_of_several_prompts_the_nearest_is_compared() -> None:
    """A turn that was asked again with a complaint goes on without it."""
    first, repair = asked(SYSTEM, ASK), asked(SYSTEM, ASK, SAID, {"role": "user", "content": "That is no JSON."})
    later = asked(SYSTEM, ASK, edited(SAID, content="{}"), MORE)
    assert closest([first, repair], later) is first
    assert compare(closest([first, repair], later), later).where is None


# ---- any prompts -----------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=4)
CALLS = st.lists(
    st.builds(lambda id, arguments: {"id": id, "function": {"name": "f", "arguments": arguments}}, TEXTS, TEXTS),
    min_size=1,
    max_size=2,
)
CONTENTS = TEXTS | st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXTS), max_size=2)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
        optional={"content": CONTENTS, "reasoning_content": TEXTS, "tool_calls": CALLS, "tool_call_id": TEXTS},
    ),
    max_size=6,
)


@given(MESSAGES, MESSAGES)
def test_no_difference_is_found_when_and_only_when_one_prompt_begins_the_other(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    for later in (after, [*before, *after]):
        change = compare(asked(*before), asked(*later))
        begins = later[: len(before)] == before
        assert (change.where is None) == begins
        assert to_print(chat(*later), ENGINE).extends(to_print(chat(*before), ENGINE)) == begins
        assert 0 <= change.shared_share <= 1
        assert change.why


@given(MESSAGES.filter(bool), st.data())
def test_the_first_message_that_was_changed_is_found(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(messages) - 1))
    changed = deepcopy(messages)
    changed[at]["content"] = "something else"
    change = compare(asked(*messages), asked(*changed, MORE))
    assert change.where is not None
    assert (change.where.part, change.where.index, change.shared_messages) == ("messages", at, at)


@given(MESSAGES)
def test_a_print_tells_messages_apart(messages: list[dict[str, Any]]) -> None:
    request = chat(*messages)
    for at, message in enumerate(request.messages):
        others = [*request.messages]
        others[at] = ChatMessage("developer", message.content)
        assert (
            to_print(structs.replace(request, messages=others), ENGINE).messages[at] != to_print(request, ENGINE).messages[at]
        )


def test_the_size_of_a_print_is_what_it_takes_in_memory() -> None:
    prompt = chat(*({"role": "user", "content": f"message {number}"} for number in range(1000)))
    tracemalloc.start()
    try:
        prints = [to_print(prompt, ENGINE) for _ in range(20)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = sum(each.size for each in prints)
    assert counted * 0.9 < taken < counted * 1.1
    assert counted < 20 * 10_000


def test_prompts_that_differ_only_in_a_call_are_not_the_same() -> None:
    def printed(**function: str) -> PromptPrint:
        call = {"id": "c", "function": {"name": "f", "arguments": "{}"} | function}
        return to_print(chat(SYSTEM, ASK, edited(CALLED, tool_calls=[call])), ENGINE)

    before = printed()
    assert printed().extends(before)
    assert not printed(name="g").extends(before)
    assert not printed(arguments='{"a": 1}').extends(before)
