"""What the inspector lists of the store: responses and conversations, of one owner or, with the admin key, of all."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.protocols.responses.validation import convert_strings
from antiphon.errors import InvalidRequest
from antiphon.gateway.limits.view_turns import ViewTurns
from antiphon.gateway.state.owners import shown_owner
from antiphon.gateway.state.record_format import decode_beginning, decode_listed_settings
from antiphon.server.answers import to_json
from antiphon.server.app_keys import GATEWAY
from antiphon.server.inspector.rows import hide
from antiphon.server.keyring import ADMIN
from antiphon.server.request_state import OWNER
from antiphon.server.routes.inspector import INSPECTOR, recordings_of
from antiphon.store.files.file_listings import Wanted
from antiphon.store.records import Listed, Listing, ListPlace

T = TypeVar("T")

# Of a text that is shown in a row, in characters.
LONGEST_PREVIEW = 120


# One at a time of each owner, and few in all: a search reads much, with the connections of the store that all requests need.
LISTING = web.AppKey("listing", ViewTurns)


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
    listing = await list_in_turn(request, _in_json(request.app[GATEWAY].store.list_responses))
    shows_bodies = request.app[INSPECTOR].shows_bodies
    return to_list([_to_response(row, shows_bodies=shows_bodies) for row in listing.rows], listing.after)


async def conversations(request: web.Request) -> web.Response:
    listing = await list_in_turn(request, _in_json(request.app[GATEWAY].store.list_conversations))
    shows_bodies = request.app[INSPECTOR].shows_bodies
    return to_list([_to_conversation(row, shows_bodies=shows_bodies) for row in listing.rows], listing.after)


async def list_in_turn(request: web.Request, read: Callable[[Wanted], Coroutine[Any, Any, T]]) -> T:
    """What the request asks for, of what its key may see."""
    recordings_of(request)
    query = query_of(request)
    place = _place(query)
    if query.search and not request.app[INSPECTOR].shows_bodies:
        raise InvalidRequest(HIDDEN, param="search", code="bodies_hidden")
    async with request.app[LISTING].turn(request[OWNER]) as turn:
        return await turn.run(read(Wanted(_owner(request), query.search, place, query.limit)))


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
