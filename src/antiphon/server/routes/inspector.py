"""The inspector: its page, and the JSON that the page reads. An owner sees its own requests, the admin key all of them."""

import asyncio
from collections.abc import Callable
from functools import partial, wraps
from itertools import islice
from typing import Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.events.encode import to_frame
from antiphon.core.protocols.responses.read import convert_strings
from antiphon.core.recording.file import recording_to_file
from antiphon.errors import Forbidden, NotFound, Unauthorized
from antiphon.gateway.limits.threads import run_in_view_thread
from antiphon.gateway.state.owners import shown_owner
from antiphon.ids import ADMIN
from antiphon.server.answers import to_json
from antiphon.server.every_request import Handler
from antiphon.server.inspector.inspector import HEADERS, INDEX, PageFile
from antiphon.server.inspector.recordings import RecordedRequest, Recordings
from antiphon.server.inspector.rows import Row
from antiphon.server.inspector.viewers import Viewer
from antiphon.server.inspector.views import Opened, to_view
from antiphon.server.parts import APP, owner_of_key
from antiphon.server.request_state import OWNER
from antiphon.server.siblings import added_up, merge_newest, sibling_frames, to_plain

# A viewer gets changes at most so often, and a sign of life at least so often, in seconds.
SHORTEST_INTERVAL = 0.25
LIFE_INTERVAL = 15.0
LONGEST_NUMBER = 18
SIGN_OF_LIFE = b": still here\n\n"

OFF = (
    "The inspector is switched off: `inspector` is false, or no key is set and other machines can reach the gateway. "
    "Set a key, or set `inspector` to true."
)
HIDDEN = "Texts are not shown here: `inspector_bodies` is false. A recording would have all of them."


class Query(Struct, frozen=True):
    before: Annotated[int, Meta(ge=1)] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    status: Literal["running", "completed", "incomplete", "failed", "cancelled", "refused", "left", "passed"] | None = None
    model: str | None = None
    search: str | None = None


# ---- the page --------------------------------------------------------------------------------------------------------


async def index(request: web.Request) -> web.StreamResponse:
    recordings_of(request)
    return _file(request, INDEX)


async def page_file(request: web.Request) -> web.StreamResponse:
    return _file(request, request.match_info["name"])


def _file(request: web.Request, name: str) -> web.StreamResponse:
    file: PageFile | None = request.app[APP].inspection.inspector.files.get(name)
    if file is None:
        raise NotFound(f"There is no file {name!r} here.")
    headers = {**HEADERS, "ETag": f'"{file.etag}"'}
    if any(tag.value == file.etag for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.data, headers={**headers, "Content-Type": file.type})


# ---- what was recorded -----------------------------------------------------------------------------------------------


async def status(request: web.Request) -> web.StreamResponse:
    inspector, has_keys = request.app[APP].inspection.inspector, bool(request.app[APP].access.keyring)
    recordings = _shown_recordings(request)
    may_see = _may_see(request)
    recording = {
        "on": recordings is not None,
        "bodies": inspector.shows_bodies,
        "bytes": recordings.used if recordings is not None else 0,
        "max_bytes": recordings.most_bytes if recordings is not None else 0,
        "left_out": recordings.left_out if recordings is not None else 0,
        "requests": sum(may_see(each.row) for each in recordings or ()),
    }
    others = [each["recording"] for each in await request.app[APP].siblings.objects(request)]
    recording |= added_up([recording, *others], "bytes", "max_bytes", "left_out", "requests")
    owner = request[OWNER]
    return to_json(
        {
            "version": inspector.version,
            "keys": has_keys,
            "owner": shown_owner(owner) if owner else None,
            "admin": owner == ADMIN or not has_keys,
            "recording": recording,
        }
    )


async def requests(request: web.Request) -> web.StreamResponse:
    inspector, recordings, may_see = request.app[APP].inspection.inspector, recordings_of(request), _may_see(request)
    given = {name: request.query[name] for name in Query.__struct_fields__ if request.query.get(name)}
    query = convert_strings(given, Query)
    search = query.search.lower() if query.search else None
    rows = (
        each.row
        for each in recordings
        if may_see(each.row)
        and (query.before is None or each.row.number < query.before)
        and each.row.matches(query.status, query.model, search, bodies=inspector.shows_bodies)
    )
    found = list(islice(rows, query.limit + 1))
    shown, has_more = [inspector.to_shown(row) for row in found[: query.limit]], len(found) > query.limit
    others = await request.app[APP].siblings.objects(request)
    if not others:
        return to_json({"data": shown, "has_more": has_more})
    lists = [(to_plain(shown), has_more), *((each["data"], each["has_more"]) for each in others)]
    merged, has_more = merge_newest(lists, query.limit, lambda row: row["number"])
    return to_json({"data": merged, "has_more": has_more})


