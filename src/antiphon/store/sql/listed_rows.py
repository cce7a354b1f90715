"""One page of rows in the order in which they were made: after or before a row that is named, as in the lists of the API.

The row that is named may be gone: clients delete what they list.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon.errors import InvalidRequest, quoted
from antiphon.store.sql.operations import Operation, Row, Statement

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
