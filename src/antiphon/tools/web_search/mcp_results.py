"""Results from the text of an MCP server's search tool. Each server has its own form: JSON, blocks of lines, or prose."""

import re
from collections.abc import Iterator
from itertools import islice

from antiphon.core.hosted.search_results import SearchResult, clean
from antiphon.tools.mcp_search import LONGEST_TEXT, MOST_ROWS, Row, first_text, rows_in, text_to_value

URLS = ("url", "link", "href", "uri")
TITLES = ("title", "name", "heading")
TEXTS = ("text", "content", "snippet", "description", "body", "summary")

_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")
_URL = re.compile(r"https?://[^\s<>\"'`\]]+")
_LABEL = re.compile(r"^\W*(?:title|url|link|description|snippet|content|text|summary|published)\W*:\s*", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\((https?://[^)\s]+)\)")


def text_to_results(text: str) -> list[SearchResult]:
    """What has no address cannot be cited; if nothing has one, all of the text is one result without a link."""
    text = text.strip()
    value = text_to_value(text)
    if value in ([], {}):
        return []
    text = text[:LONGEST_TEXT]
    rows = islice(rows_in(value, _has_address), MOST_ROWS)
    results = [_row_to_result(row) for row in rows] or list(_blocks_to_results(text))
    return results or ([SearchResult("", "", text)] if text else [])


def _has_address(row: Row) -> bool:
    return first_text(row, URLS).startswith(("http://", "https://"))


def _row_to_result(row: Row) -> SearchResult:
    return SearchResult(first_text(row, URLS), clean(first_text(row, TITLES)), clean(first_text(row, TEXTS)))


def _blocks_to_results(text: str) -> Iterator[SearchResult]:
    """A block is a paragraph with an address, and those after it that have none. In a list, each line is one."""
    found: tuple[str, list[str]] | None = None
    for paragraph in _paragraphs(text):
        address = _URL.search(paragraph)
        if address is not None:
            if found is not None:
                yield _block_to_result(*found)
            found = address[0].rstrip(".,;:)"), [paragraph]
        elif found is not None:
            found[1].append(paragraph)
    if found is not None:
        yield _block_to_result(*found)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in _EMPTY_LINE.split(text):
        lines = paragraph.splitlines()
        with_address = sum(_URL.search(line) is not None for line in lines)
        yield from lines if with_address > 1 else (paragraph,)


def _block_to_result(url: str, paragraphs: list[str]) -> SearchResult:
    text = "\n".join(paragraphs)
    link = _LINK.search(text)
    lines = [clean(_LABEL.sub("", line)) for line in text.splitlines() if url not in line]
    lines = [line for line in lines if line]
    title = clean(link[1]) if link is not None else lines.pop(0) if lines else ""
    return SearchResult(url, title, " ".join(lines))
