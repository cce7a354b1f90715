"""Where the arguments of a call end: the same answer as decoding all of them after each piece, without reading any twice."""

from typing import SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.partial_json import ObjectEnd, is_json_object

ARGUMENTS = [
    "{}",
    " {} ",
    '{"a": "}"}\n',
    '{"a": "\\"}", "b": [{}, {"c": 1}]}',
    '{"a": 1}}',
    "{}{}",
    "{} x",
    "[]",
    "}",
    '"{}"',
    '{"a": 1,}',
    "{'a'}",
    "x{}",
    "",
]


@pytest.mark.parametrize("text", ARGUMENTS)
def test_it_is_known_after_every_piece_whether_the_object_is_whole(text: str) -> None:
    for size in (1, 2, 3, 100):
        end, pieces = ObjectEnd(), list[str]()
        for at in range(0, len(text), size):
            pieces.append(text[at : at + size])
            assert end.is_reached(pieces) is is_json_object("".join(pieces)), pieces


@given(st.lists(st.text(alphabet='{}[]":, \\a1\n', max_size=4), max_size=30))
def test_any_pieces_give_the_same_as_all_of_them_decoded(pieces: list[str]) -> None:
    end = ObjectEnd()
    for at in range(len(pieces) + 1):
        assert end.is_reached(pieces[:at]) is is_json_object("".join(pieces[:at]))


class CountedPieces(list[str]):
    read = 0

    def __getitem__(self, at: SupportsIndex | slice) -> str | list[str]:  # type: ignore[override]
        self.read += 1 if not isinstance(at, slice) else len(range(*at.indices(len(self))))
        return super().__getitem__(at)


def test_no_piece_is_read_more_than_twice() -> None:
    """Once as it comes, and once when the whole is decoded."""
    end, pieces = ObjectEnd(), CountedPieces()
    for piece in ['{"a": "', *["}"] * 1000, '"}', *[" "] * 1000]:
        pieces.append(piece)
        end.is_reached(pieces)
    assert end.is_reached(pieces)
    assert pieces.read <= 2 * len(pieces)
