"""The lines of a batch: read in pieces, whatever the file has."""

import io
from typing import Any

import msgspec
import pytest

from antiphon.core.checks.work import LinesWork
from antiphon.files.readers import batch_lines
from antiphon.files.readers.batch_lines import ReadLine, request_of

ENDPOINT = "/v1/responses"


def line(id: Any = "a", **body: Any) -> bytes:
    return msgspec.json.encode({"custom_id": id, "method": "POST", "url": ENDPOINT, "body": {"model": "m", **body}})


def all_lines(data: bytes, longest: int = 1000, endpoint: str = ENDPOINT) -> list[ReadLine]:
    """Read piece by piece."""
    found: list[ReadLine] = []
    start = number = 0
    while True:
        piece = batch_lines.decode(batch_lines.read(io.BytesIO(data), LinesWork("", start, number, endpoint, longest)))
        found += piece.lines
        if piece.is_last:
            return found
        assert piece.next > start
        start, number = piece.next, piece.number


@pytest.mark.parametrize("most", [1, 40, 1 << 20])
def test_each_line_is_found_where_it_is(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_lines, "MOST_BYTES", most)
    lines = [line("a", input="ü"), b"", line("b"), b"  \r", b"x" * 5000, line("c", prompt_cache_key="k")]
    data = b"\xef\xbb\xbf" + b"\n".join(lines)
    found = all_lines(data)
    assert [(each.number, each.custom_id, each.code) for each in found] == [
        (1, "a", ""),
        (3, "b", ""),
        (5, None, "line_too_long"),
        (6, "c", ""),
    ]
    requests = [
        msgspec.json.decode(request_of(data[each.start : each.start + each.size], ENDPOINT).body)
        for each in found
        if not each.code
    ]
    assert requests == [{"model": "m", "input": "ü"}, {"model": "m"}, {"model": "m", "prompt_cache_key": "k"}]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        (line(5), "custom_id"),
        (line(""), "custom_id"),
        (line("a\0b"), "custom_id"),
        (line("a", model=5), "body.model"),
        (line("a", model="a\0"), "body.model"),
        (line("a", stream=True), "body.stream"),
        (line().replace(b"POST", b"PUT"), "method"),
        (b'{"custom_id":"a","method":"POST","url":"/v1/responses","body":"{}"}', "body"),
        (b'{"custom_id":"a","method":"POST","url":"/v1/responses"}', "body"),
        (b"[]", None),
        (b'{"custom_id":"a"', None),
        (b"[" * 2000, None),
        (b'{"custom_id":"\xff"}', None),
    ],
)
def test_a_line_that_cannot_be_run_says_why(wrong: bytes, param: str | None) -> None:
    [read] = all_lines(wrong, longest=5000)
    assert read.code
    assert read.message
    assert read.param == param


def test_lines_that_begin_alike_have_one_prefix_in_every_protocol() -> None:
    def prefix(**body: Any) -> str:
        return all_lines(line(**body))[0].prefix

    assert prefix(instructions="long", input="a") == prefix(instructions="long", input="b")
    assert prefix(instructions="long", input="a") != prefix(instructions="short", input="a")
    system = {"role": "system", "content": "long"}
    assert prefix(messages=[system, {"role": "user", "content": "a"}]) == prefix(
        messages=[system, {"role": "user", "content": "b"}]
    )
    assert prefix(messages=[system]) != prefix(messages=[system | {"content": [{"type": "text", "text": "other"}]}])
    assert prefix(system=[{"type": "text", "text": "long"}]) != prefix(system=[{"type": "text", "text": "other"}])
    assert prefix(tools=[{"type": "web_search"}]) != prefix(tools=[])
    assert prefix(prompt_cache_key="k", instructions="long") == prefix(prompt_cache_key="k", instructions="short")
    # And those that go on alike are neighbours.
    orders = [all_lines(line(input=f"The same text. {at}"))[0].order for at in range(2)]
    assert orders[0][:30] == orders[1][:30]


def test_a_line_of_a_batch_of_messages_has_its_request_in_its_params() -> None:
    data = b'{"custom_id":"a","params":{"model":"m","max_tokens":5}}'
    [read] = all_lines(data, endpoint="/v1/messages")
    assert (read.custom_id, read.model, read.code) == ("a", "m", "")
    assert request_of(data, "/v1/messages") == (b'{"model":"m","max_tokens":5}', [])
