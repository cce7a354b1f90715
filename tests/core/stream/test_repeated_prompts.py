"""Answers that only repeat what the model was told about its answer before."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.engine import answer, call, text
from support.exchanges import Recorder, run_answers
from support.items import user

from antiphon.core.events.deltas import CallDelta, TextDelta
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME, LLAMACPP, PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.stream.repeated_prompts import LONGEST, WithoutRepeatedPrompts
from antiphon.core.stream.text_calls import CallFinder, ConstrainedCall, TextCalls
from antiphon.core.toolbox.prompt_texts import PROMPT_SENTENCES

COMPLAINT = "'a' is a required property"


def read(*pieces: str, finder: CallFinder | None = None) -> tuple[str, bool]:
    """The text that is passed on, and whether something was not."""
    reader = WithoutRepeatedPrompts(finder, COMPLAINT)
    deltas = [delta for piece in pieces for delta in reader.receive(piece)] + reader.close()
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)), reader.repeats_prompt


def filled(sentence: str) -> str:
    fields = {"name": "f", "names": "f", "count": 3, "number": 1, "path": "/a/b.txt", "origin": "the web", "reason": "it fails"}
    return sentence.format(complaint=COMPLAINT, **fields)


@pytest.mark.parametrize("sentence", PROMPT_SENTENCES)
def test_each_of_our_own_sentences_is_recognised_however_it_is_written(sentence: str) -> None:
    own = filled(sentence)
    around = [own, f"\n{own}\n\n", f'"{own}"', own.replace(" ", "\n"), own.lower(), own.replace(COMPLAINT, "it is wrong")]
    for written in around:
        assert read(written) == ("", True), written
        assert read(*written) == ("", True), written


def test_the_complaint_alone_is_recognised() -> None:
    assert read("'a' is a", " required  property.") == ("", True)


@pytest.mark.parametrize("sentence", PROMPT_SENTENCES)
def test_our_own_sentences_are_left_out_wherever_they_are_in_an_answer(sentence: str) -> None:
    own = filled(sentence)
    for written in (f"The file is there. {own} So I did that.", f"Well:\n{own}\nSo I did that."):
        shown, repeats = read(*written)
        assert (shown, repeats) == read(written)
        assert repeats
        assert shown.split()[-4:] == ["So", "I", "did", "that."]
        assert "call" not in shown
    half = own.partition(".")[0][:20]
    assert read(half) == (half, False)


@given(st.sampled_from(PROMPT_SENTENCES), st.sampled_from(["", "It is so. ", "Look: "]), st.lists(st.integers(0, 300)))
def test_each_is_recognised_in_whatever_pieces_it_comes(sentence: str, before: str, cuts: list[int]) -> None:
    written = f"{before}{filled(sentence)} I stop."
    ends = [0, *sorted(min(cut, len(written)) for cut in cuts), len(written)]
    pieces = [written[start:end] for start, end in pairwise(ends)]
    assert read(*pieces) == (f"{before.rstrip()} I stop.", True)


likely = st.sampled_from(["This call ", "was not ", "carried out: ", "x", ". Correct it, ", "and call the tool again.", " "])


@given(st.lists(likely))
def test_what_is_shown_does_not_depend_on_the_pieces(pieces: list[str]) -> None:
    assert read(*pieces) == read("".join(pieces)) == read(*"".join(pieces))


@pytest.mark.parametrize("sentence", PROMPT_SENTENCES)
def test_our_own_words_are_recognised_in_an_answer_by_a_function(sentence: str) -> None:
    said = msgspec.json.encode({"name": "say", "arguments": {"text": filled(sentence)}}).decode()
    assert read(said, finder=ConstrainedCall(["f"], say="say")) == ("", True)
    assert read(*said, finder=ConstrainedCall(["f"], say="say")) == ("", True)


def test_text_is_shown_as_soon_as_it_cannot_be_ours() -> None:
    reader = WithoutRepeatedPrompts(None, COMPLAINT)
    assert reader.receive("This") == []
    assert not reader.take_if_plain(" one")
    assert reader.receive(" one") == [TextDelta("This one")]
    assert reader.take_if_plain(" is fine")
    assert not reader.take_if_plain(". This"), "another sentence may be ours"


def test_what_is_too_long_to_be_ours_is_shown() -> None:
    long = "This call was not carried out: " + "x" * LONGEST
    assert read(long) == (long, False)


def test_calls_in_the_text_are_found_all_the_same() -> None:
    reader = WithoutRepeatedPrompts(TextCalls({"f": None}), COMPLAINT)
    deltas = reader.receive('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>') + reader.close()
    assert [delta.name for delta in deltas if isinstance(delta, CallDelta)] == ["f"]
    assert reader.names == {"f": None}


# ---- in an exchange --------------------------------------------------------------------------------------------------

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOL = {"type": "function", "name": "f", "parameters": PARAMETERS, "strict": True}
FORMAT = {"format": {"type": "json_schema", "name": "a", "schema": PARAMETERS, "strict": True}}
SMALL = "tiny-1.5b"
WRONG = answer(call("f", '{"b": 1}'), finish="tool_calls")
RIGHT = answer(call("f", '{"a": 1}'), finish="tool_calls")
ENVELOPE = text('{"name": "f", "arguments": {"a": 1}}')


def test_a_small_model_is_asked_again_with_one_sentence_of_the_user() -> None:
    asked = Recorder()
    events = run_answers({"model": SMALL, "tools": [TOOL]}, WRONG, RIGHT, on_ask=asked)
    first, second = (chat["messages"] for chat in asked.chats)
    assert second[:-1] == first
    assert second[-1]["role"] == "user"
    assert second[-1]["content"].startswith("The arguments of the last call were wrong: ")
    assert second[-1]["content"].endswith(". Call f once more, with other arguments.")
    assert [item["name"] for item in events[-1]["response"]["output"]] == ["f"]


def test_a_small_model_is_asked_for_the_functions_that_it_was_offered() -> None:
    """It has called a tool by the client's own name, which is not offered."""
    asked = Recorder()
    wrong = answer(call("apply_patch", '{"input": "nonsense"}'), finish="tool_calls")
    right = answer(call("delete_file", '{"path": "a"}'), finish="tool_calls")
    run_answers({"model": SMALL, "tools": [APPLY_PATCH]}, wrong, right, on_ask=asked)
    last = asked.chats[1]["messages"][-1]["content"]
    assert last.startswith("The last call was wrong: ")
    assert last.endswith(
        ". Do the same by calling one of these functions: write_file, edit_file, delete_file, and with nothing else."
    )
    assert "apply_patch" not in last


