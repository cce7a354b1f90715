"""What chat templates demand of messages: a test per rule, and for what rules do to one another."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields, replace
from support.conversions import converted, messages
from support.demands import complaint
from support.engine import answer, call, chunk, objection, text
from support.exchanges import Recorder, run_answers
from support.items import assistant, call_output, developer, function_call, user
from support.toy_tool import DICE, Dice, roll

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import LLAMACPP, PLAIN
from antiphon.core.prompt.template_rules import REASONING_LEFT_OUT, RULES, Rule, ShortIds, apply_template_rules

# The families that have each demand.
FREE = replace(LLAMACPP, continues_last_message=False)
ALTERNATES = replace(FREE, alternates=True)
MISTRAL = replace(FREE, alternates=True, call_id_length=9, shows_text_with_calls=False, reasoning_member=None)
LLAMA = replace(FREE, takes_parallel_calls=False, shows_text_with_calls=False, begins_with_user=True, reasoning_member=None)
GPT_OSS = replace(FREE, takes_parallel_calls=False, shows_text_with_calls=False)
GEMMA = replace(FREE, alternates=True, takes_system_role=False, shows_tools=False, reasoning_member=None)
QWEN = replace(FREE, begins_with_user=True)
FAMILIES = {"Mistral": MISTRAL, "Llama": LLAMA, "gpt-oss": GPT_OSS, "Gemma": GEMMA, "Qwen": QWEN}

IMAGE = {"type": "input_image", "image_url": "data:x"}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def short(items: Any, dialect: Dialect, **fields: Any) -> list[str]:
    """The messages in short: who speaks, and what is said."""
    sent = messages(items, dialect, **fields)
    assert complaint(sent, dialect) is None
    return [_short(message) for message in sent]


def _short(message: dict[str, Any]) -> str:
    calls = [f"{call['function']['name']}()" for call in message.get("tool_calls", ())]
    members = [f"({message[member]})" for member in ("reasoning", "reasoning_content") if member in message]
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part.get("text", "image") for part in content]
    return f"{message['role']}: {' '.join(each for each in [*members, *texts, *calls] if each)}"


def ids(sent: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The ids of the calls with those of the results."""
    calls = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    return list(zip(calls, [message["tool_call_id"] for message in sent if message["role"] == "tool"], strict=True))


def test_every_fact_about_the_template_has_a_rule() -> None:
    members = [member.name for member in fields(Dialect)]
    about_templates = members[members.index("takes_system_role") : members.index("reads_calls")]
    assert set(about_templates) <= {rule.fact for rule in RULES}
    assert {rule.fact for rule in RULES} <= {*members, ""}
    assert all(rule.reason for rule in RULES)


# ---- ids of calls ----------------------------------------------------------------------------------------------------


def test_an_id_of_another_length_becomes_one_of_the_right_length_in_the_call_and_its_result() -> None:
    items = [user("Hi"), function_call("call_abc"), call_output("call_abc"), function_call("ü"), call_output("ü")]
    sent = messages(items, MISTRAL)
    assert complaint(sent, MISTRAL) is None
    (first, first_result), (second, second_result) = ids(sent)
    assert first == first_result != second == second_result
    assert messages(items, MISTRAL) == sent, "it is the same for the same id"


def test_an_id_of_the_right_form_stays() -> None:
    assert ids(messages([user("Hi"), function_call("aB3dE6gH9"), call_output("aB3dE6gH9")], MISTRAL)) == [("aB3dE6gH9",) * 2]


@pytest.mark.parametrize("id", ["a_c-e6gh9", "aé3dE6gH9", "a٣cdE6gH9", "aB3dE6gH", "aB3dE6gH90", ""])
def test_an_id_of_nearly_the_right_form_does_not_stay(id: str) -> None:
    new = ShortIds(9)[id]
    assert new != id
    assert (len(new), new.isascii(), new.isalnum()) == (9, True, True)


def test_two_ids_never_become_one() -> None:
    taken = ShortIds(9)["call_1"]
    later = ShortIds(9)
    assert [later["call_1"], later[taken], later[taken], later["call_1"]] == [taken, later[taken], later[taken], taken]
    assert later[taken] != taken, "the earlier message was sent already, so the later id changes"
    earlier = ShortIds(9)
    assert earlier[taken] == taken
    assert earlier["call_1"] != taken


def test_ids_stay_apart_as_long_as_there_are_enough_of_them() -> None:
    few = ShortIds(1)
    assert len({few[f"call_{at}"] for at in range(62)}) == 62
    assert len(few["one more"]) == 1


def test_ids_that_are_free_stay() -> None:
    assert ids(messages([user("Hi"), function_call("call_1"), call_output("call_1")], FREE)) == [("call_1",) * 2]


