"""GET /inspector/engines: what the gateway is doing right now, for `antiphon ps`, `antiphon doctor` and the inspector."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiohttp import web

from antiphon.gateway.runs.status import engines_status, running_status
from antiphon.server.answers import to_json
from antiphon.server.app_keys import GATEWAY, KEYRING
from antiphon.server.keyring import ADMIN
from antiphon.server.merged_lists import added_up, to_plain
from antiphon.server.request_state import OWNER
from antiphon.server.siblings import SIBLINGS


class GatewayDescription(NamedTuple):
    version: str
    # The gateway itself, whatever has become of its worker processes. In seconds since 1970.
    started: float
    # The kind of its store: sqlite, postgres or memory.
    store: str


DESCRIPTION = web.AppKey("description", GatewayDescription)
# Of this process, in seconds since 1970.
PROCESS_STARTED = web.AppKey("process_started", float)


async def engines(request: web.Request) -> web.Response:
    """A key sees its own responses in flight. The admin key sees all, and so does everybody where no keys are set."""
    gateway, owner = request.app[GATEWAY], request[OWNER]
    sees_all = owner == ADMIN or not request.app[KEYRING]
    siblings = request.app[SIBLINGS]
    description = request.app[DESCRIPTION]._asdict() | {
        "url": f"{request.scheme}://{request.host}",
        "pid": (siblings.supervisor or os.getpid()) if sees_all else None,
        "ready": gateway.pool.ready,
    }
    if siblings.supervisor is not None and sees_all:
        # The one that answers, and all of them.
        description["worker"] = siblings.slot
        started = {siblings.slot: request.app[PROCESS_STARTED]}
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