def test_a_small_model_is_held_to_the_functions_that_it_was_offered() -> None:
    asked = Recorder()
    wrong = answer(call("apply_patch", '{"input": "nonsense"}'), finish="tool_calls")
    right = text('{"name": "delete_file", "arguments": {"path": "a"}}')
    events = run_answers({"model": SMALL, "tools": [APPLY_PATCH, TOOL]}, wrong, right, dialect=LLAMACPP, on_ask=asked)
    assert [item["name"] for item in events[-1]["response"]["output"]] == ["apply_patch"]
    grammar = asked.chats[1]["grammar"]
    assert all(name in grammar for name in ("write_file", "edit_file", "delete_file"))
    assert not any(f'\\"{name}\\"' in grammar for name in ("f", "say", "apply_patch"))


def test_a_small_model_that_called_no_tool_is_told_to_call_one_and_nothing_else() -> None:
    asked = Recorder()
    run_answers({"model": SMALL, "tools": [TOOL], "tool_choice": "required"}, text("Hm."), RIGHT, on_ask=asked)
    first, second = (chat["messages"] for chat in asked.chats)
    assert second == [*first, {"role": "user", "content": "Answer now by calling f, and with nothing else."}]


def test_a_small_model_whose_answer_was_wrong_is_told_what_was_wrong() -> None:
    asked = Recorder()
    run_answers({"model": SMALL, "text": FORMAT}, text("Hm."), text('{"a": 1}'), on_ask=asked)
    first, second = (chat["messages"] for chat in asked.chats)
    assert second[:-1] == first
    assert second[-1]["content"].endswith("Answer once more, with nothing but JSON that follows the schema.")


