"""Which requests are for a background response."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.background_requests import asks_for_background, may_ask_for_background

NAME = "background"
VALUES = st.one_of(st.booleans(), st.none(), st.text(), st.lists(st.text()))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Objects in JSON, some letters of whose names are written as escapes."""
    members: dict[str, Any] = draw(st.dictionaries(st.one_of(st.just(NAME), st.text()), VALUES))
    body = json.dumps(members, ensure_ascii=draw(st.booleans()))
    for letter in draw(st.sets(st.sampled_from(NAME))):
        body = body.replace(letter, f"\\u{ord(letter):04x}") if draw(st.booleans()) and f'"{NAME}' in body else body
    return body.encode(errors="surrogatepass")


@given(bodies())
def test_a_request_that_asks_for_it_is_never_taken_for_one_that_does_not(body: bytes) -> None:
    assert may_ask_for_background(body) or not asks_for_background(body)


@pytest.mark.parametrize("name", [NAME, "\\u0062ackground", "b\\u0061ckgroun\\u0064"])
def test_the_name_may_be_written_as_escapes(name: str) -> None:
    body = b'{"%s": true}' % name.encode()
    assert asks_for_background(body)
    assert may_ask_for_background(body)


def test_most_requests_need_not_be_read_for_it() -> None:
    assert not may_ask_for_background(b'{"model": "m", "input": "A question\\nin two lines", "stream": true}')
