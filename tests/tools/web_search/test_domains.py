"""A search that is limited to domains: their subdomains count, and nothing that only looks like them."""

import pytest

from antiphon.tools.web_search.backends import domains_to_set, is_allowed

DOMAINS = domains_to_set(["Example.com", "https://docs.python.org/3/", "*.gov.uk", ""])


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "http://a.b.example.com:8080/x",
        "https://EXAMPLE.com.",
        "https://docs.python.org",
        "https://x.gov.uk",
    ],
)
def test_a_domain_and_its_subdomains_are_allowed(url: str) -> None:
    assert is_allowed(url, DOMAINS)


@pytest.mark.parametrize(
    "url",
    [
        "https://notexample.com/",
        "https://example.com.evil.net/",
        "https://python.org/",
        "https://evil.net/?u=https://example.com",
        "https://example.com@evil.net/",
        "https://[broken",
        "",
    ],
)
def test_nothing_else_is(url: str) -> None:
    assert not is_allowed(url, DOMAINS)


def test_other_letters_are_the_same_domain_in_both_ways_of_writing_it() -> None:
    assert is_allowed("https://www.xn--mnchen-3ya.de/", domains_to_set(["münchen.de"]))
    assert is_allowed("https://www.münchen.de/", domains_to_set(["xn--mnchen-3ya.de"]))


def test_without_domains_everything_is() -> None:
    assert is_allowed("https://anything.example", frozenset())
