"""Words in a page: found whatever their letters and lines are, and with what is around them."""

from antiphon.tools.web_search.runner import AROUND, MOST_FOUND, _passages


def test_words_are_found_over_the_end_of_a_line_and_with_other_letters() -> None:
    (passage,) = _passages("before\nThe Capital\nof Italy is Rome.", "the  CAPITAL of italy")
    assert passage == "… before\nThe Capital\nof Italy is Rome. …"


def test_places_that_are_close_are_one_passage_and_others_are_not() -> None:
    far = "x" * 3 * AROUND
    assert len(list(_passages(f"Rome and Rome {far} Rome", "rome"))) == 2


def test_only_a_few_places_are_shown() -> None:
    far = "x" * 3 * AROUND
    assert len(list(_passages(f"Rome {far} " * 50, "rome"))) == MOST_FOUND


def test_letters_that_are_longer_as_small_ones_move_nothing() -> None:
    text = "İ" * 1000 + " Rome is here"
    (passage,) = _passages(text, "Rome")
    assert passage.endswith("Rome is here …")


def test_nothing_is_found_where_there_is_nothing() -> None:
    assert list(_passages("", "x")) == []
    assert list(_passages("abc", "x")) == []
