"""Whatever an MCP server's search tool answers with, its results are found."""

import pytest

from antiphon.core.hosted.search_results import SearchResult
from antiphon.tools.web_search.backends import text_to_results

A = SearchResult("https://a.example/1", "First", "About A.")
B = SearchResult("https://b.example/2", "Second", "About B.")


@pytest.mark.parametrize(
    "text",
    [
        '[{"url": "https://a.example/1", "title": "First", "content": "About A."},'
        ' {"url": "https://b.example/2", "title": "Second", "content": "About B."}]',
        '{"query": "x", "web": {"results": [{"link": "https://a.example/1", "name": "First", "snippet": "About A."},'
        ' {"href": "https://b.example/2", "title": "Second", "description": "About <b>B</b>."}]}}',
        "Title: First\nURL: https://a.example/1\nDescription: About A.\n\n"
        "Title: Second\nURL: https://b.example/2\nDescription: About B.",
        "**First**\nhttps://a.example/1\n\nAbout A.\n\n**Second**\nhttps://b.example/2\n\nAbout B.",
    ],
    ids=["rows", "nested rows", "labelled lines", "paragraphs"],
)
def test_results_are_found_in_every_usual_form(text: str) -> None:
    found = text_to_results(text)
    assert [each.url for each in found] == [A.url, B.url]
    assert [each.title.strip("*") for each in found] == [A.title, B.title]
    assert [each.text for each in found] == [A.text, B.text]


def test_each_line_of_a_list_is_a_result() -> None:
    found = text_to_results("Found:\n- [First](https://a.example/1)\n- [Second](https://b.example/2)")
    assert [(each.url, each.title) for each in found] == [(A.url, "First"), (B.url, "Second")]


@pytest.mark.parametrize("text", ["", "  \n", "[]", "{}"])
def test_nothing_is_no_result(text: str) -> None:
    assert text_to_results(text) == []


def test_prose_without_an_address_is_kept() -> None:
    assert text_to_results("Rome is the capital.") == [SearchResult("", "", "Rome is the capital.")]
