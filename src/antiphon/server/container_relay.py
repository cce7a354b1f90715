"""Requests about a container that is in another worker process are answered there."""

import re
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Concatenate, NamedTuple, ParamSpec

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct

from antiphon.errors import UNREADABLE, EngineUnavailable
from antiphon.gateway.limits.threads import LARGE_TO_SKIP
from antiphon.sandbox.containers.container import slot_of
from antiphon.server.app_keys import CONTAINERS, GATEWAY
from antiphon.server.bodies import in_turn
from antiphon.server.request_state import OWNER
from antiphon.server.siblings import SIBLINGS, Sibling

P = ParamSpec("P")

# A body that has none of these uses no container. Looking for them takes 30 µs in 300 KB, and only several processes do it.
TOOLS = re.compile(rb'"(?:code_interpreter|shell)"')
ID = re.compile(rb'"(cntr_[0-9a-f]+)"')
GONE = "The worker process that had this container has just ended. Send the request again."


class Continued(Struct, frozen=True):
    """Where the history of a request is."""

    previous_response_id: str | None = None
    conversation: str | dict[str, object] | None = None


def in_its_worker(
    handler: Callable[Concatenate[web.Request, P], Awaitable[web.StreamResponse]],
) -> Callable[Concatenate[web.Request, P], Awaitable[web.StreamResponse]]:
    """For a route whose path names a container."""

    @wraps(handler)
    async def answer(request: web.Request, /, *args: P.args, **kwargs: P.kwargs) -> web.StreamResponse:
        if (sibling := _owner_of(request, request.match_info["id"])) is not None:
            return await _relayed(request, sibling)
        return await handler(request, *args, **kwargs)

    return answer


async def relayed_response(request: web.Request, body: bytes) -> web.StreamResponse | None:
    """The answer to a request whose tools use a container of another process. None: it is to be answered here."""
    if not request.app[SIBLINGS].asked_by(request) or request.app[CONTAINERS] is None or not TOOLS.search(body):
        return None
    named = await in_turn(request, partial(_named, body), large=len(body) >= LARGE_TO_SKIP)
    ids = named.ids or await _stored_ids(request, named.continued)
    sibling = _owner_of(request, ids[-1].decode()) if ids else None
    return await _relayed(request, sibling, body) if sibling is not None else None


def _owner_of(request: web.Request, id: str) -> Sibling | None:
    siblings, slot = request.app[SIBLINGS], slot_of(id)
    if not siblings.asked_by(request) or slot is None or slot == siblings.slot:
        return None
    return siblings.in_slot(slot)


class Named(NamedTuple):
    """What a request says about containers."""

    ids: list[bytes]
    continued: Continued


def _named(body: bytes) -> Named:
    if ids := ID.findall(body):
        return Named(ids, Continued())
    try:
        return Named(ids, msgspec.json.decode(body, type=Continued))
    except UNREADABLE:
        # What is wrong with it is said where it is read.
        return Named(ids, Continued())


async def _stored_ids(request: web.Request, continued: Continued) -> list[bytes]:
    """Those in the history that a request continues, the latest last."""
    store, owner = request.app[GATEWAY].store, request[OWNER]
    if continued.previous_response_id is not None:
        links = await store.chain(owner, continued.previous_response_id)
        return [id for link in links for id in ID.findall(link.output)]
    conversation = continued.conversation
    id = conversation.get("id") if isinstance(conversation, dict) else conversation
    items = await store.conversation_items(owner, id) if isinstance(id, str) else None
    return [found for item in items or () for found in ID.findall(item.data)]


async def _relayed(request: web.Request, sibling: Sibling, body: bytes | None = None) -> web.StreamResponse:
    try:
        return await request.app[SIBLINGS].relay(request, sibling, body)
    except (aiohttp.ClientConnectorError, FileNotFoundError):
        raise EngineUnavailable(GONE, retry_after=1) from None
