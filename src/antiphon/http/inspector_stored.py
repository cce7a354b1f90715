"""What the inspector lists of the store: responses and conversations, of one owner or, with the admin key, of all."""

from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.validation import convert_strings
from antiphon.gateway.record_format import decode_beginning, decode_listed_settings
from antiphon.http.answers import to_json
from antiphon.http.app_keys import GATEWAY
from antiphon.http.keyring import ADMIN
from antiphon.http.middlewares import OWNER
from antiphon.store.records import Listed, Listing, ListPlace

# Of a text that is shown in a row, in characters.
LONGEST_PREVIEW = 120


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
    query = _query(request)
    store = request.app[GATEWAY].store
    listing = await store.list_responses(_owner(request), search=_search(query), after=_place(query), limit=query.limit)
    return _to_list(listing, [_to_response(row) for row in listing.rows])


async def conversations(request: web.Request) -> web.Response:
    query = _query(request)
    store = request.app[GATEWAY].store
    listing = await store.list_conversations(_owner(request), search=_search(query), after=_place(query), limit=query.limit)
    return _to_list(listing, [_to_conversation(row) for row in listing.rows])


def _query(request: web.Request) -> ListQuery:
    return convert_strings(dict(request.query), ListQuery)


def _owner(request: web.Request) -> str | None:
    owner = request[OWNER]
    return None if owner == ADMIN else owner


def _search(query: ListQuery) -> bytes:
    """As it is written in JSON."""
    return msgspec.json.encode(query.search)[1:-1]


def _place(query: ListQuery) -> ListPlace | None:
    return ListPlace.read(query.after) if query.after is not None else None


def _to_list(listing: Listing, rows: list[Any]) -> web.Response:
    return to_json({"object": "list", "data": rows, "has_more": listing.after is not None, "last_id": listing.after})


def _to_response(row: Listed) -> StoredResponse:
    model = decode_listed_settings(row).get("model")
    return StoredResponse(row.id, row.created_at, row.owner, row.status, model, _preview(decode_beginning(row)))


def _to_conversation(row: Listed) -> StoredConversation:
    metadata = decode_listed_settings(row)
    return StoredConversation(row.id, row.created_at, row.owner, row.items, metadata, _preview(decode_beginning(row)))


def _preview(items: list[dict[str, Any]]) -> str | None:
    """The beginning of the last text that was not written by a model."""
    for item in reversed(items):
        content = item.get("content")
        parts = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else []
        text = " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
        if text:
            return text[:LONGEST_PREVIEW]
    return None
