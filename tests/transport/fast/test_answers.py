"""Answers without I/O: however their bytes are split, the head, the content and the end are the same."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.transport import NotHttp
from antiphon.transport.fast.answers import (
    LONGEST_HEAD,
    LONGEST_SIZE_LINE,
    LONGEST_TRAILERS,
    ChunkedBody,
    Framing,
    OpenBody,
    SizedBody,
    find_head_end,
    read_head,
)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The data, cut at these places."""
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(ends) if start < end]


def fed(framing: Framing, pieces: Sequence[bytes]) -> tuple[bytes, bool, bool, bytes]:
    """The content, whether it has ended, whether that was an error, and what came after it."""
    content, rest = b"", b""
    for piece in pieces:
        if framing.ended or framing.error is not None:
            rest += piece
        else:
            content += framing.feed(piece)
    return content, framing.ended, framing.error is not None, framing.rest + rest


places = st.lists(st.integers(0, 10_000), max_size=30)
size_lines = st.sampled_from([b"%x\r\n", b"%X\r\n", b"000%x\r\n", b"%x \t\r\n", b"%x;name=value\r\n", b"%x\n"])
chunks = st.lists(st.tuples(size_lines, st.binary(min_size=1, max_size=300)), max_size=8)
trailers = st.sampled_from([b"", b"X-Sum: 1\r\n", b"A: b\r\nC: d\r\n", b"A: b\n"])


@given(chunks, trailers, st.binary(max_size=20), places)
def test_any_split_of_a_chunked_body_gives_the_same(
    given: list[tuple[bytes, bytes]], trailers: bytes, after: bytes, places: list[int]
) -> None:
    raw = b"".join(line % len(data) + data + b"\r\n" for line, data in given) + b"0\r\n" + trailers + b"\r\n" + after
    expected = b"".join(data for _, data in given), True, False, after
    assert fed(ChunkedBody(), cut(raw, places)) == expected
    assert fed(ChunkedBody(), [raw[at : at + 1] for at in range(len(raw))]) == expected


@given(st.binary(max_size=300), st.binary(max_size=20), places)
def test_any_split_of_a_body_with_a_length_gives_the_same(body: bytes, after: bytes, places: list[int]) -> None:
    assert fed(SizedBody(len(body)), cut(body + after, places)) == (body, True, False, after)


@given(st.binary(max_size=300), places)
def test_a_body_without_a_length_has_no_end_of_its_own(body: bytes, places: list[int]) -> None:
    assert fed(OpenBody(), cut(body, places)) == (body, False, False, b"")


