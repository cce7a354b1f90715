"""Lists of uploaded files and of vector stores, of one owner or of all, the newest first."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from antiphon.store import search_bounds
from antiphon.store.files import files, vector_stores
from antiphon.store.files.records import FileRecord
from antiphon.store.files.vector_stores import Counted
from antiphon.store.records import NEWEST, ListPlace
from antiphon.store.sql.operations import Operation, Row, Statement


class Wanted(NamedTuple):
    """`owner`: None for all. `search`: what a name or an id must contain, in any case."""

    owner: str | None
    search: str
    after: ListPlace | None
    limit: int


class ListedFiles(NamedTuple):
    rows: list[FileRecord]
    # Where the next page begins. None: there is none.
    after: str | None


class ListedStores(NamedTuple):
    rows: list[Counted]
    after: str | None


def list_files(wanted: Wanted, now: float) -> Operation[ListedFiles]:
    """Without those that have expired: nobody can use them any more."""
    rows = yield from _read("files", files.COLUMNS, wanted, expired_before=int(now))
    shown, after = _page([_to_file(row) for row in rows], wanted, lambda record: [record.id, record.filename])
    return ListedFiles(shown, after)


def list_stores(wanted: Wanted) -> Operation[ListedStores]:
    """Also those that have expired, as long as they are shown."""
    rows = yield from _read("vector_stores", vector_stores.COLUMNS, wanted, expired_before=0)
    records = [vector_stores.row_to_record(row) for row in rows]
    shown, after = _page(records, wanted, lambda record: [record.id, record.name or "", *record.metadata.values()])
    stores: list[Counted] = []
    for record in shown:
        stores.append(Counted(record, (yield from vector_stores.count_files(record.id))))
    return ListedStores(stores, after)


def _read(table: str, columns: str, wanted: Wanted, *, expired_before: int) -> Operation[list[Row]]:
    owned = " AND owner = $5" if wanted.owner is not None else ""
    text = f"""SELECT {columns} FROM {table} WHERE expires_at > $1 AND (created_at, id) < ($2, $3){owned}
        ORDER BY created_at DESC, id DESC LIMIT $4"""
    owner = () if wanted.owner is None else (wanted.owner,)
    return (yield Statement(text, (expired_before, *(wanted.after or NEWEST), _most(wanted), *owner)))


def _most(wanted: Wanted) -> int:
    """How many rows one page reads. A page of a search may have fewer rows than there are: it says where to go on."""
    return search_bounds.ROWS if wanted.search else wanted.limit + 1


def _page(rows: Sequence[Any], wanted: Wanted, texts: Callable[[Any], Sequence[str]]) -> tuple[list[Any], str | None]:
    search = wanted.search.casefold()
    found = [row for row in rows if any(search in text.casefold() for text in texts(row))] if search else list(rows)
    shown = found[: wanted.limit]
    if len(found) > wanted.limit:
        return shown, _place(shown[-1])
    return shown, _place(rows[-1]) if len(rows) == _most(wanted) else None


def _to_file(row: Row) -> FileRecord:
    return FileRecord(**dict(zip(FileRecord.__struct_fields__, row, strict=True)))


def _place(row: Any) -> str:
    return str(ListPlace(row.created_at, row.id))
