"""Pieces of answers come out as they went in, however little is kept of them."""

from hypothesis import given
from hypothesis import strategies as st
from support.engine import chunk, text

from antiphon.core.recording.recording import LONGEST_COMPARED, MOST_LOOKS, ReceivedPieces, shared_end, shared_start

# Frames that are alike, and anything else between them.
TEXTS = st.text(max_size=6)
FRAMES = st.builds(lambda delta, name: chunk({name: delta}), TEXTS, st.sampled_from(["content", "reasoning_content"]))
CUT = st.builds(lambda frame, start, end: frame[start:-end], FRAMES, st.integers(0, 150), st.integers(1, 60))
PIECES = st.lists(st.one_of(FRAMES, FRAMES, CUT, st.binary(max_size=20), st.builds(bytes.__mul__, FRAMES, st.integers(0, 3))))


@given(PIECES, st.integers(-3, 12), st.integers(-3, 12))
def test_they_come_out_as_they_went_in(pieces: list[bytes], start: int, end: int) -> None:
    received = ReceivedPieces(pieces)
    assert [*received] == received.copy()[:] == pieces
    assert len(received) == len(pieces)
    assert received[start:end] == pieces[start:end]
    if pieces:
        assert received[-1] == pieces[-1]
    del received[2:]
    assert [*received] == pieces[:2]


@given(st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=40))
def test_what_is_kept_of_a_copy_does_not_change(deltas: list[tuple[str, bool]]) -> None:
    received = ReceivedPieces()
    for delta, copied in deltas:
        received.append(chunk({"content": delta}))
        if copied:
            before = [*received]
            received = received.copy()
            assert [*received] == before


@given(st.binary(max_size=8), st.binary(max_size=4), st.binary(max_size=4))
def test_what_two_pieces_begin_and_end_with(same: bytes, one: bytes, other: bytes) -> None:
    start, end = shared_start(same + one, same + other), shared_end(one + same, other + same)
    assert (same + one).startswith(start)
    assert (same + other).startswith(start)
    assert same + one == start or same + other == start or (same + one)[len(start)] != (same + other)[len(start)]
    assert (one + same).endswith(end)
    assert (other + same).endswith(end)
    assert one + same == end or other + same == end or (one + same)[-len(end) - 1] != (other + same)[-len(end) - 1]


def test_only_the_texts_of_deltas_are_kept() -> None:
    words = [f"w{number} " for number in range(500)]
    received = ReceivedPieces(chunk({"content": word}) for word in words)
    whole = len(chunk({"content": ""}))
    assert received.kept(0) < len("".join(words)) + 8 * whole
    assert received.kept(400) <= len("".join(words[400:]))


def test_reasoning_and_text_are_both_kept_short() -> None:
    deltas = [
        *({"reasoning_content": str(number)} for number in range(100)),
        *({"content": str(number)} for number in range(100)),
    ]
    received = ReceivedPieces([*map(chunk, deltas), text("end")])
    assert received.kept(0) < 12 * len(chunk(deltas[0])) + len(text("end"))


def test_the_first_piece_that_is_unlike_the_others_is_not_compared() -> None:
    """It is mostly the last one."""
    received = ReceivedPieces([chunk({"content": str(number)}) for number in range(10)])
    before = received._looks
    received.append(text("end"))
    assert received._looks == before
    received.append(chunk({"reasoning_content": "next"}))
    assert received._looks == before + 1


def test_a_piece_that_is_compared_is_kept_short_itself() -> None:
    one, other = chunk({"content": "one"}), chunk({"content": "other"})
    received = ReceivedPieces([one, other])
    assert received.kept(0) < len(one) + len("other")
    assert [*received] == [one, other]


def test_pieces_that_are_never_alike_are_not_compared_for_ever() -> None:
    received = ReceivedPieces(f"{number} {'x' * 100} {number}".encode() for number in range(1000))
    assert received._looks == MOST_LOOKS


def test_long_pieces_are_not_compared() -> None:
    long = b"x" * (LONGEST_COMPARED + 1)
    received = ReceivedPieces([long, long, b"short", long])
    assert received._looks == 0
    assert received.kept(0) == 3 * len(long) + len(b"short")
