"""What the inspector lists: engines and what they do, stored responses, files, vector stores, batches and
containers."""

import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest
from antiphon.files.batches.objects import status_of
from antiphon.files.vector_stores.objects import store_to_object
from antiphon.gateway.runs.status import engines_status, running_status
from antiphon.gateway.state.owners import shown_owner
from antiphon.gateway.state.record_format import decode_beginning, decode_listed_settings
from antiphon.ids import ADMIN
from antiphon.sandbox.containers.container import Container
from antiphon.server.answers import to_json
from antiphon.server.inspector.rows import hide
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.server.routes.inspector import recordings_of
from antiphon.server.siblings import added_up, merge_newest, to_plain
from antiphon.store.files import batches as batch_listings
from antiphon.store.files import files as file_listings
from antiphon.store.files.batches import BatchPage
from antiphon.store.files.files import ListedFiles, ListedStores, Wanted
from antiphon.store.files.records import NEVER, FileRecord, RequestBatch
from antiphon.store.files.vector_stores import Counted
from antiphon.store.protocol import FileStore
from antiphon.store.records import Listed, Listing, ListPlace
from antiphon.wire.vector_stores import FileCounts


async def engines(request: web.Request) -> web.Response:
    """A key sees its own responses in flight. The admin key sees all, and so does everybody where no keys are set."""
    gateway, owner = request.app[APP].gateway, request[OWNER]
    sees_all = owner == ADMIN or not request.app[APP].access.keyring
    siblings = request.app[APP].siblings
    description = request.app[APP].inspection.description._asdict() | {
        "url": f"{request.scheme}://{request.host}",
        "pid": (siblings.supervisor or os.getpid()) if sees_all else None,
        "ready": gateway.pool.ready,
    }
    if siblings.supervisor is not None and sees_all:
        # The one that answers, and all of them.
        description["worker"] = siblings.slot
        started = {siblings.slot: request.app[APP].inspection.process_started}
        description["workers"] = [
            {"worker": slot, "pid": pid, "started": started.get(slot)} for slot, pid in siblings.pids.items()
        ]
    running = running_status(gateway, None if sees_all else owner)
    shown = {"gateway": description, "engines": engines_status(gateway), "running": running}
    others = await siblings.objects(request)
    return to_json(_with_others(to_plain(shown), others) if others else shown)


