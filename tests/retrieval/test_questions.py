"""The questions of `bench/search`, whose texts are not in the project."""

from collections import Counter

import pytest

from bench.search.corpora import CORPORA


@pytest.mark.parametrize(("name", "each"), [("novel", 40), ("manual", 40), ("german", 12)])
def test_half_of_the_questions_are_in_other_words_and_each_is_about_a_document_of_its_own(name: str, each: int) -> None:
    questions = CORPORA[name].questions()
    assert Counter(question.kind for question in questions) == {"own": each, "other": each}
    assert len({question.document for question in questions}) == len(questions)
