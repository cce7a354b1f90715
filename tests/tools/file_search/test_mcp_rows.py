"""Passages from the answers of MCP servers, each of which has a form of its own."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.hosted.search_results import FileResult
from antiphon.tools.file_search.runner import text_to_results


@pytest.mark.parametrize(
    ("answered", "found"),
    [
        ([], []),
        ({}, []),
        ([{"file_id": "f", "filename": "a.txt", "text": "A", "score": 1}], [FileResult("f", "a.txt", "A", 1.0)]),
        ({"hits": [{"doc": {"path": "docs/a.md", "snippet": "A"}}]}, [FileResult("docs/a.md", "docs/a.md", "A")]),
        ([{"title": "a.txt", "content": "A", "score": True}], [FileResult("a.txt", "a.txt", "A")]),
        (
            [{"id": "f", "body": "A", "similarity": 0.5, "attributes": {"year": 1}}],
            [FileResult("f", "f", "A", 0.5, {"year": 1})],
        ),
        ([{"id": "f", "text": ""}, {"text": "no file"}], [FileResult("", "", '[{"id":"f","text":""},{"text":"no file"}]')]),
    ],
)
def test_rows_are_found_wherever_they_are(answered: Any, found: list[FileResult]) -> None:
    assert text_to_results(msgspec.json.encode(answered).decode()) == found


def test_any_other_text_is_one_passage_without_a_file() -> None:
    assert text_to_results("  Rome is old.\n") == [FileResult("", "", "Rome is old.")]
    assert text_to_results("\n") == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "text", "score", "attributes", "results", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(json_values)
def test_no_answer_breaks_it(answered: Any) -> None:
    for each in text_to_results(msgspec.json.encode(answered).decode()):
        assert each.text
