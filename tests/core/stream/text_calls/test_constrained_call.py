"""An answer constrained to be a call: read while it arrives, at any split; anything else is text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.call_finder import Merged, cut, merge, read, splits

from antiphon.core.events.deltas import CallDelta, TextDelta
from antiphon.core.stream.text_calls import AnswersByCall, ConstrainedCall, TextCalls

NAMES = ["get_weather", "exec", "naïve"]


def call(name: str, arguments: str) -> Merged:
    return [("call", 0, name, arguments)]


CASES: dict[str, tuple[str, Merged]] = {
    "a call": ('{"name": "exec", "arguments": {"cmd": "ls"}}', call("exec", '{"cmd": "ls"}')),
    "no white space": ('{"name":"exec","arguments":{}}', call("exec", "{}")),
    "white space everywhere": (
        '\n { "name" :\t"exec" ,\r\n "arguments" : { "cmd" : "ls" } \n}\n\n',
        call("exec", '{ "cmd" : "ls" }'),
    ),
    "brackets and quotes in strings": (
        r'{"name": "exec", "arguments": {"cmd": "echo \"}}\" {[\\", "n": [{"a": "]"}]}}',
        call("exec", r'{"cmd": "echo \"}}\" {[\\", "n": [{"a": "]"}]}'),
    ),
    "escapes": (
        r'{"name": "na\u00efve", "arguments": {"a": "\u007d\ud83d\ude00"}}',
        call("naïve", r'{"a": "\u007d\ud83d\ude00"}'),
    ),
    "cut off within the arguments": ('{"name": "exec", "arguments": {"cmd": "l', call("exec", '{"cmd": "l')),
    "never closed": ('{"name": "exec", "arguments": {}', call("exec", "{}")),
    "text after it": ('{"name": "exec", "arguments": {}}\nDone. ', [*call("exec", "{}"), ("text", "Done. ")]),
    "another member after the arguments": (
        '{"name": "exec", "arguments": {}, "x": 1}',
        [*call("exec", "{}"), ("text", ', "x": 1}')],
    ),
}
TEXTS = {
    "prose": "Paris. {}",
    "nothing": "",
    "white space": " \n",
    "a name that was not offered": '{"name": "rm", "arguments": {}}',
    "a name that goes on": '{"name": "exec2", "arguments": {}}',
    "another member first": '{"arguments": {}, "name": "exec"}',
    "no arguments": '{"name": "exec"}',
    "arguments that are no object": '{"name": "exec", "arguments": "{}"}',
    "a name that is no string": '{"name": 1, "arguments": {}}',
    "a list": '[{"name": "exec", "arguments": {}}]',
    "cut off before the arguments": '{"name": "exec", "argu',
    "a story where the name should be": '{"name": "' + "once " * 200,
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_the_same_at_every_split(name: str) -> None:
    text, expected = CASES[name]
    for pieces in splits(text):
        assert merge(read(ConstrainedCall(NAMES), pieces)) == expected


@pytest.mark.parametrize("name", TEXTS)
def test_anything_else_is_text_unchanged(name: str) -> None:
    text = TEXTS[name]
    for pieces in splits(text):
        assert merge(read(ConstrainedCall(NAMES), pieces)) == ([("text", text)] if text else [])


# ---- several calls in a list -----------------------------------------------------------------------------------------

TWO: Merged = [("call", 0, "exec", '{"cmd": "ls"}'), ("call", 1, "get_weather", '{"city": "Rome"}')]
LISTS: dict[str, tuple[str, Merged]] = {
    "two": ('[{"name": "exec", "arguments": {"cmd": "ls"}}, {"name": "get_weather", "arguments": {"city": "Rome"}}]', TWO),
    "white space everywhere": (
        '\n[\n { "name": "exec", "arguments": {"cmd": "ls"} }\n ,{"name":"get_weather","arguments":{"city": "Rome"}} ]\n',
        TWO,
    ),
    "one": ('[{"name": "exec", "arguments": {"cmd": "ls"}}]', TWO[:1]),
    "no list": ('{"name": "exec", "arguments": {"cmd": "ls"}}', TWO[:1]),
    "cut off after the first": ('[{"name": "exec", "arguments": {"cmd": "ls"}},', TWO[:1]),
    "cut off within the second": (
        '[{"name": "exec", "arguments": {"cmd": "ls"}}, {"name": "exec", "arguments": {"cmd',
        [TWO[0], ("call", 1, "exec", '{"cmd')],
    ),
    "a text": ('[{"name": "say", "arguments": {"text": "[It] rains."}}]', [("text", "[It] rains.")]),
    "text after it": ('[{"name": "exec", "arguments": {"cmd": "ls"}}] Done.', [TWO[0], ("text", "Done.")]),
    "something else in it": ('[{"name": "exec", "arguments": {"cmd": "ls"}} 1]', [TWO[0], ("text", "1]")]),
    "a list of something else": ('["a"]', [("text", '["a"]')]),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_calls_is_read_the_same_at_every_split(name: str) -> None:
    text, expected = LISTS[name]
    for pieces in splits(text):
        assert merge(read(ConstrainedCall(NAMES, say="say", listed=True), pieces)) == expected


def test_a_list_breaks_the_form_unless_it_may_be_one() -> None:
    for written, breaks in (('[{"name": "rm", "arguments": {}}]', True), ("Rome.", True), ('[{"arguments": {}}]', False)):
        finder = ConstrainedCall(NAMES, say="say", otherwise=TextCalls(NAMES), listed=True)
        read(finder, [written])
        assert finder.breaks_form is breaks, written


# ---- an answer that may be in words ----------------------------------------------------------------------------------

HEAD = '{"name": "say", "arguments": {"text": "'

SAID: dict[str, tuple[str, Merged]] = {
    "a text": ('{"name": "say", "arguments": {"text": "It rains."}}', [("text", "It rains.")]),
    "no white space": ('{"name":"say","arguments":{"text":"It rains."}}', [("text", "It rains.")]),
    "white space everywhere": (
        '\n { "name" : "say" ,\n"arguments": {\t"text" :\t"It rains." \n} }\n\n',
        [("text", "It rains.")],
    ),
    "no text": ('{"name": "say", "arguments": {"text": ""}}', []),
    "escapes": (
        r'{"name": "say", "arguments": {"text": "a\n\"b\"\t\\ \/ \u00e9 \ud83d\ude00 }"}}',
        [("text", 'a\n"b"\t\\ / é 😀 }')],
    ),
    "line breaks that are not escaped": ('{"name": "say", "arguments": {"text": "a\nb"}}', [("text", "a\nb")]),
    "escapes that are none": (r'{"name": "say", "arguments": {"text": "\d \n \x41"}}', [("text", "\\d \n \\x41")]),
    "the escape of an escape": (r'{"name": "say", "arguments": {"text": "\\ud83d\\n"}}', [("text", r"\ud83d\n")]),
    "half a character": (r'{"name": "say", "arguments": {"text": "a\ud83db\ud83d\ud83d\ude00\udc00"}}', [("text", "a?b?😀?")]),
    "cut off": ('{"name": "say", "arguments": {"text": "It ra', [("text", "It ra")]),
    "cut off within an escape": (r'{"name": "say", "arguments": {"text": "It\u00', [("text", "It")]),
    "cut off after a backslash": ('{"name": "say", "arguments": {"text": "It\\', [("text", "It")]),
    "cut off within a character": (r'{"name": "say", "arguments": {"text": "It\ud83d\ude', [("text", "It")]),
    "an escape that never was one": (
        r'{"name": "say", "arguments": {"text": "It\u00zz rains."}}',
        [("text", r"It\u00zz rains.")],
    ),
    "never closed": ('{"name": "say", "arguments": {"text": "It rains."}', [("text", "It rains.")]),
    "text after it": ('{"name": "say", "arguments": {"text": "It rains."}}\nDone. ', [("text", "It rains.Done. ")]),
    "another member": ('{"name": "say", "arguments": {"text": "a", "x": 1}}', [("text", 'a, "x": 1}}')]),
    "a member after the arguments": ('{"name": "say", "arguments": {"text": "a"}, "x": 1}', [("text", 'a, "x": 1}')]),
    "a call": CASES["a call"],
}
SAID_TEXTS = {
    **TEXTS,
    "no string": '{"name": "say", "arguments": {"text": 1}}',
    "another parameter": '{"name": "say", "arguments": {"x": 1, "text": "a"}}',
    "no parameter": '{"name": "say", "arguments": {}}',
    "a longer name": '{"name": "says", "arguments": {"text": "a"}}',
    "cut off before the text": '{"name": "say", "arguments": {',
}


@pytest.mark.parametrize("name", SAID)
def test_a_text_is_read_the_same_at_every_split(name: str) -> None:
    text, expected = SAID[name]
    for pieces in splits(text):
        assert merge(read(ConstrainedCall(NAMES, say="say"), pieces)) == expected


@pytest.mark.parametrize("name", SAID_TEXTS)
def test_what_is_neither_a_call_nor_a_text_is_emitted_unchanged(name: str) -> None:
    text = SAID_TEXTS[name]
    for pieces in splits(text):
        assert merge(read(ConstrainedCall(NAMES, say="say"), pieces)) == ([("text", text)] if text else [])


def test_where_a_call_is_required_a_text_is_no_form() -> None:
    text = '{"name": "say", "arguments": {"text": "It rains."}}'
    for pieces in splits(text):
        assert merge(read(ConstrainedCall(NAMES), pieces)) == [("text", text)]


OTHERS: dict[str, tuple[str, Merged]] = {
    "a call between markers": ('<tool_call>\n{"name": "exec", "arguments": {}}\n</tool_call>', call("exec", "{}")),
    "members in another order": ('{"arguments": {}, "name": "exec"}', call("exec", "{}")),
    "a text": ("It rains.", [("text", "It rains.")]),
    "a name that was not offered": ('{"name": "rm", "arguments": {}}', [("text", '{"name": "rm", "arguments": {}}')]),
    **SAID,
}


@pytest.mark.parametrize("name", OTHERS)
def test_calls_are_found_in_an_answer_that_was_not_constrained_after_all(name: str) -> None:
    text, expected = OTHERS[name]
    for pieces in splits(text):
        finder = ConstrainedCall(NAMES, say="say", otherwise=TextCalls(dict.fromkeys(NAMES)))
        assert merge(read(finder, pieces)) == expected


SAID_OTHERWISE: dict[str, tuple[str, Merged]] = {
    **OTHERS,
    "said in a fence": ('```json\n{"name": "say", "arguments": {"text": "It rains."}}\n```', [("text", "It rains.")]),
    "said between markers": (
        '<tool_call>\n{"name": "say", "arguments": {"text": "It \\"rains\\"."}}\n</tool_call>',
        [("text", 'It "rains".')],
    ),
    "said with the members in another order": ('{"arguments": {"text": "It rains."}, "name": "say"}', [("text", "It rains.")]),
    "said with another member": ('{"name": "say", "parameters": {"text": "It rains."}}', [("text", "It rains.")]),
    "said by another argument": ('{"name": "say", "arguments": {"message": "It rains."}}', [("text", "It rains.")]),
    "said after words": (
        'Well.\n<tool_call>{"name": "say", "arguments": {"text": "It rains."}}</tool_call>',
        [("text", "Well.\nIt rains.")],
    ),
    "said twice": (
        '<tool_call>{"name": "say", "arguments": {"text": "a"}}</tool_call>\n'
        '<tool_call>{"name": "say", "arguments": {"text": "b"}}</tool_call>',
        [("text", "a\n\nb")],
    ),
    "nothing said": ('<tool_call>{"name": "say", "arguments": {"text": ""}}</tool_call>', []),
    "words before a call": (
        'Well.\n<tool_call>{"name": "exec", "arguments": {}}</tool_call>',
        [("text", "Well.\n"), *call("exec", "{}")],
    ),
}


@pytest.mark.parametrize("name", SAID_OTHERWISE)
def test_our_own_function_is_found_wherever_a_call_is(name: str) -> None:
    text, expected = SAID_OTHERWISE[name]
    for pieces in splits(text):
        assert merge(read(held(), pieces)) == expected


def held() -> ConstrainedCall:
    return ConstrainedCall(NAMES, say="say", otherwise=AnswersByCall(dict.fromkeys(NAMES), "say"))


FORMS = {
    **{name: (text, False) for name, (text, _) in SAID.items()},
    "nothing": ("", False),
    "white space": (" \n" * 2000, False),
    "much white space in it": ('{"name":' + " " * 3000 + '"exec", "arguments": {}}', False),
    "members in another order": ('{"arguments": {}, "name": "exec"}', False),
    "cut off": ('{"arg', False),
    "another argument of our own function": ('{"name": "say", "arguments": {"message": "a"}}', False),
    "prose": ("It rains.", True),
    "a fence": ('```json\n{"name": "say", "arguments": {"text": "a"}}\n```', True),
    "markers": ('<tool_call>\n{"name": "exec", "arguments": {}}\n</tool_call>', True),
    "other JSON": ('{"city": "Paris"}', True),
    "JSON whose first member begins in the same way": ('{"argument": 1}', True),
    "a list": ('[{"name": "exec", "arguments": {}}]', True),
    "a name that was not offered": ('{"name": "rm", "arguments": {}}', True),
    "other members": ('{"name": "exec", "parameters": {}}', True),
}


@pytest.mark.parametrize("name", FORMS)
def test_an_answer_breaks_the_form_only_if_no_schema_of_a_call_allows_it(name: str) -> None:
    text, broken = FORMS[name]
    for pieces in ([text], list(text)):
        finder = held()
        read(finder, pieces)
        assert finder.breaks_form is broken


def test_a_thought_before_the_form_does_not_break_it() -> None:
    finder = held()
    finder.receive("They want to know.")
    finder.release()
    finder.receive('{"name": "say", "arguments": {"text": "It rains."}}')
    finder.close()
    assert not finder.breaks_form


@given(st.text(), st.booleans(), st.sampled_from([None, 2]), st.lists(st.integers(0, 200)))
def test_any_text_comes_out_as_it_was_meant(said: str, ascii_only: bool, indent: int | None, cuts: list[int]) -> None:
    text = json.dumps({"name": "say", "arguments": {"text": said}}, ensure_ascii=ascii_only, indent=indent)
    assert merge(read(ConstrainedCall(NAMES, say="say"), cut(text, cuts))) == ([("text", said)] if said else [])


ALPHABET = st.sampled_from([*'{}":,\\ud83ex0a \n', HEAD, '"}}', "\\u", "\\ud83d", "\\ude00", '{"name": "exec", "arguments": {'])


@given(st.lists(ALPHABET, max_size=30), st.lists(st.integers(0, 200)), st.booleans())
def test_any_answer_gives_the_same_at_every_split(pieces: list[str], cuts: list[int], says: bool) -> None:
    text = (HEAD if says else "") + "".join(pieces)
    whole = merge(read(ConstrainedCall(NAMES, say="say"), [text] if text else []))
    assert merge(read(ConstrainedCall(NAMES, say="say"), list(text))) == whole
    assert merge(read(ConstrainedCall(NAMES, say="say"), cut(text, cuts))) == whole


def test_a_text_is_emitted_as_it_arrives() -> None:
    finder = ConstrainedCall(NAMES, say="say")
    assert finder.receive(HEAD[:-1]) == []
    assert not finder.take_if_plain("It")
    assert finder.receive('"It') == [TextDelta("It")]
    assert finder.take_if_plain(" rains.")
    assert not finder.take_if_plain(' "hard"')
    assert finder.receive(" rains\\") == [TextDelta(" rains")]
    assert not finder.take_if_plain("n")
    assert finder.receive('nhard."') == [TextDelta("\nhard.")]
    assert not finder.take_if_plain("}")
    assert finder.receive("}}") == []
    assert finder.close() == []


def test_what_follows_a_thought_may_be_a_text_as_well() -> None:
    finder = ConstrainedCall(NAMES, say="say")
    assert finder.receive(HEAD + "I thi\\") == [TextDelta("I thi")]
    assert finder.release() == []
    assert finder.receive(HEAD + 'Hi"}}') == [TextDelta("Hi")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values), st.booleans(), st.sampled_from([None, 2]), st.lists(st.integers(0, 200)))
def test_any_arguments_come_out_as_they_were_written(
    arguments: dict[str, object], ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    text = json.dumps({"name": "exec", "arguments": arguments}, ensure_ascii=ascii_only, indent=indent)
    ((kind, _, name, written),) = merge(read(ConstrainedCall(NAMES), cut(text, cuts)))
    assert (kind, name) == ("call", "exec")
    assert str(written) in text
    assert json.loads(str(written)) == arguments


def test_the_name_comes_with_the_start_of_the_arguments_and_the_rest_as_it_arrives() -> None:
    finder = ConstrainedCall(NAMES)
    assert finder.receive('{"name": "exec", "arguments": ') == []
    assert finder.receive('{"c') == [CallDelta(0, name="exec"), CallDelta(0, arguments='{"c')]
    assert finder.receive('md": "l') == [CallDelta(0, arguments='md": "l')]
    assert finder.receive('s"}}') == [CallDelta(0, arguments='s"}')]
    assert finder.close() == []


def test_a_name_that_was_not_offered_is_released_as_soon_as_it_is_read() -> None:
    finder = ConstrainedCall(NAMES)
    assert finder.receive('{"name": "Paris') == []
    assert finder.receive('"') == [TextDelta('{"name": "Paris"')]
    assert finder.take_if_plain(", it is")


def test_a_beginning_that_is_interrupted_is_text() -> None:
    finder = ConstrainedCall(NAMES)
    finder.receive('{"name": "ex')
    assert finder.release() == [TextDelta('{"name": "ex')]
    assert finder.receive('ec", "arguments": {}}') == [TextDelta('ec", "arguments": {}}')]
