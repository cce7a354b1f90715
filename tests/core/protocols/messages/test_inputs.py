"""The input of a call while it streams is always the beginning of a JSON object."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.client_conversations import user
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest
from support.messages import parse

from antiphon.core.protocols.messages.inputs import InputText

# A character that JSON has nowhere.
NOWHERE = "\x00"


def streamed(*pieces: str) -> str:
    text = InputText()
    return "".join(map(text.receive, pieces)) + text.close("".join(pieces))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


@st.composite
def pieces_of(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> list[str]:
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def written(indent: int | None, *, ascii: bool) -> st.SearchStrategy[str]:
    return OBJECTS.map(lambda value: json.dumps(value, indent=indent, ensure_ascii=ascii))


WRITTEN = written(None, ascii=True) | written(2, ascii=False)


@given(pieces_of(WRITTEN))
def test_an_object_passes_as_it_is(pieces: list[str]) -> None:
    assert streamed(*pieces) == "".join(pieces)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text = draw(WRITTEN)
    at = draw(st.integers(0, len(text)))
    return (
        text[:at]
        + draw(st.text(max_size=3) | st.sampled_from(['"', "{", "}", "[", "]", ",", ":", "\\", "nul", "\n"]))
        + text[at:]
    )


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@given(pieces_of(damaged()))
def test_whatever_is_written_every_piece_continues_an_object(pieces: list[str]) -> None:
    text, sent, arguments = InputText(), "", ""
    for piece in pieces:
        sent += text.receive(piece)
        arguments += piece
        # Nothing may follow that character: the object is closed.
        broken = deepcopy(text)
        assert is_object(sent + broken.receive(NOWHERE) + broken.close(arguments + NOWHERE))


@pytest.mark.parametrize(
    ("arguments", "input"),
    [
        ('{"city": Paris}', {"city": None, "invalid_json": "Paris}"}),
        ('{city: "Paris"}', {"invalid_json": 'city: "Paris"}'}),
        ('{"city": "a\nb"}', {"city": "a", "invalid_json": '\nb"}'}),
        ('{"path": "C:\\users"}', {"path": "C:", "invalid_json": '\\users"}'}),
        ('{"a": {"b": [1, 2,], "c": 3}}', {"a": {"b": [1, 2, None]}, "invalid_json": '], "c": 3}}'}),
        ('{"a": {"b": 1, }}', {"a": {"b": 1, "": None}, "invalid_json": "}}"}),
        ('{"a": 1, }', {"a": 1, "invalid_json": "}"}),
        ('{"a" 1}', {"a": None, "invalid_json": "1}"}),
        ('{"a\n": 1}', {"a": None, "invalid_json": '\n": 1}'}),
        ('{"a": [01]}', {"a": [], "invalid_json": "01]}"}),
        ('{"a": 1}{"a": 2}', {"a": 1}),
        ("null", {"value": None}),
        ("[1]", {"value": [1]}),
        ('"text"', {"value": "text"}),
        ("Paris", {"invalid_json": "Paris"}),
    ],
)
def test_what_is_no_json_is_shown_in_a_member_of_its_own(arguments: str, input: dict[str, Any]) -> None:
    assert json.loads(streamed(arguments)) == input
    assert json.loads(streamed(*arguments)) == input


@pytest.mark.parametrize("arguments", ['{"city": "Par', '{"city"', '{"city": nul', '{"city": "a\\u00', "{", ""])
def test_what_was_cut_off_stays_so(arguments: str) -> None:
    sent = streamed(*arguments)
    assert arguments.startswith(sent)
    assert len(arguments) - len(sent) <= len("\\u00")


async def test_a_stream_has_an_object_for_each_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first, second = call("weather", '{"city": Paris}'), call("weather", '{"city": "Rome"}', id="call_2", index=1)
    engine.will(answer(first, second, finish="tool_calls"))
    tool = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    request = {"model": "mock", "max_tokens": 16, "messages": [user("Weather?")], "tools": [tool], "stream": True}
    async with gateway.client.post(f"{gateway.url}/v1/messages", json=request) as answered:
        events = parse(await answered.read())
    inputs = ["", ""]
    for event in events:
        if event["type"] == "content_block_delta":
            inputs[event["index"]] += event["delta"]["partial_json"]
    assert list(map(json.loads, inputs)) == [{"city": None, "invalid_json": "Paris}"}, {"city": "Rome"}]
