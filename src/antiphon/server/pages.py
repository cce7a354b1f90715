"""Lists as the API shows them, a page at a time."""

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Literal

from msgspec import Meta, Struct

from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest, quoted
from antiphon.store.sql.listings import may_have_been
from antiphon.wire.input_items import Item


class Page(Struct, frozen=True):
    """The page that a client asks for. By default the newest comes first."""

    after: str | None = None
    before: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"

    @property
    def ascending(self) -> bool:
        return self.order == "asc"


def query_to_page(query: Mapping[str, str]) -> Page:
    page = convert_strings({name: query[name] for name in Page.__struct_fields__ if name in query}, Page)
    if page.after is not None and page.before is not None:
        raise InvalidRequest(
            "`after` and `before` cannot be used together.", param="before", code="mutually_exclusive_parameters"
        )
    return page


def cut(items: list[Item], page: Page) -> list[Item]:
    """The items of the page in its order, and one more if there is one."""
    ordered = items if page.ascending else items[::-1]
    ids = [item["id"] for item in ordered]
    start, end = 0, len(ordered)
    if page.after is not None:
        start = _index(ids, page.after, "after") + 1
    if page.before is not None:
        end = _index(ids, page.before, "before")
        start = max(start, end - page.limit)
    return ordered[start : min(end, start + page.limit + 1)]


def cut_by_id(items: list[Item], page: Page) -> list[Item]:
    """The same in the order of the ids, which is that in which they were made. The item that the page begins or ends at may be
    gone: clients delete what they list."""
    place = page.before if page.after is None else page.after
    is_gone = place is not None and may_have_been(place) and all(item["id"] != place for item in items)
    return cut(sorted([*items, {"id": place}] if is_gone else items, key=itemgetter("id")), page)


def _index(ids: list[str], id: str, name: str) -> int:
    if id not in ids:
        raise InvalidRequest(f"Invalid `{name}`: there is no item {quoted(id)} here.", param=name, code="invalid_value")
    return ids.index(id)


def to_list(items: list[Item], page: Page) -> Item:
    shown = items[: page.limit]
    return to_whole_list(shown) | {"has_more": len(items) > len(shown)}


def to_timestamp(seconds: int) -> str:
    """As Anthropic's API has times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def to_whole_list(items: list[Item]) -> Item:
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": False,
    }
