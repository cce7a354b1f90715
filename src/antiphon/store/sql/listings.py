"""Lists of the stored responses and conversations, the newest first."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon.errors import InvalidRequest, quoted
from antiphon.store.operations import Operation, Row, Statement, placeholders
from antiphon.store.records import ITEMS, NEWEST, SEARCH_BOUNDS, Listed, Listing, ListPlace, SearchBounds, searched_rows

# ---- one page of a list ----------------------------------------------------------------------------------------------
# Rows are in the order in which they were made, after or before a row that is named, as in the lists of the API.
# The row that is named may be gone: clients delete what they list.

# The ids that are made here, which sort in the order in which they were made.
_MADE = re.compile(r"[a-z]+[_-][0-9a-f]{48}")


def may_have_been(id: str) -> bool:
    """Whether there may have been something with this id."""
    return _MADE.fullmatch(id) is not None


class RowPage(NamedTuple):
    after: str | None = None
    before: str | None = None
    limit: int = 20
    ascending: bool = False


class RowList(NamedTuple):
    table: str
    columns: str
    # The column of the ids.
    id: str
    # Which rows the list has, with $1 and so on for the values.
    condition: str
    values: Sequence[Any]
    # Whether the ids sort like the rows.
    ordered_by_id: bool = True


class ListedRows(NamedTuple):
    rows: list[Row]
    # After them; with `before`, before them.
    has_more: bool


def list_rows(of: RowList, page: RowPage, status: str | None = None) -> Operation[ListedRows]:
    """`status`: only rows with it. The one that the page begins after may have had it before."""
    # With `before`, the page ends there, so it is read backwards.
    backwards = page.before is not None
    order = "ASC" if page.ascending != backwards else "DESC"
    condition, values = of.condition, [*of.values]
    if status is not None:
        condition += f" AND status = ${len(values) + 1}"
        values.append(status)
    cursor = page.before if backwards else page.after
    if cursor is not None:
        created_at = yield from _created_at(of, cursor, "before" if backwards else "after")
        sign = ">" if order == "ASC" else "<"
        if created_at is not None:
            condition += f" AND (created_at, {of.id}) {sign} (${len(values) + 1}, ${len(values) + 2})"
            values += [created_at, cursor]
        elif of.ordered_by_id:
            condition += f" AND {of.id} {sign} ${len(values) + 1}"
            values.append(cursor)
        # Otherwise nobody knows where it was. The list begins anew: better to show some rows twice than to leave some out.
    text = f"""SELECT {of.columns} FROM {of.table} WHERE {condition}
        ORDER BY created_at {order}, {of.id} {order} LIMIT ${len(values) + 1}"""
    # One more than the page has says whether there are others.
    rows = yield Statement(text, (*values, page.limit + 1))
    shown = rows[: page.limit]
    return ListedRows(shown[::-1] if backwards else shown, has_more=len(rows) > page.limit)


def _created_at(of: RowList, id: str, param: str) -> Operation[int | None]:
    """None: the row is gone."""
    text = f"SELECT created_at FROM {of.table} WHERE {of.condition} AND {of.id} = ${len(of.values) + 1}"
    rows = yield Statement(text, (*of.values, id))
    if not rows and not may_have_been(id):
        raise InvalidRequest(f"Invalid `{param}`: there is no {quoted(id)} in this list.", param=param, code="invalid_value")
    return rows[0][0] if rows else None


# Longer ones are left out of a list, in bytes.
LONGEST_BEGINNING = 65_536
LONGEST_SETTINGS = 262_144


class Kind(NamedTuple):
    table: str
    # How many bytes a search of a row reads.
    searched_bytes: str
    # Whether a row contains $1.
    contains: str
    # The columns after id, owner and created_at.
    details: str


NEWEST_ITEMS = f"conversation = conversations.id AND position >= conversations.next_position - {ITEMS}"

RESPONSES = Kind(
    "responses",
    "octet_length(input) + octet_length(output)",
    "position($1 IN input) > 0 OR position($1 IN output) > 0",
    f"""status, NULL,
    CASE WHEN octet_length(input) <= {LONGEST_BEGINNING} THEN input END,
    CASE WHEN octet_length(settings) <= {LONGEST_SETTINGS} THEN settings END""",
)
CONVERSATIONS = Kind(
    "conversations",
    f"(SELECT coalesce(sum(octet_length(data)), 0) FROM items WHERE {NEWEST_ITEMS})",
    f"EXISTS (SELECT 1 FROM items WHERE {NEWEST_ITEMS} AND position($1 IN data) > 0)",
    f"""NULL, (SELECT count(*) FROM items WHERE conversation = conversations.id),
    (SELECT CASE WHEN octet_length(data) <= {LONGEST_BEGINNING} THEN data END
        FROM items WHERE conversation = conversations.id ORDER BY position LIMIT 1),
    CASE WHEN octet_length(metadata) <= {LONGEST_SETTINGS} THEN metadata END""",
)


def page(
    kind: Kind,
    owner: str | None,
    search: bytes,
    after: ListPlace | None,
    limit: int,
    now: float,
    bounds: SearchBounds = SEARCH_BOUNDS,
) -> Operation[Listing]:
    """`owner`: None for all. `search`: what the JSON of its items must contain. A page of a search may have fewer rows than
    there are: then it says where to go on."""
    most = bounds.rows if search else limit + 1
    values: list[Any] = [int(now), *(after or NEWEST), most, *([owner] if owner is not None else ())]
    rows = yield Statement(_rows(kind, searches=bool(search), owned=owner is not None), values)
    places = [ListPlace(created_at, id) for created_at, id, _ in rows]
    read = places[: searched_rows([size for _, _, size in rows], bounds.bytes)] if search else places
    found = (yield from _containing(kind, search, read)) if search else read
    shown = found[:limit]
    is_last = len(rows) < most and len(read) == len(places)
    seen = shown[-1] if len(found) > limit else None if is_last else read[-1]
    return Listing((yield from _details(kind, [place.id for place in shown])), str(seen) if seen is not None else None)


def _rows(kind: Kind, *, searches: bool, owned: bool) -> str:
    return f"""
        SELECT created_at, id, {kind.searched_bytes if searches else "0"} FROM {kind.table}
        WHERE expires_at > $1 AND (created_at, id) < ($2, $3){" AND owner = $5" if owned else ""}
        ORDER BY created_at DESC, id DESC LIMIT $4"""


def _containing(kind: Kind, search: bytes, places: Sequence[ListPlace]) -> Operation[list[ListPlace]]:
    if not places:
        return []
    ids = placeholders(2, len(places))
    text = f"SELECT id FROM {kind.table} WHERE id IN ({ids}) AND ({kind.contains})"
    rows = yield Statement(text, [search, *(place.id for place in places)])
    found = {row[0] for row in rows}
    return [place for place in places if place.id in found]


def _details(kind: Kind, ids: Sequence[str]) -> Operation[list[Listed]]:
    if not ids:
        return []
    text = f"SELECT id, owner, created_at, {kind.details} FROM {kind.table} WHERE id IN ({placeholders(1, len(ids))})"
    rows = {row[0]: Listed(*row) for row in (yield Statement(text, ids))}
    return [rows[id] for id in ids if id in rows]
