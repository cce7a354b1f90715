"""BM25, and that both rankings by words give what they gave when each had its own."""

import pytest

from antiphon.core.toolbox.word_ranking import damping, rarity, scores, words_of
from antiphon.files.vector_stores.search.words import level_of, terms_of_text


def test_a_rare_word_weighs_more_and_none_weighs_nothing() -> None:
    assert rarity(1, 100) > rarity(50, 100) > rarity(100, 100) > 0


def test_a_count_that_is_out_of_date_weighs_as_one_that_all_texts_have() -> None:
    assert 0 < rarity(101, 100) < rarity(100, 100)


def test_a_text_of_the_usual_length_is_damped_by_the_saturation_alone() -> None:
    assert damping(0.5) < damping(1.0) == 1.2 < damping(2.0)


def test_tools_have_the_scores_that_they_have_always_had() -> None:
    texts = ["get the weather of a city", "get the time", "send an email to a customer, then another email", "delete a file"]
    found = scores("get an email about the weather", [words_of(text) for text in texts])
    assert found == pytest.approx([1.8971199848858813, 0.8025914722273051, 1.3940737734300315, 0], rel=1e-15)


@pytest.mark.parametrize(
    ("times", "others", "level"), [(1, 0, 4), (1, 399, 2), (1, 2_000, 1), (2, 398, 3), (6, 394, 5), (8, 3_000, 3), (400, 0, 5)]
)
def test_the_index_of_a_store_is_as_it_has_always_been(times: int, others: int, level: int) -> None:
    """A chunk is removed by the terms with which it was added, perhaps by an earlier version."""
    words = ["pump"] * times + [f"word{number}" for number in range(others)]
    assert level_of(terms_of_text("vs_1", " ".join(words))[0]) == level
    assert terms_of_text("vs_1", "pump valve") == [6924577982140486564, -8765765920317682348]
