"""The values of labels: few, short, and no secrets."""

import pytest

from antiphon.gateway.usage.model_names import LONGEST, LabelValues
from antiphon.ids import hash_of_key
from antiphon.server.metrics.instruments import owner_to_label


def test_the_first_values_have_a_label_each_and_the_rest_share_one() -> None:
    values = LabelValues(most=2)
    assert [values.of(value) for value in ("a", "b", "c", "d", "a")] == ["a", "b", "other", "other", "a"]


def test_a_long_value_is_cut_and_one_that_cannot_be_encoded_is_made_so() -> None:
    values = LabelValues()
    assert len(values.of("x" * 1000)) == LONGEST
    assert values.of("\ud800") == "?"


@pytest.mark.parametrize(
    ("owner", "label"), [("", "none"), ("ada", "ada"), ("admin", "admin"), (hash_of_key(b"sk-secret"), "unnamed")]
)
def test_a_key_is_shown_by_its_name(owner: str, label: str) -> None:
    assert owner_to_label(owner) == label
