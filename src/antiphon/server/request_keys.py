"""Whose request it is, by its key, and what its owner may see."""

from aiohttp import web

from antiphon.errors import Unauthorized
from antiphon.ids import ADMIN
from antiphon.server.parts import APP, Parts
from antiphon.server.request_state import OWNER


async def owner_of_key(request: web.Request) -> str:
    """By the keys as they are now: while a WebSocket is open, they may change. Raises Unauthorized."""
    app = request.app[APP]
    keyring = app.access.keyring
    if not keyring:
        return ""
    given = key_of(request, app)
    if not given:
        raise Unauthorized("No API key: send `Authorization: Bearer KEY`, or `api-key: KEY`.")
    owner = keyring.owner_of(given)
    if owner is None:
        raise Unauthorized("Incorrect API key provided.")
    return await app.gateway.owners.settled(owner)


def is_trusted(request: web.Request) -> bool:
    """Whether it may see what is behind the gateway: it has a valid key, or no keys are set."""
    app = request.app[APP]
    return not app.access.keyring or app.access.keyring.owner_of(key_of(request, app)) is not None


async def owner_seen(request: web.Request, id: str) -> str:
    """Whose response or conversation a request may read and delete: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    return await request.app[APP].gateway.store.owner_of(id) or owner if owner == ADMIN else owner


def key_of(request: web.Request, app: Parts) -> bytes:
    """As OpenAI's clients send it, or Azure's, or those of another protocol."""
    headers = request.headers
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    key = given.strip() if scheme.lower() == "bearer" else ""
    if not key:
        names = ("api-key", *app.routing.protocols.key_headers)
        key = next((sent for name in names if (sent := headers.get(name, "").strip())), "")
    return key.encode(errors="surrogateescape")