def _with_others(shown: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the other worker processes do, too. All of them have the same engines."""
    for engine in shown["engines"]:
        same = [each for other in others for each in other["engines"] if each["url"] == engine["url"]]
        engine |= added_up([engine, *same], "running", "waiting")
    shown["running"] += [run for other in others for run in other["running"]]
    known = {each["pid"]: each for other in others for each in other["gateway"].get("workers", ()) if each["started"]}
    # Each knows its own start.
    workers = shown["gateway"].get("workers", ())
    shown["gateway"] |= {"workers": [known.get(each["pid"], each) for each in workers]} if workers else {}
    return shown


# ---- what is stored --------------------------------------------------------------------------------------------------
# Those of one owner or, with the admin key, of all.

T = TypeVar("T")

# Of a text that is shown in a row, in characters.
LONGEST_PREVIEW = 120


HIDDEN = "Texts cannot be searched here: `inspector_bodies` is false. Leave out `search`."


class ListQuery(Struct):
    search: Annotated[str, Meta(max_length=200)] = ""
    # The `last_id` of the page before.
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


class StoredResponse(Struct):
    id: str
    created_at: int
    owner: str
    status: str | None
    model: str | None
    preview: str | None


class StoredConversation(Struct):
    id: str
    created_at: int
    owner: str
    items: int | None
    metadata: dict[str, str]
    preview: str | None


async def responses(request: web.Request) -> web.Response:
    listing = await list_in_turn(request, _in_json(request.app[APP].gateway.store.list_responses))
    shows_bodies = request.app[APP].inspection.inspector.shows_bodies
    return to_list([_to_response(row, shows_bodies=shows_bodies) for row in listing.rows], listing.after)


async def conversations(request: web.Request) -> web.Response:
    listing = await list_in_turn(request, _in_json(request.app[APP].gateway.store.list_conversations))
    shows_bodies = request.app[APP].inspection.inspector.shows_bodies
    return to_list([_to_conversation(row, shows_bodies=shows_bodies) for row in listing.rows], listing.after)


async def list_in_turn(request: web.Request, read: Callable[[Wanted], Coroutine[Any, Any, T]]) -> T:
    """What the request asks for, of what its key may see."""
    recordings_of(request)
    query = query_of(request)
    place = _place(query)
    if query.search and not request.app[APP].inspection.inspector.shows_bodies:
        raise InvalidRequest(HIDDEN, param="search", code="bodies_hidden")
    async with request.app[APP].inspection.listing.entered(request[OWNER]) as view:
        return await view.run(read(Wanted(_owner(request), query.search, place, query.limit)))


def _in_json(list_rows: Callable[..., Coroutine[Any, Any, Listing]]) -> Callable[[Wanted], Coroutine[Any, Any, Listing]]:
    """Searched for as it is written in JSON."""

    def read(wanted: Wanted) -> Coroutine[Any, Any, Listing]:
        search = msgspec.json.encode(wanted.search)[1:-1]
        return list_rows(wanted.owner, search=search, after=wanted.after, limit=wanted.limit)

    return read


def query_of(request: web.Request) -> ListQuery:
    return convert_strings(dict(request.query), ListQuery)


def _owner(request: web.Request) -> str | None:
    owner = request[OWNER]
    return None if owner == ADMIN else owner


def _place(query: ListQuery) -> ListPlace | None:
    return ListPlace.read(query.after) if query.after is not None else None


def to_list(rows: Sequence[Any], after: str | None) -> web.Response:
    """`after`: where the next page begins."""
    return to_json({"object": "list", "data": rows, "has_more": after is not None, "last_id": after})


def _to_response(row: Listed, *, shows_bodies: bool) -> StoredResponse:
    model = decode_listed_settings(row).get("model")
    preview = _preview(decode_beginning(row)) if shows_bodies else None
    return StoredResponse(row.id, row.created_at, shown_owner(row.owner), row.status, model, preview)


def _to_conversation(row: Listed, *, shows_bodies: bool) -> StoredConversation:
    metadata = decode_listed_settings(row)
    shown = metadata if shows_bodies else {name: hide(text) for name, text in metadata.items()}
    preview = _preview(decode_beginning(row)) if shows_bodies else None
    return StoredConversation(row.id, row.created_at, shown_owner(row.owner), row.items, shown, preview)


def _preview(items: list[dict[str, Any]]) -> str | None:
    """The beginning of the last text that was not written by a model."""
    for item in reversed(items):
        content = item.get("content")
        parts = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else []
        text = " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
        if text:
            return text[:LONGEST_PREVIEW]
    return None


# ---- files, vector stores, batches and containers ----------------------------------------------------------------------


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


class StoredBatch(Struct):
    id: str
    created_at: int
    owner: str
    preview: str
    status: str
    total: int
    completed: int
    failed: int
    can_be_cancelled: bool


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
    shows_names = request.app[APP].inspection.inspector.shows_bodies
    return to_list([_to_file(record, shows_names=shows_names) for record in listed.rows], listed.after)


async def vector_stores(request: web.Request) -> web.Response:
    store = _store(request)

    async def read(wanted: Wanted) -> ListedStores:
        return await store.database.read(file_listings.list_stores(wanted)) if store.is_used() else ListedStores([], None)

    listed = await list_in_turn(request, read)
    shows_names, now = request.app[APP].inspection.inspector.shows_bodies, store.database.clock()
    return to_list([_to_store(each, now, shows_names=shows_names) for each in listed.rows], listed.after)


async def batches(request: web.Request) -> web.Response:
    store = _store(request)

    async def read(wanted: Wanted) -> BatchPage:
        now = int(store.database.clock())
        return await store.database.read(batch_listings.page(wanted, now)) if store.is_used() else BatchPage([], None)

    listed = await list_in_turn(request, read)
    return to_list([_to_batch(batch) for batch in listed.rows], listed.after)


async def containers(request: web.Request) -> web.Response:
    """Those of this gateway, in whichever of its processes they are."""
    known, owners = request.app[APP].resources.containers, request.app[APP].gateway.owners

    async def read(wanted: Wanted) -> tuple[list[Container], str | None]:
        if known is None:
            return [], None
        mine = known.all if wanted.owner is None else known.of_owner(owners.current(wanted.owner))
        search = wanted.search.casefold()
        found = [each for each in mine if any(search in text.casefold() for text in (each.id, each.name))]
        rows = sorted(
            (each for each in found if wanted.after is None or _file_place(each) < wanted.after), key=_file_place, reverse=True
        )
        shown = rows[: wanted.limit]
        return shown, str(_file_place(shown[-1])) if len(rows) > wanted.limit else None

    shown, after = await list_in_turn(request, read)
    shows_names = request.app[APP].inspection.inspector.shows_bodies
    rows = [_to_container(each, shows_names=shows_names) for each in shown]
    others = await request.app[APP].siblings.objects(request)
    if not others:
        return to_list(rows, after)
    lists = [(to_plain(rows), after is not None), *((each["data"], each["has_more"]) for each in others)]
    merged, has_more = merge_newest(lists, query_of(request).limit, lambda row: (row["created_at"], row["id"]))
    last = str(ListPlace(merged[-1]["created_at"], merged[-1]["id"])) if has_more else None
    return to_list(merged, last)


def _file_place(container: Container) -> ListPlace:
    return ListPlace(container.created_at, container.id)


def _store(request: web.Request) -> FileStore:
    return request.app[APP].gateway.store.files


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


def _to_batch(batch: RequestBatch) -> StoredBatch:
    return StoredBatch(
        id=batch.id,
        created_at=batch.created_at,
        owner=shown_owner(batch.owner),
        preview=" ".join([batch.endpoint, *filter(None, batch.models[:1])]),
        status=status_of(batch),
        total=batch.total,
        completed=batch.completed,
        failed=batch.failed,
        can_be_cancelled=batch.stop is None and batch.status in ("validating", "in_progress"),
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