# ---- several calls, and texts beside them ------------------------------------------------------------------------------

BUSY = [
    user("Hi"),
    thought("Hm."),
    assistant("Let me see."),
    function_call("a", "f"),
    function_call("b", "g"),
    call_output("b", "from b"),
    call_output("a", "from a"),
]


def test_where_a_message_has_one_call_each_comes_with_its_result_and_the_first_with_the_rest() -> None:
    assert short(BUSY, replace(FREE, takes_parallel_calls=False)) == [
        "user: Hi",
        "assistant: (Hm.) Let me see. f()",
        "tool: from a",
        "assistant: g()",
        "tool: from b",
    ]


def test_a_text_that_is_not_shown_beside_calls_goes_before_them() -> None:
    dialect = replace(FREE, shows_text_with_calls=False)
    assert short([*BUSY[:1], *BUSY[2:]], dialect) == [
        "user: Hi",
        "assistant: Let me see.",
        "assistant: f() g()",
        "tool: from a",
        "tool: from b",
    ]
    assert short(BUSY[:3], dialect) == ["user: Hi", "assistant: (Hm.) Let me see."], "a text alone stays with its thought"


def test_a_thought_that_has_a_member_stays_with_the_calls() -> None:
    assert short(BUSY, GPT_OSS) == [
        "user: Hi",
        "assistant: Let me see.",
        "assistant: (Hm.) f()",
        "tool: from a",
        "assistant: g()",
        "tool: from b",
    ]


def test_a_thought_in_tags_goes_where_the_text_is_shown() -> None:
    assert short(BUSY, LLAMA)[1:3] == ["assistant: <think>\nHm.\n</think>\n\nLet me see.", "assistant: f()"]
    without_text = [item for item in BUSY if item.get("role") != "assistant"]
    assert short(without_text, LLAMA)[1:3] == ["assistant: <think>\nHm.\n</think>\n\n", "assistant: f()"]


def test_a_thought_goes_back_between_tags_as_the_model_wrote_it() -> None:
    """Its line breaks are those of the template: twice, they would change the beginning of the prompt, which engines keep."""
    assert short([user("Hi"), thought("Hm.\n"), assistant("Yes.")], LLAMA)[1] == "assistant: <think>\nHm.\n</think>\n\nYes."


def test_a_text_before_calls_that_alternates_is_followed_by_the_user() -> None:
    items = [user("Hi"), assistant("One."), function_call("a"), call_output("a", "A")]
    items += [assistant("Two."), function_call("b"), call_output("b", "B"), assistant("Done."), user("Bye")]
    assert short(items, MISTRAL) == [
        "user: Hi",
        "assistant: One.",
        "user: Go on.",
        "assistant: f()",
        "tool: A",
        "assistant: Two.",
        # Mistral's templates show the tools at every user message that is equal to the last.
        "user: Go on. (2)",
        "assistant: f()",
        "tool: B",
        "assistant: Done.",
        "user: Bye",
    ]


# ---- who speaks ------------------------------------------------------------------------------------------------------


def test_user_messages_in_a_row_are_joined_where_roles_alternate() -> None:
    look = user([{"type": "input_text", "text": "Look"}, IMAGE])
    assert short([user("One"), user("Two")], ALTERNATES) == ["user: One\nTwo"]
    assert short([user("One"), look, user("Two")], ALTERNATES) == ["user: One Look image Two"]
    assert short([user("One"), user("Two")], FREE) == ["user: One", "user: Two"]


def test_a_user_message_after_a_result_is_preceded_by_the_assistants() -> None:
    items = [user("Hi"), function_call("a"), call_output("a", "A"), user("And?")]
    assert short(items, ALTERNATES) == ["user: Hi", "assistant: f()", "tool: A", "assistant: Noted.", "user: And?"]
    assert short(items, FREE)[2:] == ["tool: A", "user: And?"]


def test_a_call_that_was_interrupted_is_followed_by_the_assistant_too() -> None:
    sent = short([user("Hi"), function_call("a"), user("Stop")], ALTERNATES)
    assert sent[2].startswith("tool: (no output")
    assert sent[3:] == ["assistant: Noted.", "user: Stop"]


def test_an_image_of_a_result_follows_it_after_the_assistants_message() -> None:
    items = [user("Hi"), function_call("a"), call_output("a", [IMAGE]), user("And?")]
    assert short(items, ALTERNATES)[2:] == [
        "tool: (the result is the image in the next user message)",
        "assistant: Noted.",
        "user: image And?",
    ]


