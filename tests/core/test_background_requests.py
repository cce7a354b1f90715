"""Which bodies ask for a background response."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.background_requests import asks_for_background, may_ask_for_background


@given(st.sets(st.integers(0, len("background") - 1)))
def test_a_name_with_escaped_characters_is_found_without_reading_the_body(escaped: set[int]) -> None:
    written = (f"\\u{ord(letter):04x}" if at in escaped else letter for at, letter in enumerate("background"))
    body = f'{{"input": "Hi", "{"".join(written)}": true}}'.encode()
    assert asks_for_background(body)
    assert may_ask_for_background(body)


@pytest.mark.parametrize("body", [{"input": "Hi"}, {"input": "Ä\n\u2028 C:\\users", "stream": True}, {"input": "\x07"}])
def test_what_does_not_have_the_name_does_not_ask_for_it(body: dict[str, object]) -> None:
    assert not asks_for_background(json.dumps(body).encode())


def test_most_bodies_need_not_be_read_for_it() -> None:
    assert not may_ask_for_background(json.dumps({"input": "Ä " * 10_000, "stream": True}, ensure_ascii=False).encode())
