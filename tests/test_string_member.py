"""The one string in the arguments of a custom call, decoded at any split."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.partial_json import StringMember, whole_input


def read(pieces: list[str]) -> str:
    member = StringMember()
    return "".join(member.receive(piece) for piece in pieces) + member.close()


@given(st.text(), st.booleans(), st.sampled_from(['{"input":', '{ "input" : ', '\n{\n  "input": ']))
def test_any_text_comes_back_at_any_split(text: str, ascii_only: bool, opening: str) -> None:
    whole = text.encode("utf-8", "replace").decode()
    arguments = opening + json.dumps(whole, ensure_ascii=ascii_only) + "}"
    assert read([arguments]) == whole
    assert read(list(arguments)) == whole


def test_text_comes_as_soon_as_it_is_certain() -> None:
    member = StringMember()
    assert member.receive('{"inp') == ""
    assert member.receive('ut": "*** Be') == "*** Be"
    assert member.receive("gin\\") == "gin"
    assert member.receive("nx\\u00") == "\nx"
    assert member.receive("e9\\ud83d") == "é"
    assert member.receive('\\ude00"') == "😀"
    assert member.receive("}") == ""


@pytest.mark.parametrize(
    "written",
    [r"\\ud83d", r"\\\ud83d\ude00", r"\d \n \x41", r"\ud83d\ud83d\ude00", r"\ud83d\n", r"C:\users", r"\ud83d\users", r"\u12\u"],
)
def test_escapes_mean_the_same_at_every_split(written: str) -> None:
    arguments = f'{{"input": "{written}"}}'
    whole = read([arguments])
    assert read(list(arguments)) == whole
    for at in range(len(arguments)):
        assert read([arguments[:at], arguments[at:]]) == whole


def test_line_breaks_that_are_not_escaped_are_accepted() -> None:
    assert read(['{"input": "a\nb"}']) == "a\nb"


def test_what_was_cut_off_is_not_lost() -> None:
    assert read(['{"input": "abc\\u12']) == "abc\\u12"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ('{"input": "a"}', "a"),
        ('{"patch": "a"}', "a"),
        ('{"x": "a", "input": "b"}', "b"),
        ('{"x": "a", "y": "b"}', '{"x": "a", "y": "b"}'),
        ('"a"', "a"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"input": "cut off', "cut off"),
        ("", ""),
    ],
)
def test_arguments_of_another_shape_are_read_as_they_are_most_likely_meant(arguments: str, meant: str) -> None:
    assert whole_input(arguments) == meant


def test_what_json_does_not_have_is_text_and_ends_with_the_string() -> None:
    assert read([r'{"input": "cd C:\users\u12"}']) == r"cd C:\users\u12"
    member = StringMember()
    assert member.receive(r'{"input": "cd C:\us') == r"cd C:\us"
    assert member.receive("ers") == "ers"
