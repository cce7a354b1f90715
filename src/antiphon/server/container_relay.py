"""Requests about a container that is in another worker process are answered there."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import aiohttp
from aiohttp import web

from antiphon.core.hosted.containers import containers_in
from antiphon.core.hosted.rows import HOSTED
from antiphon.errors import EngineUnavailable
from antiphon.sandbox.containers.container import slot_of
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.server.siblings import Sibling
from antiphon.wire.responses import CreateResponse

P = ParamSpec("P")

# An id in stored items.
ID = re.compile(rb'"(cntr_[0-9a-f]+)"')
# The types of tools that use one.
USERS = tuple(kind for tool in HOSTED if tool.files is not None for kind in tool.definitions)
GONE = "The worker process that had this container has just ended. Send the request again."


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


async def relayed_response(request: web.Request, read: CreateResponse, body: bytes) -> web.StreamResponse | None:
    """The answer to a request whose tools use a container of another process. None: it is to be answered here."""
    app = request.app[APP]
    # Nobody has checked the tools yet.
    tools = [tool for tool in read.tools or () if tool.get("type") in USERS]
    if not tools or app.resources.containers is None or not app.siblings.asked_by(request):
        return None
    id = next(filter(None, map(_named_by, tools)), None) or _in_input(read) or await _in_history(request, read)
    sibling = _owner_of(request, id) if id is not None else None
    return await _relayed(request, sibling, body) if sibling is not None else None


def _owner_of(request: web.Request, id: str) -> Sibling | None:
    siblings, slot = request.app[APP].siblings, slot_of(id)
    if not siblings.asked_by(request) or slot is None or slot == siblings.slot:
        return None
    return siblings.in_slot(slot)


def _named_by(tool: dict[str, Any]) -> str | None:
    match tool:
        case {"container": str(id)} | {"environment": {"container_id": str(id)}}:
            return id
    return None


def _in_input(read: CreateResponse) -> str | None:
    """The container of the latest call that the client has sent along."""
    found = containers_in(read.input) if isinstance(read.input, list) else []
    return found[0] if found else None


async def _in_history(request: web.Request, read: CreateResponse) -> str | None:
    """That of the latest call in the history that the request continues."""
    store, owner = request.app[APP].gateway.store, request[OWNER]
    if read.previous_response_id is not None:
        stored = [link.output for link in await store.chain(owner, read.previous_response_id)]
    else:
        id = read.conversation.get("id") if isinstance(read.conversation, dict) else read.conversation
        items = await store.conversation_items(owner, id) if isinstance(id, str) else None
        stored = [item.data for item in items or ()]
    found = [id for data in stored for id in ID.findall(data)]
    return found[-1].decode() if found else None


async def _relayed(request: web.Request, sibling: Sibling, body: bytes | None = None) -> web.StreamResponse:
    try:
        return await request.app[APP].siblings.relay(request, sibling, body)
    except (aiohttp.ClientConnectorError, FileNotFoundError):
        raise EngineUnavailable(GONE, retry_after=1) from None
