"""Lists of the stored responses and conversations, the newest first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon.store.records import NEWEST, Listed, Listing, ListPlace
from antiphon.store.sql.operations import Operation, Statement, placeholders

# Longer ones are left out of a list, in bytes.
LONGEST_BEGINNING = 65_536
LONGEST_SETTINGS = 262_144
# How many rows are searched for one page: a search reads them whole.
SEARCHED_ROWS = 500


class Kind(NamedTuple):
    table: str
    # Whether a row contains $5.
    contains: str
    # The columns after id, owner and created_at.
    details: str


RESPONSES = Kind(
    "responses",
    "position($5 IN input) > 0 OR position($5 IN output) > 0",
    f"""status, NULL,
    CASE WHEN octet_length(input) <= {LONGEST_BEGINNING} THEN input END,
    CASE WHEN octet_length(settings) <= {LONGEST_SETTINGS} THEN settings END""",
)
CONVERSATIONS = Kind(
    "conversations",
    "EXISTS (SELECT 1 FROM items WHERE conversation = conversations.id AND position($5 IN data) > 0)",
    f"""NULL, (SELECT count(*) FROM items WHERE conversation = conversations.id),
    (SELECT CASE WHEN octet_length(data) <= {LONGEST_BEGINNING} THEN data END
        FROM items WHERE conversation = conversations.id ORDER BY position LIMIT 1),
    CASE WHEN octet_length(metadata) <= {LONGEST_SETTINGS} THEN metadata END""",
)


def page(kind: Kind, owner: str | None, search: bytes, after: ListPlace | None, limit: int, now: float) -> Operation[Listing]:
    """`owner`: None for all. `search`: what the JSON of its items must contain. A page of a search may have fewer rows than
    there are: then it says where to go on."""
    most = SEARCHED_ROWS if search else limit + 1
    values: list[Any] = [int(now), *(after or NEWEST), most, *([search] if search else ())]
    if owner is not None:
        values.append(owner)
    rows = yield Statement(_rows(kind, searches=bool(search), owner=f"${len(values)}" if owner is not None else None), values)
    found = [ListPlace(created_at, id) for id, created_at, contains in rows if contains]
    shown = found[:limit]
    seen = shown[-1] if len(found) > limit else ListPlace(rows[-1][1], rows[-1][0]) if len(rows) == most else None
    return Listing((yield from _details(kind, [place.id for place in shown])), str(seen) if seen is not None else None)


def _rows(kind: Kind, *, searches: bool, owner: str | None) -> str:
    return f"""
        SELECT id, created_at, {kind.contains if searches else "true"} FROM {kind.table}
        WHERE expires_at > $1 AND (created_at, id) < ($2, $3){f" AND owner = {owner}" if owner else ""}
        ORDER BY created_at DESC, id DESC LIMIT $4"""


def _details(kind: Kind, ids: Sequence[str]) -> Operation[list[Listed]]:
    if not ids:
        return []
    text = f"SELECT id, owner, created_at, {kind.details} FROM {kind.table} WHERE id IN ({placeholders(1, len(ids))})"
    rows = {row[0]: Listed(*row) for row in (yield Statement(text, ids))}
    return [rows[id] for id in ids if id in rows]