async def forget(request: web.Request) -> web.StreamResponse:
    """All that has ended, and that this key may see."""
    recordings, may_see = recordings_of(request), _may_see(request)
    for each in list(recordings):
        if may_see(each.row) and not each.is_running:
            recordings.forget(each)
    await request.app[APP].siblings.answers(request)
    return web.Response(status=204)


def of_any_worker(handler: Handler) -> Handler:
    """Another worker process answers if it has what is missing in this one."""

    @wraps(handler)
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except NotFound as missing:
            return await request.app[APP].siblings.relay_found(request, missing)

    return answer


@of_any_worker
async def one(request: web.Request) -> web.StreamResponse:
    inspector = request.app[APP].inspection.inspector
    async with request.app[APP].inspection.opening.entered(request[OWNER]) as view:
        opened, previous = inspector.open(_find(request), _opens_seals(request))
        work = partial(_encoded_view, opened, previous, bodies=inspector.shows_bodies)
        body = await view.run(run_in_view_thread(work))
        return await _sent(request, web.Response(body=body, content_type="application/json"))


def _encoded_view(opened: Opened, previous: Opened | None, *, bodies: bool) -> bytes:
    return msgspec.json.encode(to_view(opened, previous, bodies=bodies))


@of_any_worker
async def recording(request: web.Request) -> web.StreamResponse:
    inspector = request.app[APP].inspection.inspector
    async with request.app[APP].inspection.opening.entered(request[OWNER]) as view:
        found = _find(request)
        if not inspector.shows_bodies:
            raise Forbidden(HIDDEN, code="bodies_hidden")
        opened, _ = inspector.open(found, _opens_seals(request))
        if opened.why_not is not None:
            raise NotFound(opened.why_not)
        file = await view.run(run_in_view_thread(partial(recording_to_file, opened.recording, inspector.version)))
        headers = {"Content-Disposition": f'attachment; filename="antiphon-{opened.row.number}.json"'}
        return await _sent(request, web.Response(body=file, content_type="application/json", headers=headers))


async def _sent(request: web.Request, response: web.Response) -> web.Response:
    await response.prepare(request)
    await response.write_eof()
    return response


async def live(request: web.Request) -> web.StreamResponse:
    """Rows as they change. Who reads slowly misses what was in between, and never the last."""
    inspector, recordings = request.app[APP].inspection.inspector, recordings_of(request)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    )
    with recordings.viewers.watching(_may_see(request)) as viewer:
        await response.prepare(request)
        await response.write(SIGN_OF_LIFE)
        elsewhere: list[bytes] = []

        def show(frames: bytes) -> None:
            elsewhere.append(frames)
            viewer.wake()

        async with sibling_frames(request.app[APP].siblings, request, show):
            while not viewer.is_closed:
                rows = await _changed(viewer)
                if (viewer.is_closed and not rows) or not await _may_still_watch(request):
                    break
                frames = [*elsewhere, *(to_frame("row", msgspec.json.encode(inspector.to_shown(row))) for row in rows)]
                elsewhere.clear()
                await response.write(b"".join(frames) or SIGN_OF_LIFE)
                await viewer.pause(SHORTEST_INTERVAL)
    await response.write_eof()
    return response


async def _changed(viewer: Viewer) -> list[Row]:
    """None of them: it is time for a sign of life."""
    try:
        async with asyncio.timeout(LIFE_INTERVAL):
            return await viewer.changed()
    except TimeoutError:
        return []


async def _may_still_watch(request: web.Request) -> bool:
    """The keys may have changed. One that has got a name goes on; where it is another's now, its page asks again."""
    try:
        return await owner_of_key(request) == request.app[APP].gateway.owners.current(request[OWNER])
    except Unauthorized:
        return False


def _find(request: web.Request) -> RecordedRequest:
    number = request.match_info["number"]
    found = recordings_of(request).get(int(number)) if number.isdecimal() and len(number) <= LONGEST_NUMBER else None
    if found is None or not _may_see(request)(found.row):
        raise NotFound(f"There is no request {number} here, or it has been forgotten.")
    return found


def recordings_of(request: web.Request) -> Recordings:
    """Raises NotFound: it is switched off."""
    recordings = _shown_recordings(request)
    if recordings is None:
        raise NotFound(OFF, code="inspector_off")
    return recordings


def _shown_recordings(request: web.Request) -> Recordings | None:
    is_off = request.app[APP].inspection.needs_key and not request.app[APP].access.keyring
    return None if is_off else request.app[APP].inspection.inspector.recordings


def _may_see(request: web.Request) -> Callable[[Row], bool]:
    owner, owners = request[OWNER], request.app[APP].gateway.owners
    if owner == ADMIN or not request.app[APP].access.keyring:
        return lambda row: True
    # A key may have got a name since, also while it watches.
    return lambda row: owners.current(row.owner) == owners.current(owner)


def _opens_seals(request: web.Request) -> Callable[[Row], bool]:
    """Its owner's do. Those made while no key was needed open for every key."""
    owner, owners = request[OWNER], request.app[APP].gateway.owners
    return lambda row: owners.current(row.owner) in ("", owner)
