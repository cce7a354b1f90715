"""Answers that only repeat what the model was told about its answer before."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codex_tools import APPLY_PATCH
from support.engine import answer, call, text
from support.exchanges import Recorder, run_answers

from antiphon.core.events.deltas import CallDelta, TextDelta
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME, LLAMACPP, PLAIN
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
    return sentence.format(complaint=COMPLAINT, name="f", names="f", count=3, reason="it fails")


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


def test_a_required_call_is_missing_if_there_are_only_our_own_words() -> None:
    own = "Answer now by calling f, and with nothing else."
    events = run_answers({"model": SMALL, "tools": [TOOL], "tool_choice": "required"}, text("Hm."), text(own))
    assert events[-1]["type"] == "response.failed"
    assert "called no tool" in events[-1]["response"]["error"]["message"]


def test_what_a_small_model_says_when_it_is_asked_again_is_shown() -> None:
    events = run_answers({"model": SMALL, "tools": [TOOL]}, WRONG, text("The", " last one was right."))
    assert [item["content"][0]["text"] for item in events[-1]["response"]["output"]] == ["The last one was right."]
