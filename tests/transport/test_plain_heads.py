"""Heads that are read without aiohttp's parser: what is read is what aiohttp reads, and nothing odd is read at all."""

import asyncio
from typing import Any

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.transport.fast.request_heads import LONGEST_HEAD, MOST_HEADERS, KnownHead, read_head, to_known

LINE = b"POST /v1/responses HTTP/1.1\r\n"
PLAIN = b"Host: localhost\r\nContent-Length: 5\r\n"


def read(headers: bytes) -> Any:
    return read_head(LINE + headers + b"\r\nhello", len(LINE))


def test_a_plain_head_is_read() -> None:
    headers, length, body = read(b"hOST: localhost:80\r\ncontent-length:005\t\r\nAccept: a,\t b \r\nConnection: keep-alive\r\n")
    assert list(headers.items()) == [
        ("hOST", "localhost:80"),
        ("content-length", "005"),
        ("Accept", "a,\t b"),
        ("Connection", "keep-alive"),
    ]
    assert headers["Content-Length"] == "005"
    assert (length, body) == (5, len(LINE) + 83)


ODD = {
    "two lengths": PLAIN + b"Content-Length: 5\r\n",
    "two different lengths": PLAIN + b"content-length: 6\r\n",
    "a list of lengths": b"Host: localhost\r\nContent-Length: 5, 5\r\n",
    "a length with a sign": b"Host: localhost\r\nContent-Length: +5\r\n",
    "a length in hexadecimal": b"Host: localhost\r\nContent-Length: 0x5\r\n",
    "an endless length": b"Host: localhost\r\nContent-Length: " + b"9" * 30 + b"\r\n",
    "no length": b"Host: localhost\r\n",
    "an empty length": b"Host: localhost\r\nContent-Length:\r\n",
    "no host": b"Content-Length: 5\r\n",
    "two hosts": PLAIN + b"Host: other\r\n",
    "chunks": b"Host: localhost\r\nTransfer-Encoding: chunked\r\n",
    "a length and chunks": PLAIN + b"Transfer-Encoding: chunked\r\n",
    "a length and chunks, hidden": PLAIN + b"transfer-encoding:\tx, chunked\r\n",
    "a coding": PLAIN + b"Content-Encoding: gzip\r\n",
    "an expectation": PLAIN + b"Expect: 100-continue\r\n",
    "an upgrade": PLAIN + b"Upgrade: h2c\r\n",
    "trailers": PLAIN + b"Trailer: Content-Length\r\n",
    "a connection that closes": PLAIN + b"Connection: close\r\n",
    "a connection with more than one word": PLAIN + b"Connection: keep-alive, Upgrade\r\n",
    "a connection of a proxy": PLAIN + b"Proxy-Connection: close\r\n",
    "a space before the colon": PLAIN + b"Accept : x\r\n",
    "a space before the colon of a length": b"Host: localhost\r\nContent-Length : 5\r\n",
    "a line that goes on": PLAIN + b"Accept: x\r\n y\r\n",
    "a length that goes on": b"Host: localhost\r\nContent-Length: 5\r\n 6\r\n",
    "a first line that is folded": b" Accept: x\r\n" + PLAIN,
    "a bare line feed": PLAIN + b"Accept: x\nTransfer-Encoding: chunked\r\n",
    "a bare carriage return": PLAIN + b"Accept: x\rTransfer-Encoding: chunked\r\n",
    "a NUL": PLAIN + b"Accept: x\x00y\r\n",
    "a NUL in a name": PLAIN + b"Ac\x00cept: x\r\n",
    "a vertical tab": PLAIN + b"Accept: \x0bx\r\n",
    "letters that are not ASCII": PLAIN + "Accept: é\r\n".encode(),
    "names that are not ASCII": PLAIN + "Accépt: x\r\n".encode(),
    "no name": PLAIN + b": x\r\n",
    "no colon": PLAIN + b"Accept\r\n",
    "a name twice": PLAIN + b"Accept: x\r\naccept: y\r\n",
    "too many": PLAIN + b"".join(b"a%d: x\r\n" % number for number in range(MOST_HEADERS)),
    "too long": PLAIN + b"Accept: " + b"x" * LONGEST_HEAD + b"\r\n",
    "an old WebSocket": PLAIN + b"Sec-WebSocket-Key1: x\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("headers", ODD.values(), ids=ODD)
def test_what_is_odd_is_left_to_aiohttp(headers: bytes) -> None:
    assert read(headers) is None


@pytest.mark.parametrize("size", range(len(PLAIN) + 2))
def test_a_head_that_is_not_complete_is_left_to_aiohttp(size: int) -> None:
    assert read_head(LINE + (PLAIN + b"\r\n")[:size], len(LINE)) is None


NAMES = st.sampled_from(
    "Host Content-Length content-length Transfer-Encoding Content-Encoding Connection Upgrade Expect Accept x-a X-A TE".split()
) | st.text("ab-C_!:( \t\r\n\x00é", min_size=0, max_size=4)
WORDS = ["5", "7", "localhost", "chunked", "gzip", "keep-alive", "close", "h2c", "100-continue", ""]
VALUES = st.sampled_from(WORDS) | st.text("ab5,; \t\r\n\x00\x7fé", max_size=5)
COLONS, ENDS = st.sampled_from([":", ": ", " :", ":\t", ""]), st.sampled_from(["\r\n", "\n", " \r\n"])
LINES = st.lists(st.tuples(NAMES, COLONS, VALUES, ENDS))


@given(st.booleans(), LINES)
@example(is_plain=True, lines=[("", "", "", "\r\n")])
def test_what_is_read_is_what_aiohttp_reads(is_plain: bool, lines: list[tuple[str, str, str, str]]) -> None:
    headers = (PLAIN if is_plain else b"") + "".join("".join(line) for line in lines).encode()
    found = read(headers)
    if found is None:
        return
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        parser = HttpRequestParser(BaseProtocol(loop), loop, 65536)
        # An empty line among them is the end of the head.
        head = (LINE + headers + b"\r\n")[: found[2]]
        ((message, payload),), upgraded, _ = parser.feed_data(head + b"x" * found[1])
    assert list(message.headers.items()) == list(found[0].items())
    assert payload.total_bytes == found[1]
    odd = message.should_close, message.compression, message.upgrade, message.chunked, upgraded
    assert not any(odd)


# ---- the same head again ---------------------------------------------------------------------------------------------

BEFORE = LINE + b"Host: here\r\ncontent-length: "
AFTER = b"\r\nX-Request-Id: one\r\n\r\n"
BODY = b'{"a": 1}' * 20


def known() -> KnownHead[str]:
    data = BEFORE + b"5" + AFTER + b"hello"
    head = read_head(data, len(LINE))
    assert head is not None
    found = to_known(data, head, "route")
    assert found is not None
    return found


@pytest.mark.parametrize("length", [b"5", b"6", b"005", b"12345", b"0", b"9" * 15])
def test_the_head_before_is_known_again_whatever_its_length(length: bytes) -> None:
    data = BEFORE + length + AFTER + BODY
    again, whole = known().read_again(data), read_head(data, len(LINE))
    assert again is not None
    assert whole is not None
    assert again[1:] == whole[1:]
    assert again[0] == whole[0]
    assert again[0]["Content-Length"] == length.decode()


OTHERS = {
    "another line": BEFORE.replace(b"responses", b"messages") + b"5" + AFTER,
    "another host": BEFORE.replace(b"here", b"there") + b"5" + AFTER,
    "another header": BEFORE + b"5" + AFTER.replace(b"one", b"two"),
    "one header more": BEFORE + b"5\r\nTransfer-Encoding: chunked" + AFTER,
    "no length": BEFORE + AFTER,
    "a space behind the length": BEFORE + b"5 " + AFTER,
    "a sign": BEFORE + b"+5" + AFTER,
    "no digits": BEFORE + b"0x5" + AFTER,
    "an endless length": BEFORE + b"9" * 16 + AFTER,
}


@pytest.mark.parametrize("head", OTHERS.values(), ids=OTHERS)
def test_another_head_is_not_the_one_before(head: bytes) -> None:
    assert known().read_again(head + BODY) is None


@pytest.mark.parametrize("size", range(len(BEFORE + b"5" + AFTER)))
def test_a_part_of_the_head_before_is_not_all_of_it(size: int) -> None:
    assert known().read_again((BEFORE + b"5" + AFTER)[:size]) is None


@given(LINES, LINES, st.text("0123456789 ", max_size=17))
def test_what_is_known_again_is_what_would_be_read(
    before: list[tuple[str, str, str, str]], after: list[tuple[str, str, str, str]], length: str
) -> None:
    start, rest = ("".join("".join(line) for line in lines).encode() for lines in (before, after))
    first = LINE + start + b"Host: here\r\nContent-Length: 5\r\n" + rest + b"\r\n"
    head = read_head(first, len(LINE))
    if head is None or (found := to_known(first, head, None)) is None:
        return
    again = found.before + length.encode() + found.after
    known_again = found.read_again(again)
    assert known_again is None or known_again == read_head(again, len(LINE))
