"""Calls in the text: found in every shape and at any split; all else comes out unchanged."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.call_finder import Merged, cut, merge, read, splits

from antiphon.core.events.deltas import CallDelta, ReasoningDelta, TextDelta
from antiphon.core.stream.text_calls import TextCalls
from antiphon.core.stream.text_calls.forms import FORMS
from antiphon.core.stream.text_calls.shapes import MAX_BUFFERED

NAMES = ["get_weather", "exec", "mcp__fs__read"]


def calls(*pairs: tuple[str, str]) -> Merged:
    return [("call", index, name, arguments) for index, (name, arguments) in enumerate(pairs)]


def text(said: str) -> tuple[object, ...]:
    return ("text", said)


EXEC = calls(("exec", '{"cmd": "ls"}'))
BOTH = calls(("exec", '{"cmd": "ls"}'), ("get_weather", '{"city": "Paris"}'))
OBJECT = '{"name": "exec", "arguments": {"cmd": "ls"}}'
OTHER = '{"name": "get_weather", "arguments": {"city": "Paris"}}'

CASES: dict[str, tuple[str, Merged]] = {
    # Hermes and Qwen
    "a tagged object": (f"<tool_call>\n{OBJECT}\n</tool_call>", EXEC),
    "no white space": (f"<tool_call>{OBJECT}</tool_call>", EXEC),
    "white space around": (f" \n<tool_call>\n\n {OBJECT} \n</tool_call>\n\n", EXEC),
    "prose around": (
        f"Let me look.\n\n<tool_call>{OBJECT}</tool_call>\n\nDone.",
        [text("Let me look.\n\n"), *EXEC, text("Done.")],
    ),
    "in the middle of a line": (f"So: <tool_call>{OBJECT}</tool_call>.", [text("So: "), *EXEC, text(".")]),
    "two pairs of tags": (f"<tool_call>{OBJECT}</tool_call>\n<tool_call>{OTHER}</tool_call>", BOTH),
    "two objects in one pair": (f"<tool_call>{OBJECT}\n{OTHER}</tool_call>", BOTH),
    "a list in one pair": (f"<tool_call>[{OBJECT}, {OTHER}]</tool_call>", BOTH),
    "text between two calls": (
        f"<tool_call>{OBJECT}</tool_call>and<tool_call>{OTHER}</tool_call>",
        [BOTH[0], text("and"), BOTH[1]],
    ),
    "no end tag": (f"<tool_call>{OBJECT}\n", EXEC),
    "no end tag, and text": (f"<tool_call>{OBJECT}\nDone.", [*EXEC, text("Done.")]),
    "no end tag before the next": (f"<tool_call>{OBJECT}\n<tool_call>{OTHER}</tool_call>", BOTH),
    "a tag inside a string": (
        '<tool_call>{"name": "exec", "arguments": {"cmd": "echo \'</tool_call>\' \\" <tool_call>"}}</tool_call>',
        calls(("exec", '{"cmd": "echo \'</tool_call>\' \\" <tool_call>"}')),
    ),
    "the model's own text of the arguments": (
        '<tool_call>{"arguments" : { "z":1.10,\n "a": 1e3 } , "name":"exec"}</tool_call>',
        calls(("exec", '{ "z":1.10,\n "a": 1e3 }')),
    ),
    "a namespace known from training": (
        '<tool_call>{"name": "functions.exec", "arguments": {}}</tool_call>',
        calls(("exec", "{}")),
    ),
    "no arguments": ('<tool_call>{"name": "exec"}</tool_call>', calls(("exec", "{}"))),
    "arguments as a string": (
        r'<tool_call>{"name": "exec", "arguments": "{\"cmd\": \"ls\"}"}</tool_call>',
        EXEC,
    ),
    "other members": ('<tool_call>{"name": "exec", "arguments": {}, "why": "x"}</tool_call>', calls(("exec", "{}"))),
    "a bracket too few": ('<tool_call>{"name": "exec", "arguments": {"cmd": "ls"}</tool_call>', EXEC),
    "a bracket too many": ('<tool_call>{"name": "exec", "arguments": {"cmd": "ls"}}}</tool_call>', EXEC),
    "quotes of the other kind": ("<tool_call>{'name': 'exec', 'arguments': {'cmd': 'ls'}}</tool_call>", EXEC),
    "a line break in a string": (
        '<tool_call>{"name": "exec", "arguments": {"cmd": "a\nb"}}</tool_call>',
        calls(("exec", '{"cmd": "a\\nb"}')),
    ),
    "quotes that are not escaped": (
        '<tool_call>{"name": "exec", "arguments": {"cmd": "echo "hi" there"}}</tool_call>',
        calls(("exec", '{"cmd": "echo \\"hi\\" there"}')),
    ),
    # Qwen3-Coder
    "a function with parameters": (
        "<tool_call>\n<function=exec>\n<parameter=cmd>\nls\n-l\n</parameter>\n<parameter=n>\n10\n</parameter>\n"
        '<parameter=env>{"A": 1.0}</parameter>\n<parameter=quoted>"x"</parameter>\n</function>\n</tool_call>',
        calls(("exec", '{"cmd":"ls\\n-l","n":10,"env":{"A": 1.0},"quoted":"\\"x\\""}')),
    ),
    "a function without parameters": ("<tool_call><function=exec></function></tool_call>", calls(("exec", "{}"))),
    "tags inside a parameter": (
        "<tool_call><function=exec><parameter=cmd></function> </parameter> </tool_call></parameter></function></tool_call>",
        calls(("exec", '{"cmd":"</function> </parameter> </tool_call>"}')),
    ),
    "two functions": (
        "<tool_call><function=exec></function>\n<function=get_weather></function></tool_call>",
        calls(("exec", "{}"), ("get_weather", "{}")),
    ),
    "a function without its end tag": ("<tool_call><function=exec></function>\n", calls(("exec", "{}"))),
    "a function that was opened alone": (
        "Hm. <function=exec></function>\n</tool_call>",
        [text("Hm. "), *calls(("exec", "{}"))],
    ),
    "a function with JSON": ('<function=exec>{"cmd": "ls"}</function>', EXEC),
    "a function with JSON and no end": ('<function=exec>{"cmd": "ls"}', EXEC),
    "a function's tag inside a string": (
        '<function=exec>{"cmd": "</function>"}</function> ok',
        [*calls(("exec", '{"cmd": "</function>"}')), text("ok")],
    ),
    "a function with JSON to be repaired": ('<function=exec>{"cmd": "ls"</function>', EXEC),
    # Mistral
    "Mistral's list": (f"[TOOL_CALLS] [{OBJECT}, {OTHER}]", BOTH),
    "Mistral's object": (f"[TOOL_CALLS]{OBJECT}", EXEC),
    "Mistral's name and arguments": ('[TOOL_CALLS]exec[ARGS]{"cmd": "ls"}', EXEC),
    "Mistral's name alone": ('[TOOL_CALLS]exec{"cmd": "ls"}', EXEC),
    "Mistral's id": ('[TOOL_CALLS]exec[CALL_ID]a1b2[ARGS]{"cmd": "ls"}', EXEC),
    "several of Mistral's": ('[TOOL_CALLS]exec[ARGS]{"cmd": "ls"}[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', BOTH),
    "several after one marker": ('[TOOL_CALLS]exec[ARGS]{"cmd": "ls"}get_weather[ARGS]{"city": "Paris"}', BOTH),
    "Mistral's after prose": (f"I'll look. [TOOL_CALLS][{OBJECT}]", [text("I'll look. "), *EXEC]),
    "text after Mistral's": (f"[TOOL_CALLS][{OBJECT}] done[", [*EXEC, text("done[")]),
    # Llama
    "Llama's tag": ('<|python_tag|>{"name": "exec", "parameters": {"cmd": "ls"}}', EXEC),
    "several of Llama's": (f"<|python_tag|>{OBJECT}; {OTHER}", BOTH),
    # Without a marker
    "a bare object": (OBJECT, EXEC),
    "a bare object with white space": (f"\n {OBJECT}\n", EXEC),
    "a bare object that begins the text": (f"{OBJECT}\nDone.", [*EXEC, text("Done.")]),
    "a bare object that ends the text": (f"I'll look.\n{OBJECT}\n\n", [text("I'll look.\n"), *EXEC]),
    "a bare object whose tag was left out": (f"{OBJECT}\n</tool_call>", EXEC),
    "such an object, and text": (f"{OBJECT}</tool_call>\nDone.", [*EXEC, text("Done.")]),
    "such an object after text": (f"I'll look.\n{OBJECT}\n</tool_call>\n", [text("I'll look.\n"), *EXEC]),
    "a bare object and another tag": (f"{OBJECT}\n</b>", [*EXEC, text("</b>")]),
    "several bare objects": (f"{OBJECT}\n{OTHER}", BOTH),
    "several that end the text": (f"I'll look.\n{OBJECT}\n{OTHER}", [text("I'll look.\n"), *BOTH]),
    "a bare list": (f"[\n  {OBJECT},\n  {OTHER}\n]", BOTH),
    "Llama's members": ('{"type": "function", "name": "exec", "parameters": {"cmd": "ls"}}', EXEC),
    "a function by its name": ('{"function": "exec", "arguments": {"cmd": "ls"}}', EXEC),
    "a function inside": (f'{{"type": "function", "function": {OBJECT}}}', EXEC),
    "a call with an id": (f'{{"id": "call_1", "type": "function", "function": {OBJECT}}}', EXEC),
    "arguments first": ('{"arguments": {"cmd": "ls"}, "name": "exec"}', EXEC),
    "a bare object with a string": (r'{"name": "exec", "arguments": "{\"cmd\": \"ls\"}"}', EXEC),
    "a fence": (f"```\n{OBJECT}\n```", EXEC),
    "a fence with a language": (f"```json\n{OBJECT}\n```\n", EXEC),
    "a fence for calls": (f"``` tool_call\n{OBJECT}\n{OTHER}\n```", BOTH),
    "a fence at the end": (f"I'll look:\n```json\n{OBJECT}\n```\n", [text("I'll look:\n"), *EXEC]),
    "a fence that is not closed": (f"I'll look:\n```json\n{OBJECT}\n``", [text("I'll look:\n"), *EXEC]),
    "tags in a fence": (f"```xml\n<tool_call>{OBJECT}</tool_call>\n```", EXEC),
    "a call after inline code": (f"Run `ls` <tool_call>{OBJECT}</tool_call>", [text("Run `ls` "), *EXEC]),
    "a call after a fence": (
        f"```c\nint a[] = {{<1>}};\n```\n<tool_call>{OBJECT}</tool_call>",
        [text("```c\nint a[] = {<1>};\n```\n"), *EXEC],
    ),
    "a call after a fence in one line": (f"```x``` <tool_call>{OBJECT}</tool_call>", [text("```x``` "), *EXEC]),
    "a call after a backtick that was left open": (f"It`s\n<tool_call>{OBJECT}</tool_call>", [text("It`s\n"), *EXEC]),
    "another call after one that is none": (
        f"<tool_call>oops <tool_call>{OBJECT}</tool_call>",
        [text("<tool_call>oops "), *EXEC],
    ),
    # Harmony
    "Harmony": (
        "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>commentary to=functions.exec "
        '<|constrain|>json<|message|>{"cmd": "ls"}<|call|>',
        [("reasoning", "Hm <b>."), *EXEC],
    ),
    "Harmony's recipient before the channel": (
        '<|start|>assistant to=functions.exec<|channel|>commentary json<|message|>{"cmd": "ls"}<|call|>',
        EXEC,
    ),
    "Harmony's thought after a stray header": (
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
        "<|channel|>final<|message|>Paris.",
        [("reasoning", "Hm."), text("Paris.")],
    ),
    "Harmony's answer": (
        "\n<|channel|>analysis<|message|>Hm.<|end|>\n<|start|>assistant<|channel|>final<|message|>Paris <|.<|return|>",
        [("reasoning", "Hm."), text("Paris <|.")],
    ),
    "Harmony's preamble": (
        "<|channel|>commentary<|message|>I'll look. <|end|><|start|>assistant<|channel|>commentary to=exec<|message|>{}",
        [text("I'll look. "), *calls(("exec", "{}"))],
    ),
    "Harmony's call that was cut off": (
        '<|channel|>commentary to=functions.exec<|message|>{"cmd": "l',
        [text('{"cmd": "l')],
    ),
    "Harmony's call to be repaired": ("<|channel|>commentary to=functions.exec<|message|>{'cmd': 'ls'}<|call|>", EXEC),
    "Harmony's call of a tool that was not offered": (
        "<|channel|>commentary to=functions.rm<|message|>{}<|call|>",
        [text("{}")],
    ),
    "Harmony's header that was cut off": ("<|channel|>final<|message|>Paris.<|end|><|start|>assis", [text("Paris.")]),
    "Harmony's message of another role": ("<|channel|>final<|message|>a<|end|><|start|>user<|message|>b", [text("auserb")]),
}

TEXTS = {
    "nothing": "",
    "white space": " \n\t",
    "prose": "In C, a[0] < b{1} and `x` [link](y) are {fine}.\n[ ] todo\n{ x }\n<b>bold</b>\n",
    "a name that was not offered": '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>',
    "a bare name that was not offered": '{"name": "rm", "arguments": {}}',
    "a name that goes on": '{"name": "exec2", "arguments": {}}',
    "one of two that was not offered": f'<tool_call>[{OBJECT}, {{"name": "rm", "arguments": {{}}}}]</tool_call>',
    "a function that was not offered": "<tool_call><function=rm></function></tool_call>",
    "Mistral's that was not offered": "[TOOL_CALLS]rm[ARGS]{}",
    "Llama's that was not offered": '<|python_tag|>{"name": "rm", "parameters": {}}',
    "code after Llama's tag": "<|python_tag|>print({})",
    "a tag after a backtick": f"Write `<tool_call>{OBJECT}</tool_call>` to call.",
    "a tag after a quote": f'Write "<tool_call>{OBJECT}</tool_call>" to call.',
    "a tag in inline code": f"Write ``x <tool_call>{OBJECT}</tool_call>`` to call.",
    "a tag in a fence of prose": f"Like this:\n```\nfirst\n<tool_call>{OBJECT}</tool_call>\n```\nDone.",
    "a fence that is an example": f"Like this:\n```json\n{OBJECT}\n```\nThat calls it.",
    "a fence of tags that is an example": f"Like this:\n```\n<tool_call>{OBJECT}</tool_call>\n```\nThat calls it.",
    "a fence with more than a call": f"```json\n{OBJECT}\nand more\n```",
    "a bare object in the middle": f"First\n{OBJECT}\nthen.",
    "a bare object before another tag": f"First\n{OBJECT}\n</b>",
    "a bare object in the middle of a line": f"First {OBJECT}",
    "other members": '{"name": "exec", "arguments": {}, "why": "x"}',
    "other members before the arguments": '{"name": "exec", "why": "x", "arguments": {}}',
    "no arguments": '{"name": "exec"}',
    "arguments that are no object": '{"name": "exec", "arguments": [1]}',
    "a string that is no object": '{"name": "exec", "arguments": "ls"}',
    "both kinds of arguments": '{"name": "exec", "arguments": {}, "parameters": {}}',
    "another type": '{"type": "object", "name": "exec", "arguments": {}}',
    "a bare object that is nearly right": "{'name': 'exec', 'arguments': {}}",
    "a bare object that was cut off": '{"name": "exec", "arguments": {"cmd": "l',
    "a tagged object that was cut off": '<tool_call>{"name": "exec", "arguments": {"cmd": "l',
    "a string that does not end": '<tool_call>{"name": "exec", "arguments": {"cmd": "5" tall"}}</tool_call>',
    "a list that was cut off": f"[TOOL_CALLS][{OBJECT}",
    "a function that was cut off": "<function=exec><parameter=cmd>ls</parameter>",
    "a function's JSON that was cut off": '<function=exec>{"cmd": "ls"',
    "a marker that was cut off": "Hm <tool_ca",
    "Harmony in the middle": "Hm <|channel|>final<|message|>x",
    "almost Harmony": "<|channel|>secret<|message|>x",
    "an empty pair": "<tool_call></tool_call>",
    "an empty list": "[]\n{}\n[TOOL_CALLS][]",
    "an empty fence": "```json\n```\n``````",
    "half a character": '<tool_call>{"name": "exec", "arguments": {"a": "\ud83d"}}</tool_call>',
    "nested without end": "<tool_call>" + "[" * 5000,
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_the_same_at_every_split(name: str) -> None:
    raw, expected = CASES[name]
    for pieces in splits(raw):
        assert merge(read(TextCalls(NAMES), pieces)) == expected


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_not_a_call_is_text_unchanged(name: str) -> None:
    raw = TEXTS[name]
    for pieces in splits(raw):
        assert merge(read(TextCalls(NAMES), pieces)) == ([text(raw)] if raw else [])


FRAGMENTS = [
    *("<tool_call>", "</tool_call>", "<function=", "<function=exec>", "</function>", "<parameter=a>", "</parameter>"),
    *(
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|python_tag|>",
        "```",
        "```json\n",
        "`",
        "\n",
        " ",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        ";",
        '"',
        "\\",
        "'",
    ),
    *(
        '"name"',
        '"arguments"',
        '"parameters"',
        '"function"',
        '"type"',
        '"id"',
        '{"name": "exec", ',
        '"arguments": {',
        OBJECT,
        OTHER,
    ),
    *("exec", "rm", "functions.", "prose", "Hello.", "<", "</", "1", "é"),
]
HARMONY = [
    *(
        "<|channel|>",
        "<|start|>assistant",
        "<|message|>",
        "<|end|>",
        "<|call|>",
        "<|constrain|>",
        "analysis",
        "final",
        "commentary",
    ),
    *(" to=functions.exec", " to=rm", "<|channel|>final<|message|>", "<|channel|>commentary to=exec<|message|>", "json"),
]
# The markers and ends of all forms, and the parts of their examples.
PARTS = sorted(
    {
        part
        for form in FORMS
        for text in (*form.markers, *form.ends, form.example)
        for part in (text, *re.findall(r"</?[^<>]*>|\w+|\W", text))
    }
)
fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
parts = st.lists(st.sampled_from(PARTS) | st.sampled_from(FRAGMENTS), max_size=14).map("".join)
cuts = st.lists(st.integers(0, 150), max_size=20)


@settings(max_examples=400)
@given(fragments | parts, cuts)
def test_any_text_is_read_the_same_at_every_split(raw: str, edges: list[int]) -> None:
    whole = merge(read(TextCalls(NAMES), [raw]))
    assert merge(read(TextCalls(NAMES), list(raw))) == whole
    assert merge(read(TextCalls(NAMES), cut(raw, edges))) == whole
    if not any(part[0] == "call" for part in whole):
        assert "".join(str(part[1]) for part in whole) == raw


@given(st.lists(st.sampled_from([*HARMONY, *FRAGMENTS]), max_size=14).map("".join), cuts)
def test_any_harmony_is_read_the_same_at_every_split_and_without_its_markers(raw: str, edges: list[int]) -> None:
    raw = "<|channel|>analysis<|message|>" + raw
    whole = merge(read(TextCalls(NAMES), [raw]))
    assert merge(read(TextCalls(NAMES), list(raw))) == whole
    assert merge(read(TextCalls(NAMES), cut(raw, edges))) == whole
    assert not any(marker in str(part[1]) for part in whole for marker in ("<|channel|>", "<|message|>", "<|end|>"))


prose = st.lists(
    st.sampled_from(["Hello", " world", ".", "\n", " a < b", " {x}", " `code`,", " [1]", "\n\n- item"]), max_size=8
).map("".join)


@given(prose, prose, st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()), cuts)
def test_a_call_in_prose_is_found_and_the_prose_kept(
    before: str, after: str, arguments: dict[str, object], edges: list[int]
) -> None:
    written = json.dumps(arguments)
    raw = f'{before}<tool_call>{{"name": "exec", "arguments": {written}}}</tool_call>{after}'
    result = merge(read(TextCalls(NAMES), cut(raw, edges)))
    kept = [
        part for part in (text(before) if before.strip() else None, text(after.lstrip()) if after.strip() else None) if part
    ]
    assert [part for part in result if part[0] == "text"] == kept
    assert [part for part in result if part[0] == "call"] == calls(("exec", written))


@pytest.mark.parametrize(
    "said", ["Hello", " world", ", (it) is: 'fine'", " é", "  ", "\n", ".\n\n- one\n  two", " {x}", " <bold>", " [link to]"]
)
def test_ordinary_words_are_plain(said: str) -> None:
    finder = TextCalls(NAMES)
    finder.receive("Well")
    assert finder.take_if_plain(said)
    assert finder.take_if_plain("Well")
    assert finder.receive(said) == [TextDelta(said)]


def test_nothing_is_not_plain() -> None:
    finder = TextCalls(NAMES)
    finder.receive("Well")
    assert not finder.take_if_plain("")
    assert finder.receive("") == []


@pytest.mark.parametrize("said", ["\n{", "\n  [", "\n>>>", ".\nAction:", " <tool_call>", " [TOOL_CALLS]", " <", " [", "`"])
def test_what_may_begin_a_call_or_code_is_not_plain(said: str) -> None:
    finder = TextCalls(NAMES)
    finder.receive("Well")
    assert not finder.take_if_plain(said)


def test_a_call_after_a_plain_line_is_found() -> None:
    finder = TextCalls(NAMES)
    finder.receive("Well")
    assert finder.take_if_plain(":\n  ")
    assert not finder.take_if_plain(OBJECT)
    assert [*finder.receive(OBJECT), *finder.close()] == [CallDelta(0, name="exec", arguments='{"cmd": "ls"}')]


def test_code_in_a_fence_is_plain() -> None:
    finder = TextCalls(NAMES)
    finder.receive("Look:\n```c\nint a")
    assert finder.take_if_plain("[0] = {<x>};\n{\n")
    assert finder.take_if_plain("<tool_call>")
    finder.receive("\n```\n")
    assert not finder.take_if_plain("[0]")


def test_code_in_a_line_is_plain_up_to_the_end_of_the_line() -> None:
    finder = TextCalls(NAMES)
    finder.receive("The `x")
    assert finder.take_if_plain("[0] = {<tool_call>")
    assert not finder.take_if_plain("\n")


@pytest.mark.parametrize(
    "said",
    [
        *(
            '{"city":',
            '{"name": "Paris"',
            '{"name": "exec", "age":',
            '{"type": "object"',
            '{"id": 1',
            '{"id": "a", "title"',
            "[1,",
        ),
        *(
            "[link]",
            "<tool_box>",
            "<tool_call>x",
            '<tool_call>{"name": "rm"',
            "<function=rm>",
            "<|python_tag|>p",
            "[TOOL_CALLS]a b",
        ),
        *("``x", "```python\nimport", "<|channel|>x", "<|start|>user"),
    ],
)
def test_what_cannot_become_a_call_is_released_at_once(said: str) -> None:
    finder = TextCalls(NAMES)
    assert "".join(delta.text for piece in said for delta in finder.receive(piece) if isinstance(delta, TextDelta)) == said


def test_a_call_is_emitted_as_soon_as_it_is_complete() -> None:
    for marked in (
        f"<tool_call>{OBJECT}</tool_call>",
        f"[TOOL_CALLS][{OBJECT}]",
        f"<|python_tag|>{OBJECT}",
        OBJECT,
        f"```\n{OBJECT}\n```",
    ):
        finder = TextCalls(NAMES)
        assert finder.receive(marked[:-1]) == []
        assert finder.receive(marked[-1]) == [CallDelta(0, name="exec", arguments='{"cmd": "ls"}')]
        assert finder.close() == []


def test_a_thought_in_harmony_streams() -> None:
    finder = TextCalls(NAMES)
    assert finder.receive("<|channel|>analysis<|message|>I think") == [ReasoningDelta("I think")]
    assert not finder.take_if_plain(" so")
    assert finder.receive("<|end|><|start|>assistant<|channel|>final<|message|>Par") == [TextDelta("Par")]
    assert finder.take_if_plain("is")


@pytest.mark.parametrize(
    "opening", ['{"name": "exec", "arguments": {"cmd": "', '<tool_call>{"name": "exec", "arguments": {"cmd": "']
)
def test_what_is_too_long_to_buffer_is_released(opening: str) -> None:
    finder = TextCalls(NAMES)
    assert finder.receive(opening + "x" * (MAX_BUFFERED - len(opening))) == []
    assert merge(finder.receive("y")) == [text(opening + "x" * (MAX_BUFFERED - len(opening)) + "y")]
    assert finder.take_if_plain("more")


def test_a_harmony_call_that_is_too_long_to_buffer_is_released() -> None:
    finder = TextCalls(NAMES)
    assert finder.receive("<|channel|>commentary to=exec<|message|>" + "x" * MAX_BUFFERED) == []
    assert finder.receive("y") == [TextDelta("x" * MAX_BUFFERED + "y")]


def test_a_beginning_that_is_interrupted_is_text_and_the_search_starts_again() -> None:
    finder = TextCalls(NAMES)
    finder.receive(f"Hm\n{OBJECT}")
    assert merge(finder.release()) == [text(OBJECT)]
    assert merge(finder.receive(OBJECT)) == EXEC
    harmony = TextCalls(NAMES)
    harmony.receive("<|channel|>commentary to=exec<|message|>{")
    assert harmony.release() == [TextDelta("{")]


def test_long_arguments_in_small_pieces_take_linear_time() -> None:
    arguments = json.dumps({"cmd": "x{[<" * 50_000})
    for raw in (
        f'<tool_call>{{"name": "exec", "arguments": {arguments}}}</tool_call>',
        f'{{"name": "exec", "arguments": {arguments}}}',
        f"<function=exec>{arguments}</function>",
        f"[TOOL_CALLS]exec[ARGS]{arguments}",
    ):
        pieces = [raw[at : at + 4] for at in range(0, len(raw), 4)]
        assert merge(read(TextCalls(NAMES), pieces)) == calls(("exec", arguments))


def test_a_call_that_is_too_long_is_text_even_in_one_piece() -> None:
    raw = f'<tool_call>{{"name": "exec", "arguments": {{"cmd": "{"x" * MAX_BUFFERED}"}}}}</tool_call>'
    assert merge(read(TextCalls(NAMES), [raw])) == [text(raw)]


@pytest.mark.parametrize("beginning", ["{\n", '{"name": "exec", "arguments": {\n', "[TOOL_CALLS]exec{", "<function=exec>\n"])
def test_a_text_of_only_beginnings_is_searched_in_bounded_time(beginning: str) -> None:
    raw = beginning * (MAX_BUFFERED // len(beginning))
    assert merge(read(TextCalls(NAMES), [raw])) == [text(raw)]


NESTED = {
    "functions": ("<function=exec>{", "}</function>"),
    "Mistral's calls": ("[TOOL_CALLS]exec{", "}"),
    "Llama's calls": ("<|python_tag|>{", "}"),
    "lines of JSON": ('{"name": "exec", "arguments": {\n', "}}"),
    "blocks": ('<tool_call>{"name": "exec", "arguments": {', "}}</tool_call>"),
    "strings that are not closed": ("<function=exec>{'a': '\\\"", "'}</function>"),
}


@pytest.mark.parametrize("name", NESTED)
def test_calls_inside_calls_are_read_in_bounded_time(name: str) -> None:
    opening, closing = NESTED[name]
    times = MAX_BUFFERED // len(opening + closing)
    raw = opening * times + closing * times
    assert "".join(str(each[1]) for each in merge(read(TextCalls(NAMES), [raw])) if each[0] == "text")


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("times", [20, 200])
def test_calls_inside_calls_are_found_alike_however_they_are_split(name: str, times: int) -> None:
    """What they may take is used up after some of them."""
    opening, closing = NESTED[name]
    raw = f"Hm.\n{opening * times}{closing * times}\n<tool_call>{OBJECT}</tool_call>"
    whole, *others = splits(raw, others=2)
    found = merge(read(TextCalls(NAMES), whole))
    assert all(merge(read(TextCalls(NAMES), pieces)) == found for pieces in others)
