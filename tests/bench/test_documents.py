"""The comparison of readers of documents: its list, its scores, and its page."""

import sys
from pathlib import Path

import pytest
from support.office_files import MADE

from bench.documents import (
    KINDS,
    OURS,
    PAGE,
    PARTS,
    Document,
    Reading,
    documents,
    found_table,
    hostile,
    origins_table,
    parts_table,
    read,
    rewritten,
    score,
    words,
)

SEEN = Document(package="npm:some@1", path="a/b.docx", text=("One two",), tables=("three four",), beside=("a footer",))


def test_every_document_has_a_kind_a_name_of_its_own_and_words() -> None:
    listed = documents()
    assert len({document.name for document in listed}) == len(listed)
    assert {document.kind for document in listed} == set(KINDS)
    assert all(any(getattr(document, part) for part in PARTS) for document in listed)
    assert len([document for document in listed if document.package.startswith(("npm:", "pypi:"))]) >= 20
    assert {document.path for document in listed if document.package == "tests"} <= set(MADE)


def test_markup_is_no_word() -> None:
    assert words("**Bro***w*n  first\\_name | ﬁt") == ["brown", "first_name", "fit"]


def test_words_are_counted_and_their_order_is() -> None:
    assert score(SEEN, "one two three four, a footer") == score(SEEN, "A footer. One | two\nthree | four")
    whole, half = score(SEEN, "one two three four a footer"), score(SEEN, "three four one two")
    assert (whole.found, whole.in_order) == (1, 1)
    assert half.found == pytest.approx(4 / 6)
    assert half.in_order == 0.5


def test_our_reader_finds_all_words_of_the_documents_of_the_tests(tmp_path: Path) -> None:
    for document in documents():
        if document.package == "tests":
            path = tmp_path / document.path
            path.write_bytes(MADE[document.path]())
            reading = read(OURS, sys.executable, path)
            assert (document.path, score(document, reading.text).found, reading.problem) == (document.path, 1, None)
            assert reading.memory > 0


def test_a_reader_that_dies_has_a_problem(tmp_path: Path) -> None:
    assert read("unknown", sys.executable, tmp_path / "a.docx").problem == "the process died"


def test_a_table_has_a_row_for_each_kind_and_for_all() -> None:
    readings = {
        "one": {SEEN: Reading("one two three four a footer", None, 0, 0, 1)},
        "other": {SEEN: Reading("", "damaged", 0, 0, 1)},
    }
    unseen = {
        reader: {**of, Document("p", "c.rtf", text=("x",), is_unseen=True): Reading("x", None, 0, 0, 1)}
        for reader, of in readings.items()
    }
    rows = found_table(unseen).splitlines()
    assert rows[2:4] == ["| Word | 1 | 100%, 100% | not read |", "| RTF | 1 | 100%, 100% | 100%, 100% |"]
    assert rows[-1].startswith("| of these, chosen last | 1 |")
    drawn = Document("p", "d.pptx", text=("x",), tables=("x",), beside=("x",), drawn=("x",))
    assert "| text | 1 | 100% |" in parts_table({"one": {drawn: Reading("x", None, 0, 0, 1)}})


def test_hostile_files_are_of_the_kinds_that_are_read() -> None:
    assert all(
        name.endswith(tuple(ending for endings in KINDS.values() for ending in endings)) for name, _ in hostile().values()
    )


def test_the_page_has_a_place_for_each_table_and_lists_every_package() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for part in ("found", "parts", "cost", "hostile", "machine", "origins"):
        assert "| new |" in rewritten(page, part, "| new |")
    assert origins_table() in page
    with pytest.raises(SystemExit):
        rewritten("# A page", "found", "| new |")
