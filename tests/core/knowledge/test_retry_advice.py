"""What engines say about another attempt, in every form in which servers say it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.knowledge.retry_advice import LONGEST_RETRY_AFTER, RetryAdvice, headers_to_advice

# Sun, 06 Nov 1994 08:49:37 GMT
NOW = 784111777.0

AFTER: dict[str, tuple[dict[str, str], float | None]] = {
    "nothing": ({}, None),
    "seconds": ({"Retry-After": "7"}, 7.0),
    "none": ({"Retry-After": "0"}, 0.0),
    "a fraction": ({"Retry-After": "0.25"}, 0.25),
    "white space": ({"Retry-After": " 7 "}, 7.0),
    "negative": ({"Retry-After": "-5"}, 0.0),
    "huge": ({"Retry-After": "9" * 400}, LONGEST_RETRY_AFTER),
    "inf": ({"Retry-After": "inf"}, LONGEST_RETRY_AFTER),
    "-inf": ({"Retry-After": "-inf"}, 0.0),
    "nan": ({"Retry-After": "nan"}, None),
    "words": ({"Retry-After": "soon"}, None),
    "a date": ({"Retry-After": "Sun, 06 Nov 1994 08:50:37 GMT"}, 60.0),
    "a date in another zone": ({"Retry-After": "Sun, 06 Nov 1994 09:50:37 +0100"}, 60.0),
    "a date without a zone": ({"Retry-After": "Sun, 06 Nov 1994 08:50:37 -0000"}, 60.0),
    "an old form of a date": ({"Retry-After": "Sunday, 06-Nov-94 08:50:37 GMT"}, 60.0),
    "a date that is over": ({"Retry-After": "Sun, 06 Nov 1994 08:00:00 GMT"}, 0.0),
    "a far date": ({"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST_RETRY_AFTER),
    "no such date": ({"Retry-After": "Sun, 06 Nox 1994 08:50:37 GMT"}, None),
    "a date by a clock that is wrong": (
        {"Retry-After": "Tue, 01 Jan 2030 00:01:00 GMT", "Date": "Tue, 01 Jan 2030 00:00:00 GMT"},
        60.0,
    ),
    "milliseconds": ({"retry-after-ms": "1500"}, 1.5),
    "milliseconds count more": ({"retry-after-ms": "1500", "Retry-After": "60"}, 1.5),
    "milliseconds that are none": ({"retry-after-ms": "x", "Retry-After": "60"}, 60.0),
    "infinitely many milliseconds": ({"retry-after-ms": "inf"}, LONGEST_RETRY_AFTER),
}


@pytest.mark.parametrize("name", AFTER)
def test_a_wait_is_read_in_every_form_and_limited(name: str) -> None:
    headers, after = AFTER[name]
    assert headers_to_advice(headers, NOW) == RetryAdvice(after)


@pytest.mark.parametrize(("word", "wanted"), [("true", True), ("FALSE", False), ("maybe", None), ("", None)])
def test_whether_another_attempt_is_wanted_is_read(word: str, wanted: bool | None) -> None:
    assert headers_to_advice({"x-should-retry": word}, NOW) == RetryAdvice(None, wanted)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_header_can_do_harm(after: str, milliseconds: str, date: str) -> None:
    advice = headers_to_advice({"Retry-After": after, "retry-after-ms": milliseconds, "Date": date}, NOW)
    assert advice.after is None or 0 <= advice.after <= LONGEST_RETRY_AFTER
