"""Filters over the attributes of files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.hosted.attribute_filters import DEEPEST, MOST_FILTERS, MOST_VALUES, matches, read_filter
from antiphon.errors import InvalidRequest

ATTRIBUTES = {"year": 2026, "price": 2.5, "author": "Ada", "draft": True}


def is_matched(type: str, key: str, value: Any) -> bool:
    return matches(read_filter({"type": type, "key": key, "value": value}), ATTRIBUTES)


@pytest.mark.parametrize(
    ("type", "key", "value"),
    [
        ("eq", "year", 2026),
        ("eq", "year", 2026.0),
        ("eq", "draft", True),
        ("ne", "author", "Bob"),
        ("gt", "year", 2025.5),
        ("gte", "price", 2.5),
        ("lt", "author", "Bob"),
        ("lte", "year", 2026),
        ("in", "author", ["Ada", "Bob"]),
        ("nin", "year", [2024, 2025]),
    ],
)
def test_a_comparison_matches(type: str, key: str, value: Any) -> None:
    assert is_matched(type, key, value)


@pytest.mark.parametrize(
    ("type", "key", "value"),
    [
        ("eq", "year", "2026"),
        ("eq", "draft", 1),
        ("eq", "draft", "true"),
        ("gt", "year", "2025"),
        ("lt", "author", 5),
        ("gt", "draft", False),
        ("in", "year", ["2026"]),
        ("in", "draft", [1]),
        ("gt", "none", 0),
        ("eq", "none", ""),
        ("in", "year", []),
    ],
)
def test_values_of_different_kinds_do_not_match(type: str, key: str, value: Any) -> None:
    assert not is_matched(type, key, value)


def test_what_is_missing_or_of_another_kind_is_not_equal() -> None:
    assert is_matched("ne", "none", 5)
    assert is_matched("nin", "none", [5])
    assert is_matched("ne", "year", "2026")


def test_no_filter_matches_everything() -> None:
    assert matches(None, {})


def nested(depth: int) -> dict[str, Any]:
    filter: dict[str, Any] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(depth - 1):
        filter = {"type": "and", "filters": [filter]}
    return filter


@pytest.mark.parametrize(
    ("filter", "param", "code"),
    [
        ("year", "filters", "invalid_type"),
        ({}, "filters.type", "missing_required_parameter"),
        ({"type": "like", "key": "a", "value": "b"}, "filters.type", "invalid_value"),
        ({"type": ["eq"]}, "filters.type", "invalid_value"),
        ({"type": "eq", "value": 1}, "filters.key", "missing_required_parameter"),
        ({"type": "eq", "key": 1, "value": 1}, "filters.key", "invalid_type"),
        ({"type": "eq", "key": "a"}, "filters.value", "missing_required_parameter"),
        ({"type": "eq", "key": "a", "value": None}, "filters.value", "invalid_type"),
        ({"type": "eq", "key": "a", "value": [1]}, "filters.value", "invalid_type"),
        ({"type": "in", "key": "a", "value": 1}, "filters.value", "invalid_type"),
        ({"type": "in", "key": "a", "value": [1, {}]}, "filters.value[1]", "invalid_type"),
        ({"type": "in", "key": "a", "value": [1] * (MOST_VALUES + 1)}, "filters.value", "array_above_max_length"),
        ({"type": "and"}, "filters.filters", "missing_required_parameter"),
        ({"type": "and", "filters": {}}, "filters.filters", "invalid_type"),
        ({"type": "or", "filters": []}, "filters.filters", "empty_array"),
        ({"type": "eq", "key": "a", "value": 1, "values": 2}, "filters.values", "unknown_parameter"),
        (
            {"type": "or", "filters": [nested(1), {"type": "and", "filters": [{"type": "eq", "key": "a"}]}]},
            "filters.filters[1].filters[0].value",
            "missing_required_parameter",
        ),
        (
            {"type": "or", "filters": [nested(1)] * MOST_FILTERS},
            f"filters.filters[{MOST_FILTERS - 1}]",
            "array_above_max_length",
        ),
        (nested(DEEPEST + 1), "filters" + ".filters[0]" * DEEPEST, "json_above_max_depth"),
    ],
)
def test_a_filter_that_is_wrong_is_refused_with_its_path(filter: Any, param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_filter(filter)
    assert (refused.value.param, refused.value.code) == (param, code)
    assert f"`{param}`" in refused.value.message


def test_a_filter_may_be_as_deep_as_allowed() -> None:
    assert matches(read_filter(nested(DEEPEST)), {"a": 1})


# ---- against an evaluation that only says what each type means -------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(st.sampled_from(["", "1", "x", "y"]), st.integers(-2, 2), st.sampled_from([0.5, 1.0]), st.booleans())
COMPARISONS = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]), "key": KEYS, "value": VALUES}),
    st.fixed_dictionaries({"type": st.sampled_from(["in", "nin"]), "key": KEYS, "value": st.lists(VALUES, max_size=4)}),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["and", "or"]), "filters": st.lists(inner, min_size=1, max_size=3)}
    ),
    max_leaves=12,
)


def kind(value: Any) -> str:
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def naive(filter: dict[str, Any], attributes: dict[str, Any]) -> bool:
    if filter["type"] == "and":
        return all(naive(each, attributes) for each in filter["filters"])
    if filter["type"] == "or":
        return any(naive(each, attributes) for each in filter["filters"])
    wanted, is_there = filter["value"], filter["key"] in attributes
    found = attributes.get(filter["key"])

    def equals(value: Any) -> bool:
        return is_there and kind(found) == kind(value) and bool(found == value)

    if filter["type"] in ("in", "nin"):
        return any(map(equals, wanted)) is (filter["type"] == "in")
    if filter["type"] in ("eq", "ne"):
        return equals(wanted) is (filter["type"] == "eq")
    if not is_there or kind(found) != kind(wanted) or kind(found) == "boolean":
        return False
    below, same = bool(found < wanted), bool(found == wanted)
    return {"lt": below, "lte": below or same, "gt": not below and not same, "gte": not below}[filter["type"]]


@given(filter=FILTERS, attributes=st.dictionaries(KEYS, VALUES))
def test_a_filter_matches_what_it_says(filter: dict[str, Any], attributes: dict[str, Any]) -> None:
    assert matches(read_filter(filter), attributes) == naive(filter, attributes)
