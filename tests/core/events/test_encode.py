"""Frames out of bytes, however they are split."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.stream.frames import LARGEST_FRAME, FrameReader
from antiphon.errors import EngineDisagrees

# Each case is read whole, byte by byte, and with the bytes of a next frame behind it.
CASES = {
    "one frame": (b"data: a\n\n", [b"a"]),
    "no space after the colon": (b"data:a\n\n", [b"a"]),
    "two frames": (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    "several lines of data": (b"data: a\ndata: b\n\n", [b"a\nb"]),
    "comments are pings": (b": ping\n\ndata: a\n\n:\n\n", [b"a"]),
    "other fields": (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
    "carriage returns": (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [b"a", b"b", b"c"]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "blank lines before the first frame": (b"\n\r\n\ndata: a\n\n", [b"a"]),
    "an empty frame is a ping": (b"data:\n\ndata: \n\ndata: a\n\n", [b"a"]),
    "an empty frame among plain ones": (b"data: a\n\ndata: \n\ndata: b\n\n", [b"a", b"b"]),
    "white space and unknown fields": (b" \nx-odd: 1\nodd\ndata: a\n\n", [b"a"]),
    "the end without its field": (b"data: a\n\n[DONE]\n\n", [b"a", b"[DONE]"]),
    "a page": (b"data: a\n\n<html>\n", [b"a", b"<html>"]),
    "garbage": (b"data: a\n\n\x00\xff\xfe\n", [b"a", b"\x00\xff\xfe"]),
}


def read(pieces: list[bytes]) -> list[bytes]:
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.receive(piece)] + reader.close()


@pytest.mark.parametrize("name", CASES)
def test_a_frame_is_read_whole_and_in_single_bytes_and_with_more_behind_it(name: str) -> None:
    raw, frames = CASES[name]
    assert read([raw]) == frames
    assert read([raw[at : at + 1] for at in range(len(raw))]) == frames
    assert read([raw + b"data: z\n\n"]) == [*frames, b"z"]


@given(st.lists(st.sampled_from([raw for raw, _ in CASES.values()])), st.lists(st.integers(0, 200)))
def test_any_split_gives_the_same_frames(raws: list[bytes], cuts: list[int]) -> None:
    raw = b"data: first\n\n" + b"".join(raws)
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    assert read([raw[a:b] for a, b in itertools.pairwise(edges)]) == read([raw])


def test_a_last_frame_without_its_blank_line_is_read_at_the_end() -> None:
    assert read([b"data: a\n\ndata: b"]) == [b"a", b"b"]


def test_a_json_document_in_place_of_a_stream_is_one_frame() -> None:
    assert read([b' {"error":\n', b"\n1}"]) == [b'{"error":\n\n1}']


def test_a_line_that_no_event_stream_has_is_a_frame_at_once() -> None:
    reader = FrameReader()
    assert reader.receive(b"data: a\n\n502 Bad Gateway\n") == [b"a", b"502 Bad Gateway"]


def test_a_long_line_is_copied_once_however_many_pieces_it_has() -> None:
    reader = FrameReader()
    reader.receive(b"data: ")
    for _ in range(1000):
        assert reader.receive(b"x" * 100) == []
    assert [len(piece) for piece in reader._rest] == [6, *[100] * 1000]
    assert reader.receive(b"\n\n") == [b"x" * 100_000]


def test_a_frame_without_an_end_is_given_up() -> None:
    reader = FrameReader()
    reader.receive(b"data: " + b"x" * (LARGEST_FRAME - 10))
    with pytest.raises(EngineDisagrees):
        reader.receive(b"x" * LARGEST_FRAME)


def test_white_space_without_an_end_is_given_up_too() -> None:
    reader = FrameReader()
    assert reader.receive(b" " * LARGEST_FRAME) == []
    with pytest.raises(EngineDisagrees):
        reader.receive(b"\n")