@pytest.mark.parametrize("dialect", [ALTERNATES, QWEN], ids=["alternates", "begins with user"])
def test_the_first_message_is_the_users(dialect: Dialect) -> None:
    first = [assistant("Hello"), user("Hi"), assistant("Well")]
    assert short(first, dialect) == ["user: Begin.", "assistant: Hello", "user: Hi", "assistant: Well"]
    assert short([function_call("a"), call_output("a", "A")], dialect) == ["user: Begin.", "assistant: f()", "tool: A"]
    assert short([developer("Be kind.")], dialect) == ["system: Be kind.", "user: Begin."]
    assert short([developer("Be kind."), user("Hi")], dialect) == ["system: Be kind.", "user: Hi"]
    assert short(first, FREE)[0] == "assistant: Hello"


def test_a_first_message_that_looks_like_a_result_is_not_taken_for_the_users() -> None:
    assert short("<tool_response>x</tool_response>", QWEN) == ["user: Begin.", "user: <tool_response>x</tool_response>"]
    assert short("<tool_response>x</tool_response>", ALTERNATES) == ["user: Begin.\n<tool_response>x</tool_response>"]
    assert short("<tool_response> is a tag", QWEN) == ["user: <tool_response> is a tag"]


def test_without_a_system_role_the_instructions_are_the_first_message_where_the_user_has_none() -> None:
    dialect = replace(ALTERNATES, takes_system_role=False)
    assert short([assistant("Hello"), user("Hi")], dialect, instructions="Be kind.") == [
        "user: Be kind.",
        "assistant: Hello",
        "user: Hi",
    ]
    assert short([developer("Be kind.")], dialect) == ["user: Be kind."]
    assert short([assistant("Hello")], dialect) == ["user: Begin.", "assistant: Hello"]


def test_without_a_system_role_the_instructions_go_before_an_image() -> None:
    look = user([IMAGE, {"type": "input_text", "text": "Look"}])
    dialect = replace(ALTERNATES, takes_system_role=False)
    assert short([look, user("Well?")], dialect, instructions="Be kind.") == ["user: Be kind. image Look Well?"]


def test_an_empty_assistant_message_is_not_sent_empty() -> None:
    sent = messages([user("Hi"), assistant(""), user("Well?"), thought("Hm."), assistant(""), user("?")], FREE)
    assert complaint(sent, FREE) is None
    assert [message["content"].strip() for message in sent] == ["Hi", "", "Well?", "", "?"]
    assert sent[3]["reasoning_content"] == "Hm."


def test_a_message_with_calls_alone_has_an_empty_text() -> None:
    assert messages([user("Hi"), function_call("a"), call_output("a")], FREE)[1]["content"] == ""


def test_a_last_message_of_the_assistant_that_the_engine_would_continue_is_followed_by_the_user() -> None:
    dialect = replace(ALTERNATES, continues_last_message=True)
    assert short([assistant("Hello")], dialect) == ["user: Begin.", "assistant: Hello", "user: Go on."]


# ---- tools in words, and thoughts --------------------------------------------------------------------------------------


def test_calls_in_words_alternate_too() -> None:
    items = [*BUSY[2:], user("And?"), assistant("Well"), user("Bye")]
    sent = messages(items, GEMMA, instructions="Be kind.")
    assert complaint(sent, GEMMA) is None
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[0]["content"] == "Be kind."
    assert sent[1]["content"].startswith("Let me see.\n\n<tool_call>\n")
    assert sent[2]["content"].endswith("<tool_response>\nfrom b\n</tool_response>\nAnd?")


def test_a_thought_that_is_not_shown_is_left_out_with_a_notice() -> None:
    dialect = replace(FREE, shows_reasoning=False)
    assert short(BUSY, dialect)[1] == "assistant: Let me see. f() g()"
    assert converted(BUSY, dialect).notices == (REASONING_LEFT_OUT,)
    assert converted(BUSY[2:], dialect).notices == ()
    assert converted(BUSY, FREE).notices == ()


def test_a_thought_in_tags_is_left_out_too_where_it_is_not_shown() -> None:
    assert short(BUSY, replace(LLAMA, shows_reasoning=False))[1:3] == ["assistant: Let me see.", "assistant: f()"]


def test_messages_that_follow_the_rules_stay_as_they_are() -> None:
    for dialect in (*FAMILIES.values(), LLAMACPP, PLAIN):
        once = converted([assistant("Hello"), *BUSY, user("And?"), assistant("")], dialect).chat.messages
        assert apply_template_rules(once, dialect) == (once, [])


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.of_answers], ids=lambda rule: rule.rewrite.__name__)
def test_a_rule_for_answers_leaves_everything_else_as_it_is(rule: Rule) -> None:
    others = converted([developer("Be brief."), user(""), user("Hello")], FREE).chat.messages
    for dialect in (*FAMILIES.values(), LLAMACPP, PLAIN):
        assert rule.rewrite(others, dialect) == others


