"""GET /inspector/engines: what the gateway is doing right now, for `antiphon ps`, `antiphon doctor` and the inspector."""

import os
from typing import NamedTuple

from aiohttp import web

from antiphon.gateway.status import engines_status, running_status
from antiphon.http.answers import to_json
from antiphon.http.app_keys import GATEWAY, KEYRING
from antiphon.http.keyring import ADMIN
from antiphon.http.middlewares import OWNER


class GatewayDescription(NamedTuple):
    version: str
    # In seconds since 1970.
    started: float
    # The kind of its store: sqlite, postgres or memory.
    store: str


DESCRIPTION = web.AppKey("description", GatewayDescription)


async def engines(request: web.Request) -> web.Response:
    """A key sees its own responses in flight. The admin key sees all, and so does everybody where no keys are set."""
    gateway, owner = request.app[GATEWAY], request[OWNER]
    sees_all = owner == ADMIN or not request.app[KEYRING]
    description = request.app[DESCRIPTION]._asdict() | {
        "url": f"{request.scheme}://{request.host}",
        "pid": os.getpid() if sees_all else None,
        "ready": gateway.pool.ready,
    }
    running = running_status(gateway, None if sees_all else owner)
    return to_json({"gateway": description, "engines": engines_status(gateway), "running": running})
