"""What the inspector lists of uploaded files, vector stores and containers, of one owner or, with the admin key, of all."""

from aiohttp import web
from msgspec import Struct

from antiphon.files.vector_stores.objects import store_to_object
from antiphon.gateway.state.owners import shown_owner
from antiphon.sandbox.containers.container import Container
from antiphon.server.app_keys import CONTAINERS, GATEWAY
from antiphon.server.inspector.rows import hide
from antiphon.server.merged_lists import merge_newest, to_plain
from antiphon.server.routes.inspector import INSPECTOR
from antiphon.server.routes.inspector_stored import list_in_turn, query_of, to_list
from antiphon.server.siblings import SIBLINGS
from antiphon.store.file_store import FileStore
from antiphon.store.files import file_listings
from antiphon.store.files.file_listings import ListedFiles, ListedStores, Wanted
from antiphon.store.files.records import NEVER, FileRecord
from antiphon.store.files.vector_stores import Counted
from antiphon.store.records import ListPlace
from antiphon.wire.vector_stores import FileCounts


class StoredFile(Struct):
    id: str
    created_at: int
    owner: str
    preview: str
    purpose: str
    bytes: int
    expires_at: int | None


class StoredVectorStore(Struct):
    id: str
    created_at: int
    owner: str
    preview: str | None
    status: str
    bytes: int
    file_counts: FileCounts
    last_active_at: int | None
    expires_at: int | None


class ShownContainer(Struct):
    id: str
    created_at: int
    owner: str
    preview: str
    status: str
    files: int
    bytes: int
    memory_limit: str
    last_active_at: int
    expires_at: int


async def files(request: web.Request) -> web.Response:
    store = _store(request)

    async def read(wanted: Wanted) -> ListedFiles:
        if not store.is_used():
            return ListedFiles([], None)
        return await store.database.read(file_listings.list_files(wanted, store.database.clock()))

    listed = await list_in_turn(request, read)
    shows_names = request.app[INSPECTOR].shows_bodies
    return to_list([_to_file(record, shows_names=shows_names) for record in listed.rows], listed.after)


async def vector_stores(request: web.Request) -> web.Response:
    store = _store(request)

    async def read(wanted: Wanted) -> ListedStores:
        return await store.database.read(file_listings.list_stores(wanted)) if store.is_used() else ListedStores([], None)

    listed = await list_in_turn(request, read)
    shows_names, now = request.app[INSPECTOR].shows_bodies, store.database.clock()
    return to_list([_to_store(each, now, shows_names=shows_names) for each in listed.rows], listed.after)


async def containers(request: web.Request) -> web.Response:
    """Those of this gateway, in whichever of its processes they are."""
    known, owners = request.app[CONTAINERS], request.app[GATEWAY].owners

    async def read(wanted: Wanted) -> tuple[list[Container], str | None]:
        if known is None:
            return [], None
        mine = known.all if wanted.owner is None else known.of_owner(owners.current(wanted.owner))
        search = wanted.search.casefold()
        found = [each for each in mine if any(search in text.casefold() for text in (each.id, each.name))]
        rows = sorted((each for each in found if wanted.after is None or _place(each) < wanted.after), key=_place, reverse=True)
        shown = rows[: wanted.limit]
        return shown, str(_place(shown[-1])) if len(rows) > wanted.limit else None

    shown, after = await list_in_turn(request, read)
    shows_names = request.app[INSPECTOR].shows_bodies
    rows = [_to_container(each, shows_names=shows_names) for each in shown]
    others = await request.app[SIBLINGS].objects(request)
    if not others:
        return to_list(rows, after)
    lists = [(to_plain(rows), after is not None), *((each["data"], each["has_more"]) for each in others)]
    merged, has_more = merge_newest(lists, query_of(request).limit, lambda row: (row["created_at"], row["id"]))
    last = str(ListPlace(merged[-1]["created_at"], merged[-1]["id"])) if has_more else None
    return to_list(merged, last)


def _place(container: Container) -> ListPlace:
    return ListPlace(container.created_at, container.id)


def _store(request: web.Request) -> FileStore:
    return request.app[GATEWAY].store.files


def _to_file(record: FileRecord, *, shows_names: bool) -> StoredFile:
    return StoredFile(
        id=record.id,
        created_at=record.created_at,
        owner=shown_owner(record.owner),
        preview=record.filename if shows_names else hide(record.filename),
        purpose=record.purpose,
        bytes=record.size,
        expires_at=None if record.expires_at == NEVER else record.expires_at,
    )


def _to_store(stored: Counted, now: float, *, shows_names: bool) -> StoredVectorStore:
    shown, name = store_to_object(stored, now), stored.record.name
    return StoredVectorStore(
        id=shown.id,
        created_at=shown.created_at,
        owner=shown_owner(stored.record.owner),
        preview=hide(name) if name and not shows_names else name,
        status=shown.status,
        bytes=shown.usage_bytes,
        file_counts=shown.file_counts,
        last_active_at=shown.last_active_at,
        expires_at=shown.expires_at,
    )


def _to_container(container: Container, *, shows_names: bool) -> ShownContainer:
    return ShownContainer(
        id=container.id,
        created_at=container.created_at,
        owner=shown_owner(container.owner),
        preview=container.name if shows_names else hide(container.name),
        status="expired" if container.has_expired else "running",
        files=len(container.files),
        bytes=container.bytes,
        memory_limit=container.memory_limit,
        last_active_at=int(container.last_active_at),
        expires_at=int(container.last_active_at) + container.minutes * 60,
    )
