"""How well a search finds must not get worse; and the page that says it."""

import pytest
from retrieval.corpus import questions

from bench.retrieval import PAGE, WAYS, filled_index, recall, rewritten

# What was measured, less a question or two.
LEAST = {"words": 0.72, "embeddings (wordllama)": 0.76, "both": 0.82}


async def test_as_many_questions_find_their_document_as_before() -> None:
    async with filled_index() as index:
        found = {way: await recall(index, wanted, questions()) for way, wanted in WAYS.items()}
    assert {way: share for way, share in found.items() if share < LEAST[way]} == {}
    assert found["both"] > max(found["words"], found["embeddings (wordllama)"])


def test_a_table_takes_the_place_of_the_one_before() -> None:
    page = PAGE.read_text(encoding="utf-8")
    once = rewritten(rewritten(page, "recall", "| old |"), "speed", "| speed |")
    twice = rewritten(once, "recall", "| new |")
    assert "| new |" in twice
    assert "| old |" not in twice
    assert "| speed |" in twice
    assert twice.startswith(page.partition("<!-- measured")[0])


def test_a_page_without_a_place_for_a_table_is_left_alone() -> None:
    with pytest.raises(SystemExit):
        rewritten("# A page", "recall", "| new |")