def test_messages_without_an_answer_follow_the_same_rules() -> None:
    others = converted([developer("Be brief."), user("Hello"), user("And?")], FREE).chat.messages
    for dialect in (*FAMILIES.values(), LLAMACPP, PLAIN):
        assert apply_template_rules(list(others), dialect, has_answers=False) == apply_template_rules(list(others), dialect)


# ---- what a response adds to its request -------------------------------------------------------------------------------

ROLLS = answer(
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "I roll."}),
    call("roll", '{"sides": 6}', id="call_1"),
    call("roll", '{"sides": 20}', id="call_2", index=1),
    finish="tool_calls",
)


@pytest.mark.parametrize(
    "dialect", [MISTRAL, LLAMA, GPT_OSS, GEMMA, QWEN], ids=["Mistral", "Llama", "gpt-oss", "Gemma", "Qwen"]
)
@pytest.mark.parametrize(
    "input", ["Roll", [user("Hi"), assistant("Hello")], [developer("Roll.")]], ids=["user", "assistant", "nobody"]
)
def test_a_round_of_tools_satisfies_the_demands(dialect: Dialect, input: Any) -> None:
    asked = Recorder()
    written = '<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}\n</tool_call>'
    rolls = text(f"I roll.\n{written}") if not dialect.shows_tools else ROLLS
    run_answers(
        {"input": input, "tools": [DICE]},
        rolls,
        text("Six."),
        dialect=dialect,
        on_ask=asked,
        run_tool=roll,
        tools={"dice": Dice()},
    )
    assert [objection(chat, own_fields=dialect.extra) for chat in asked.chats] == [None, None]
    first, second = (chat["messages"] for chat in asked.chats)
    assert [complaint(first, dialect), complaint(second, dialect)] == [None, None]
    assert "6" in str(second[len(first) :])
    if first[-1]["role"] == "user":
        assert second[: len(first)] == first


@pytest.mark.parametrize(
    "dialect", [MISTRAL, LLAMA, GPT_OSS, GEMMA, QWEN], ids=["Mistral", "Llama", "gpt-oss", "Gemma", "Qwen"]
)
@pytest.mark.parametrize(
    "input",
    ["Hi", [user("Hi"), function_call("a"), call_output("a")], [user("Hi"), assistant("Hello")]],
    ids=["user", "result", "assistant"],
)
@pytest.mark.parametrize("words", ["no JSON", "[]", ""], ids=["text", "other JSON", "empty"])
def test_an_answer_that_was_rejected_satisfies_the_demands(dialect: Dialect, input: Any, words: str) -> None:
    asked = Recorder()
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    format = {"type": "json_schema", "name": "a", "schema": schema, "strict": True}
    checked_here = replace(dialect, constrains_json=False)
    run_answers({"input": input, "text": {"format": format}}, text(words), text('{"a": 1}'), dialect=checked_here, on_ask=asked)
    first, second = (chat["messages"] for chat in asked.chats)
    assert [complaint(first, dialect), complaint(second, dialect)] == [None, None]
    assert "Answer again" in second[-1]["content"]


def test_a_call_that_was_rejected_satisfies_the_demands() -> None:
    asked = Recorder()
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    tool = {"type": "function", "name": "f", "parameters": parameters, "strict": True}
    wrong, right = (answer(call("f", arguments, id="call_1"), finish="tool_calls") for arguments in ('{"b": 1}', '{"a": 1}'))
    events = run_answers({"tools": [tool]}, wrong, right, dialect=MISTRAL, on_ask=asked)
    first, second = (chat["messages"] for chat in asked.chats)
    assert complaint(second, MISTRAL) is None
    assert second[: len(first)] == first
    assert "not carried out" in second[-1]["content"]
    assert events[-1]["response"]["output"][-1]["call_id"] == "call_1"


# ---- size ------------------------------------------------------------------------------------------------------------


def test_rules_are_applied_to_many_calls_in_linear_time() -> None:
    dialect = replace(MISTRAL, takes_parallel_calls=False, takes_system_role=False)
    calls = [function_call(f"call_{at}") for at in range(4_000)]
    rounds = [
        item for at in range(2_500) for item in (assistant("x"), function_call(f"c{at}"), call_output(f"c{at}"), user("y"))
    ]
    items = [user("Hi"), *calls, *(call_output(str(each["call_id"])) for each in calls), *rounds]
    sent = msgspec.to_builtins(converted(items, dialect).chat.messages)
    assert complaint(sent, dialect) is None


def test_the_page_about_templates_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "templates.md").read_text()
    assert [rule.fact for rule in RULES if rule.fact and f"`{rule.fact}`" not in page] == []
