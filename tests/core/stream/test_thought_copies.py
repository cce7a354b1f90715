"""A thought that arrives twice: whether the second is a copy of the first, however both are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.stream.thought_copies import ThoughtCopy


@pytest.mark.parametrize("piece", [1, 2, 5, 100])
def test_a_copy_is_whole_when_all_of_it_has_come(piece: int) -> None:
    thought = "I need the weather."
    copy = ThoughtCopy(thought)
    for at in range(0, len(thought), piece):
        assert not copy.is_whole
        copy.second(thought[at : at + piece])
        assert not copy.differs
    assert copy.is_whole
    assert copy.withheld == thought


def test_white_space_around_either_does_not_count() -> None:
    copy = ThoughtCopy("\n I need it.\n\n")
    for piece in ("  ", "I need", " it.", "\n"):
        copy.second(piece)
    assert copy.is_whole


def test_another_text_differs_and_all_of_it_can_be_shown() -> None:
    copy = ThoughtCopy("I need the weather.", withheld="<think>")
    copy.second("I need ")
    copy.second("nothing.")
    copy.withhold("</think>")
    copy.follow("\n\n")
    assert copy.differs
    assert not copy.is_whole
    assert (copy.withheld, copy.space) == ("<think>I need nothing.</think>\n\n", "\n\n")
    assert copy.surplus == ""


def test_the_second_may_be_ahead_of_the_first() -> None:
    copy = ThoughtCopy("")
    assert copy.is_blank
    copy.second("I need the")
    assert (copy.second_has_more, copy.is_whole, copy.is_blank, copy.surplus) == (True, False, False, "I need the")
    copy.first("I need")
    assert copy.surplus == " the"
    copy.first(" the")
    assert (copy.second_has_more, copy.is_whole, copy.surplus) == (False, True, "")


@given(st.text(alphabet="ab \n", max_size=12), st.text(alphabet="ab \n", max_size=12), st.data())
def test_any_order_and_any_split_gives_the_same(first: str, second: str, data: st.DataObject) -> None:
    copy, left = ThoughtCopy(""), {"first": first, "second": second}
    while any(left.values()):
        name = data.draw(st.sampled_from([name for name, text in left.items() if text]))
        size = data.draw(st.integers(1, len(left[name])))
        getattr(copy, name)(left[name][:size])
        left[name] = left[name][size:]
    assert copy.is_whole is (first.strip() == second.strip())
    assert copy.withheld == second