GOOD = b"5\r\nhello\r\n"
BROKEN = {
    "a size that is no number": b"zz\r\n",
    "a negative size": b"-5\r\n",
    "a size with a sign": b"+5\r\n",
    "no size": b"\r\n",
    "a size of too many digits": b"1" * 16 + b"\r\n",
    "a number with an underscore": b"1_0\r\n",
    "a size line without end": b"5;" + b"x" * LONGEST_SIZE_LINE,
    "a chunk longer than its size": b"5\r\nhello!\r\n",
    "a chunk shorter than its size": b"5\r\nhel\r\n5\r\n",
    "trailers without end": b"0\r\n" + b"X: y\r\n" * (LONGEST_TRAILERS // 4),
    "a trailer without end": b"0\r\nX: " + b"y" * LONGEST_TRAILERS,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_chunk_is_an_error_and_what_came_before_it_is_content(name: str) -> None:
    raw = GOOD + BROKEN[name]
    whole = fed(ChunkedBody(), [raw])
    assert (whole[0][:5], whole[1:3]) == (b"hello", (False, True))
    assert fed(ChunkedBody(), [raw[at : at + 7] for at in range(0, len(raw), 7)])[:3] == whole[:3]


def test_a_chunked_body_says_whether_a_chunk_comes_next() -> None:
    body = ChunkedBody()
    seen = []
    for piece in (b"5", b"\r\n", b"hel", b"lo", b"\r", b"\n", b"5\r\nhello\r\n", b"5\r\nhello\r\n1", b"\r\nx\r\n", b"0\r\n"):
        body.feed(piece)
        seen.append(body.between_chunks)
    assert seen == [False, False, False, False, False, True, True, False, True, False]


def head(*lines: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([status, *lines, "", ""]).encode()


def test_a_head_is_read() -> None:
    read = read_head(head("Content-Length: 12", "X-Word:  two words \t", "retry-after: 3"))
    assert (read.status, read.length, read.chunked, read.keeps_alive, read.is_final) == (200, 12, False, True, True)
    assert read.headers.get("x-word") == "two words"
    assert read.headers.get("Retry-After") == "3"


@pytest.mark.parametrize(
    ("raw", "kind", "keeps_alive"),
    [
        (head("Content-Length: 3"), SizedBody, True),
        (head("Content-Length: 3", "Content-Length: 3"), SizedBody, True),
        (head("Transfer-Encoding: chunked"), ChunkedBody, True),
        (head("transfer-encoding: gzip, Chunked"), ChunkedBody, True),
        (head("Transfer-Encoding: gzip"), OpenBody, False),
        (head(), OpenBody, False),
        (head("Connection: close", "Content-Length: 3"), SizedBody, False),
        (head("Connection: X, CLOSE", "Content-Length: 3"), SizedBody, False),
        (head("Content-Length: 3", status="HTTP/1.0 200 OK"), SizedBody, False),
        (head("Content-Length: 3", "Connection: keep-alive", status="HTTP/1.0 200 OK"), SizedBody, True),
        (head("Content-Length: 3", status="HTTP/1.1 204 No Content"), SizedBody, True),
        (head(status="HTTP/1.1 304"), SizedBody, True),
        (head(status="HTTP/1.1 101 Switching Protocols"), SizedBody, False),
        (b"HTTP/1.1 200 OK\nContent-Length: 3\n\n", SizedBody, True),
        (head("X-Folded: a", "  b", "Content-Length: 3"), SizedBody, True),
    ],
)
def test_the_head_says_how_the_body_is_sent(raw: bytes, kind: type, keeps_alive: bool) -> None:
    read = read_head(raw)
    assert (type(read.framing()), read.keeps_alive) == (kind, keeps_alive)


def test_an_answer_that_is_not_final_has_no_body() -> None:
    for status in ("HTTP/1.1 100 Continue", "HTTP/1.1 103 Early Hints"):
        read = read_head(head("Content-Length: 5", status=status))
        assert (read.is_final, read.framing().ended) == (False, True)


def test_only_known_compressions_are_named() -> None:
    assert read_head(head("Content-Encoding: GZIP")).compression == "gzip"
    assert read_head(head("Content-Encoding: rot13")).compression is None
    assert read_head(head("Content-Encoding: gzip", status="HTTP/1.1 204 No")).compression is None


@pytest.mark.parametrize(
    "raw",
    [
        head(status="HTTP/2 200 OK"),
        head(status="HTTP/1.2 200 OK"),
        head(status="HTTP/1.1 20 OK"),
        head(status="HTTP/1.1 2000 OK"),
        head(status="HTTP/1.1 OK"),
        head("no colon"),
        head("two words: 3"),
        head(": nothing"),
        head("Content-Length: ten"),
        head("Content-Length: -1"),
        head("Content-Length: 5, 5"),
        head("Content-Length: "),
        head("Content-Length: 5", "Content-Length: 9"),
        head("Content-Length: 5", "Transfer-Encoding: chunked"),
        head("Content-Length: " + "9" * 19),
    ],
)
def test_a_head_that_is_wrong_is_not_http(raw: bytes) -> None:
    with pytest.raises(NotHttp):
        read_head(raw)


def test_the_end_of_a_head_is_found() -> None:
    raw = head("A: b")
    assert find_head_end(raw + b"body\r\n\r\n") == len(raw)
    assert [find_head_end(raw[:length]) for length in range(len(raw))] == [None] * len(raw)
    assert find_head_end(b"HTTP/1.1 200 OK\n\nbody") == 17


@pytest.mark.parametrize(
    "raw",
    [b"x", b"HTTP/2", b"\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * LONGEST_HEAD, head("X: " + "x" * LONGEST_HEAD)],
)
def test_what_cannot_become_a_head_is_not_waited_for(raw: bytes) -> None:
    with pytest.raises(NotHttp):
        find_head_end(raw)