def test_another_model_is_asked_again_as_ever() -> None:
    asked = Recorder()
    run_answers({"model": "m", "tools": [TOOL]}, WRONG, RIGHT, on_ask=asked)
    assert [message["role"] for message in asked.chats[1]["messages"]] == ["user", "assistant", "tool"]
    asked = Recorder()
    run_answers({"model": SMALL, "tools": [TOOL]}, WRONG, RIGHT, on_ask=asked, help="off")
    assert [message["role"] for message in asked.chats[1]["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
def test_a_small_model_is_held_to_a_call_that_only_its_grammar_rejected(dialect: Dialect) -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
    tool = {"type": "custom", "name": "count", "format": grammar}
    wrong = answer(call("count", '{"input": "many"}'), finish="tool_calls")
    constrained = dialect.constrains_json or dialect.grammar_member is not None
    right = text('{"name": "count", "arguments": {"input": "12"}}')
    asked = Recorder()
    given = right if constrained else answer(call("count", '{"input": "12"}'), finish="tool_calls")
    events = run_answers({"model": SMALL, "tools": [tool]}, wrong, given, dialect=dialect, on_ask=asked)
    assert ("response_format" in asked.chats[1] or "grammar" in asked.chats[1]) is constrained
    assert [item.get("input") for item in events[-1]["response"]["output"]] == ["12"]


@pytest.mark.parametrize("pieces", [1, 100], ids=["whole", "split"])
def test_our_own_words_are_not_shown_as_an_answer(pieces: int) -> None:
    own = "The arguments of the last call were wrong: 'a' is a required property. Call f once more, with other arguments."
    size = len(own) // pieces or 1
    parts = [own[at : at + size] for at in range(0, len(own), size)]
    events = run_answers({"model": SMALL, "tools": [TOOL]}, WRONG, text(*parts), dialect=PLAIN)
    response = events[-1]["response"]
    assert (response["status"], response["output"]) == ("completed", [])
    assert (
        "the model repeated what it was told about its answer or its calls: this was left out" in response["antiphon_notices"]
    )
    assert "once more" not in str(msgspec.json.encode([event for event in events if "delta" in event]))


EDITED = "*** Begin Patch\n*** Update File: a.txt\n@@\n-Helo\n+Hello\n*** End Patch\n"
NOT_EDITED = [
    user("Correct Helo in a.txt."),
    {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": EDITED},
    {
        "type": "custom_tool_call_output",
        "call_id": "c1",
        "output": "apply_patch verification failed: Failed to find expected lines in /r/a.txt:\nHelo\n",
    },
]
PARROT: dict[str, Any] = {"model": SMALL, "tools": [APPLY_PATCH, EXEC_COMMAND], "input": NOT_EDITED}
ADVICE = "Use replace_text to change a part of a line. To change whole lines, use read_file first, and copy them exactly."


def shown_of(events: list[dict[str, Any]]) -> tuple[str, str]:
    """As it was streamed, and in the response at the end."""
    (item,) = events[-1]["response"]["output"]
    streamed = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    return streamed, item["content"][0]["text"]


@given(st.integers(1, 400))
def test_what_an_easier_tool_has_advised_is_no_part_of_an_answer(size: int) -> None:
    """It stands in the prompt already, without a note about a loop and without an answer that was rejected."""
    body = text(f"I found the word. {ADVICE} I could not", " correct it.")
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    events = run_answers(PARROT, pieces)
    assert shown_of(events) == ("I found the word. I could not correct it.",) * 2
    assert any("repeated what it was told" in notice for notice in events[-1]["response"]["antiphon_notices"])


def test_without_help_the_words_of_an_answer_are_its_own() -> None:
    assert shown_of(run_answers(PARROT, text(ADVICE), help="off")) == (ADVICE, ADVICE)


def test_what_a_result_reports_may_be_reported() -> None:
    said = "It failed with exit code 1. There was no output."
    assert shown_of(run_answers(PARROT, text(said))) == (said, said)


def test_a_model_that_writes_nothing_but_our_words_is_constrained_from_then_on() -> None:
    knowledge = EngineKnowledge(PLAIN)
    run_answers(PARROT, text(ADVICE), engines=[knowledge])
    assert knowledge.dialect_for(SMALL).garbles_calls


def test_an_engine_that_ignores_the_form_of_an_answer_after_a_call_is_found_out() -> None:
    knowledge = EngineKnowledge(LLAMACPP)
    run_answers(PARROT, text("Well, it is done."), engines=[knowledge], help="full")
    assert knowledge.dialect_for(SMALL).constraint_member == "grammar", "the other form is tried"


def test_a_required_call_is_missing_if_there_are_only_our_own_words() -> None:
    own = "Answer now by calling f, and with nothing else."
    events = run_answers({"model": SMALL, "tools": [TOOL], "tool_choice": "required"}, text("Hm."), text(own))
    assert events[-1]["type"] == "response.failed"
    assert "called no tool" in events[-1]["response"]["error"]["message"]


def test_what_a_small_model_says_when_it_is_asked_again_is_shown() -> None:
    events = run_answers({"model": SMALL, "tools": [TOOL]}, WRONG, text("The", " last one was right."))
    assert [item["content"][0]["text"] for item in events[-1]["response"]["output"]] == ["The last one was right."]
