"""Whose request it is, by its key, and what its owner may see."""

from aiohttp import web

from antiphon.errors import Unauthorized
from antiphon.ids import ADMIN
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER


async def owner_of_key(request: web.Request) -> str:
    """By the keys as they are now: while a WebSocket is open, they may change. Raises Unauthorized."""
    keyring = request.app[APP].access.keyring
    if not keyring:
        return ""
    given = key_of(request)
    if not given:
        raise Unauthorized("No API key: send `Authorization: Bearer KEY`, or `api-key: KEY`.")
    owner = keyring.owner_of(given)
    if owner is None:
        raise Unauthorized("Incorrect API key provided.")
    return await request.app[APP].gateway.owners.settled(owner)


def is_trusted(request: web.Request) -> bool:
    """Whether it may see what is behind the gateway: it has a valid key, or no keys are set."""
    keyring = request.app[APP].access.keyring
    return not keyring or keyring.owner_of(key_of(request)) is not None


async def owner_seen(request: web.Request, id: str) -> str:
    """Whose response or conversation a request may read and delete: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    return await request.app[APP].gateway.store.owner_of(id) or owner if owner == ADMIN else owner


def key_of(request: web.Request) -> bytes:
    """As OpenAI's clients send it, or Azure's."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    key = given if scheme.lower() == "bearer" else ""
    return (key.strip() or request.headers.get("api-key", "").strip()).encode(errors="surrogateescape")
