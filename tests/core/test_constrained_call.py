"""An answer constrained to be a call: read while it arrives, at any split; anything else is text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.call_finder import Merged, cut, merge, read, splits

from antiphon.core.deltas import CallDelta, TextDelta
from antiphon.core.text_calls import ConstrainedCall

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
