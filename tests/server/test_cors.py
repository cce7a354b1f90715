"""Which pages of other origins may use the API, and what browsers are told."""

import pytest

from antiphon.server.request_headers import EXPOSED, CrossOrigin

PAGE = "https://example.com"


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ([], PAGE, False),
        (["*"], PAGE, True),
        (["*"], None, False),
        ([PAGE], PAGE, True),
        ([f"{PAGE}/"], PAGE, True),
        ([PAGE], "https://example.com.evil.example", False),
        ([PAGE], "http://example.com", False),
        ([PAGE], None, False),
    ],
)
def test_a_page_is_allowed_by_its_whole_origin(origins: list[str], origin: str | None, allowed: bool) -> None:
    assert CrossOrigin(origins).allows(origin) is allowed


def test_without_origins_no_answer_has_a_header_about_them() -> None:
    assert CrossOrigin([]).headers(PAGE) == {}


def test_the_answer_for_all_origins_is_the_same_for_each() -> None:
    expected = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": EXPOSED}
    assert CrossOrigin(["*", PAGE]).headers(PAGE) == CrossOrigin(["*"]).headers(None) == expected


def test_an_answer_for_one_origin_is_not_served_to_another_from_a_cache() -> None:
    named = CrossOrigin([PAGE])
    assert named.headers(PAGE) == {
        "Access-Control-Allow-Origin": PAGE,
        "Access-Control-Expose-Headers": EXPOSED,
        "Vary": "Origin",
    }
    for other in (None, "https://other.example"):
        assert named.headers(other) == {"Vary": "Origin"}, other
