"""Documents of the request that the model can cite: their texts with numbers, and the place in a document that a number means.

A passage is a few sentences, or a block of content that the client has cut itself. Its number stands in front of it. In the
answer, marks with these numbers are cut out, and each is an annotation that has the passage (`core.stream.citations`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from antiphon.core.stream.citations import without_marks
from antiphon.core.toolbox.prompt_texts import CITE_PASSAGE
from antiphon.patterns import late_pattern

Location = dict[str, Any]

# Characters that a passage has at least, unless its paragraph ends. A long document has longer ones: marks have four digits.
SHORTEST_PASSAGE = 200
MOST_PASSAGES = 1500
_SENTENCE_END = late_pattern(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\s*\n\s*\n\s*")
_PAGE = late_pattern(r"^\[page (\d+)\]$", re.MULTILINE)


class CitablePart(Struct):
    """A part of a message. Only readers of other protocols make it."""

    # "file": its file is in the members that an input_file has.
    form: Literal["text", "blocks", "file", "search_result"]
    # Among the documents of the request, or among its search results; and what these are called.
    index: int
    title: str | None = None
    texts: list[str] = []
    # Of a search result.
    source: str | None = None
    file_id: str | None = None


class Passage(NamedTuple):
    text: str
    location: Location


def citable_to_text(part: CitablePart, text: str, cite: Callable[[Iterable[Location]], int]) -> str:
    """As the model reads it. `text`: of its file. `cite` takes the places of the passages, and says the number of the first."""
    passages = [*_passages(part, text)]
    first = cite(_to_location(part, passage) for passage in passages)
    lines = (f"[{number}] {without_marks(passage.text)}" for number, passage in enumerate(passages, first))
    heading = " ".join(filter(None, (part.title, f"({part.source})" if part.source else None)))
    beginning = f"<document title={_quoted(heading)}>" if heading else "<document>"
    return "\n".join((beginning, *lines, "</document>", CITE_PASSAGE.format(number=first)))


def _quoted(title: str) -> str:
    return '"' + " ".join(title.replace('"', "'").split()) + '"'


def _to_location(part: CitablePart, passage: Passage) -> Location:
    cited = {"cited_text": passage.text}
    if part.form == "search_result":
        about = {"search_result_index": part.index, "source": part.source or "", "title": part.title}
        return {"type": "search_result_location", **cited, **about, **passage.location}
    about = {"document_index": part.index, "document_title": part.title, "file_id": part.file_id}
    return {**passage.location, **cited, **about}


# ---- passages --------------------------------------------------------------------------------------------------------


def _passages(part: CitablePart, text: str) -> Iterator[Passage]:
    match part.form:
        case "blocks" | "search_result":
            kind = {"type": "content_block_location"} if part.form == "blocks" else {}
            for at, block in enumerate(part.texts):
                yield Passage(block, {**kind, "start_block_index": at, "end_block_index": at + 1})
        case "text":
            yield from _of_text("".join(part.texts))
        case "file":
            pages = _PAGE.split(text)
            # A file without pages is a text.
            yield from _of_pages(pages[1::2], pages[2::2]) if len(pages) > 1 else _of_text(text)


def _of_text(text: str) -> Iterator[Passage]:
    for start, end in spans(text):
        yield Passage(text[start:end], {"type": "char_location", "start_char_index": start, "end_char_index": end})


def _of_pages(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Passage]:
    shortest = _shortest(sum(map(len, texts)))
    for number, text in zip(map(int, numbers), texts, strict=True):
        place = {"type": "page_location", "start_page_number": number, "end_page_number": number + 1}
        yield from (Passage(text[start:end], place) for start, end in spans(text, shortest))


def _shortest(length: int) -> int:
    return max(SHORTEST_PASSAGE, length // MOST_PASSAGES)


def spans(text: str, shortest: int = 0) -> Iterator[tuple[int, int]]:
    """Where passages begin and end: at the ends of sentences, and of paragraphs."""
    shortest = shortest or _shortest(len(text))
    start = len(text) - len(text.lstrip())
    for found in _SENTENCE_END.finditer(text, start):
        ends_paragraph = "\n" in found[0]
        if found.start() > start and (ends_paragraph or found.end() - start >= shortest):
            yield start, found.start() if ends_paragraph else _end(text, found)
            start = found.end()
    if rest := text[start:].rstrip():
        yield start, start + len(rest)


def _end(text: str, found: re.Match[str]) -> int:
    """A quotation mark behind the full stop belongs to the sentence."""
    return found.start() + len(found[0].rstrip())
