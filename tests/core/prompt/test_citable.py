"""Passages of documents that can be cited, and where they are."""

import pytest

from antiphon.core.prompt.citable import MOST_PASSAGES, SHORTEST_PASSAGE, CitablePart, citable_to_text, spans
from antiphon.core.prompt.documents import Documents
from antiphon.core.stream.citations import DocumentSource, FileSource, Sources

SENTENCE = "It was so, and nobody had ever seen it any other way. "
LONG = SENTENCE * 40


TEXTS = (
    *("", "  ", "One.", "  One.\n\n\nTwo!  ", "No end", LONG, "。".join(["長い文章です" * 20] * 5)),
    *('He said: "No." ' * 30, "a\n\nb\n\n" * 3, "\n\nx"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_passages_are_all_of_a_text_and_nothing_else(text: str) -> None:
    found = list(spans(text))
    assert all(start < end for start, end in found)
    assert [end for _, end in found[:-1]] <= [start for start, _ in found[1:]]
    shown = "".join(text[start:end] for start, end in found)
    assert "".join(shown.split()) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() for start, end in found)


def test_a_passage_has_a_few_sentences_and_ends_with_a_paragraph() -> None:
    found = [LONG[start:end] for start, end in spans(LONG)]
    assert all(SHORTEST_PASSAGE - len(SENTENCE) < len(each) < SHORTEST_PASSAGE + len(SENTENCE) for each in found[:-1])
    assert all(each.endswith(".") for each in found)
    assert [start for start, _ in spans("Short.\n\nTitle\n\nAnother one.")] == [0, 8, 15]


def test_a_long_text_has_no_more_passages_than_marks_have_numbers() -> None:
    assert len(list(spans(SENTENCE * 20_000))) <= MOST_PASSAGES


def test_a_file_is_read_page_by_page_or_as_a_text() -> None:
    documents = Documents()
    part = CitablePart("file", 2, "T", file_id="file-1")
    assert "[1] One.\n[2] Two." in citable_to_text(part, "[page 1]\nOne.\n\n[page 2]\nTwo.", documents.cite)
    assert "[3] Three." in citable_to_text(part, "Three.", documents.cite)
    places = [(each.location["type"], each.location.get("start_page_number")) for each in documents.cited]
    assert places == [("page_location", 1), ("page_location", 2), ("char_location", None)]
    assert {(each.location["document_index"], each.location["file_id"]) for each in documents.cited} == {(2, "file-1")}


def test_numbers_of_documents_and_of_what_tools_find_exclude_one_another() -> None:
    sources, passages = Sources(), [DocumentSource(number, {"at": number}) for number in (1, 2)]
    assert not sources
    sources.set_documents(passages)
    assert sources
    assert sources.add([FileSource(0, "f", "f.txt")]) == 3
    # The prompt is made again for the next answer: what it has is what can be cited.
    sources.set_documents(passages[:1])
    assert [sources.get(number) for number in (1, 2)] == [passages[0], None]
    assert sources.add([FileSource(0, "g", "g.txt")]) == 4
