"""Numbers of things, as messages have them."""

import pytest

from antiphon.errors import allowed, counted


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (2, "2 bytes"), (67108864, "67108864 bytes"), (1.0, "1 byte"), (0.5, "0.5 bytes")],
)
def test_one_thing_is_in_the_singular(number: float, words: str) -> None:
    assert counted(number, "byte") == words


def test_one_thing_is_allowed_and_others_are() -> None:
    assert [allowed(number, "tool") for number in (0, 1, 2)] == [
        "0 tools are allowed",
        "1 tool is allowed",
        "2 tools are allowed",
    ]
