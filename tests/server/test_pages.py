"""Lists a page at a time: what a page has, whether there are more, and what is wrong with a query."""

from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.pages import Page, cut, cut_by_id, query_to_page, to_list

ITEMS: list[dict[str, Any]] = [{"id": f"i{number}"} for number in range(5)]


def shown(page: Page, items: list[dict[str, Any]] = ITEMS) -> tuple[list[str], bool]:
    made = to_list(cut(items, page), page)
    ids = [item["id"] for item in made["data"]]
    assert (made["first_id"], made["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
    return ids, made["has_more"]


@pytest.mark.parametrize(
    ("page", "ids", "has_more"),
    [
        (Page(), ["i4", "i3", "i2", "i1", "i0"], False),
        (Page(order="asc", limit=2), ["i0", "i1"], True),
        (Page(order="asc", limit=5), ["i0", "i1", "i2", "i3", "i4"], False),
        (Page(order="asc", limit=2, after="i1"), ["i2", "i3"], True),
        (Page(order="asc", limit=2, after="i2"), ["i3", "i4"], False),
        (Page(limit=2, after="i3"), ["i2", "i1"], True),
        (Page(order="asc", limit=2, before="i3"), ["i1", "i2"], False),
        (Page(order="asc", after="i4"), [], False),
    ],
)
def test_a_page_has_its_items_and_says_whether_there_are_more(page: Page, ids: list[str], has_more: bool) -> None:
    assert shown(page) == (ids, has_more)


@pytest.mark.parametrize("name", ["after", "before"])
def test_an_item_that_is_not_there_is_an_error_that_names_the_parameter(name: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        cut(ITEMS, query_to_page({name: "i9"}))
    assert (wrong.value.param, wrong.value.code) == (name, "invalid_value")


def test_a_list_goes_on_after_an_item_that_was_deleted_meanwhile() -> None:
    ids = [f"file-{number:048x}" for number in range(4)]
    left = [{"id": id} for id in ids if id != ids[1]]
    assert [item["id"] for item in cut_by_id(left, Page(order="asc", after=ids[1]))] == ids[2:]
    assert [item["id"] for item in cut_by_id(left, Page(order="asc", before=ids[1]))] == ids[:1]
    with pytest.raises(InvalidRequest):
        cut_by_id(left, Page(after="never-one-of-ours"))


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "101"}, {"limit": "x"}, {"order": "up"}, {"after": "a", "before": "b"}]
)
def test_a_query_that_is_wrong_is_rejected(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        query_to_page(query)


def test_a_query_becomes_a_page_and_other_parameters_are_left_alone() -> None:
    assert query_to_page({"limit": "7", "order": "asc", "after": "a", "include": "x"}) == Page("a", None, 7, "asc")
