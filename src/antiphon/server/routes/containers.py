"""Containers: created, listed, retrieved and deleted, and their files. Requests about a container that is in another worker
process are answered there."""

import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import aiohttp
import msgspec
from aiohttp import web

from antiphon.core.hosted.hosted_tool import check_container, containers_in
from antiphon.core.hosted.rows import HOSTED
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.stream.file_links import FOLDER
from antiphon.errors import EngineUnavailable, InvalidRequest, NotFound, quoted
from antiphon.patterns import late_pattern
from antiphon.sandbox.containers.container import Container, ContainerFile, slot_of
from antiphon.sandbox.containers.container_files import NO_SUCH_FILE, ContainerExpired
from antiphon.sandbox.containers.containers import MINUTES, Containers
from antiphon.server.answers import to_json
from antiphon.server.bodies import Bodies
from antiphon.server.pages import cut_by_id, query_to_page, to_list, to_timestamp
from antiphon.server.parts import APP
from antiphon.server.paths import is_form, speaks
from antiphon.server.request_state import OWNER
from antiphon.server.routes.files import BYTES, GUARDED, SAFE_TYPES, disposition_of
from antiphon.server.routes.files import not_found as no_such_file
from antiphon.server.routes.multipart import form_parts
from antiphon.server.siblings import Sibling
from antiphon.wire.containers import AddFile, ContainerFileObject, ContainerObject, CreateContainer, Deleted, ExpiresAfter
from antiphon.wire.responses import CreateResponse

P = ParamSpec("P")

# An id in stored items.
ID = late_pattern(rb'"(cntr_[0-9a-f]+)"')
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


NO_CONTAINERS = "There are no containers here. {reason}"
SWITCHED_OFF = "The setting containers.enabled is false."
NO_SKILLS = "Invalid `skills`: there are no skills here. Upload their files to the container."
NO_FILE = 'Missing `file`: send the file as `multipart/form-data`, or the id of an uploaded one as JSON: {"file_id": "…"}.'


async def create(request: web.Request, bodies: Bodies) -> web.Response:
    containers = await _containers(request)
    body, notices, _ = await bodies.read_fields(request, CreateContainer)
    check_container(body.memory_limit, body.network_policy, containers.limits.memory, "")
    if body.skills:
        raise InvalidRequest(NO_SKILLS, param="skills", code="unsupported_parameter")
    owner = request[OWNER]
    records = await containers.check_uploads(owner, body.file_ids or (), "file_ids")
    minutes = MINUTES if body.expires_after is None else body.expires_after.minutes
    made = await containers.create(owner, body.name, minutes=minutes, memory_limit=body.memory_limit or "1g")
    try:
        await containers.copy(made, records)
    except ContainerExpired:
        # Another request has deleted it meanwhile.
        raise _not_found(made.id) from None
    except BaseException:
        # Half of it is of no use.
        await containers.delete(owner, made.id)
        raise
    return to_json(_to_object(made), notices)


async def list_all(request: web.Request) -> web.Response:
    containers, page = await _containers(request), query_to_page(request.query)
    objects = [msgspec.to_builtins(_to_object(each)) for each in containers.of_owner(request[OWNER])]
    # One key has few of them: those of another process fit on one page.
    others = await request.app[APP].siblings.objects(request, f"{request.path}?limit=100")
    objects += [each for other in others for each in other["data"]]
    name = request.query.get("name")
    return to_json(to_list(cut_by_id([each for each in objects if name in (None, each["name"])], page), page))


@in_its_worker
async def retrieve(request: web.Request) -> web.Response:
    """Also one that has expired, as long as it is known."""
    id = request.match_info["id"]
    found = (await _containers(request)).seen(request[OWNER], id)
    if found is None:
        raise _not_found(id)
    return to_json(_to_object(found))


@in_its_worker
async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    if not await (await _containers(request)).delete(request[OWNER], id):
        raise _not_found(id)
    return to_json(Deleted(id=id, object="container.deleted"))


# ---- files -----------------------------------------------------------------------------------------------------------


@in_its_worker
async def create_file(request: web.Request, bodies: Bodies) -> web.Response:
    containers, container = await _container(request)
    try:
        file = await _add_file(request, bodies, containers, container)
    except ContainerExpired:
        raise _not_found(container.id) from None
    return to_json(_file_to_object(container, file))


async def _add_file(request: web.Request, bodies: Bodies, containers: Containers, container: Container) -> ContainerFile:
    if not is_form(request):
        body = await bodies.read_fields(request, AddFile)
        return await _copy(request, containers, container, body.value.file_id)
    async for part in form_parts(request):
        if part.name == "file_id":
            return await _copy(request, containers, container, await part.text())
        if part.name == "file":
            return await containers.add(container, part.filename or "file", part.pieces())
    raise InvalidRequest(NO_FILE, param="file", code="missing_required_parameter")


async def _copy(request: web.Request, containers: Containers, container: Container, id: str | None) -> ContainerFile:
    if not id:
        raise InvalidRequest(NO_FILE, param="file", code="missing_required_parameter")
    found = await containers.uploads.find(request[OWNER], {id})
    if id not in found:
        problem = f"Invalid `file_id`: {NO_SUCH_FILE.format(id=quoted(id))}."
        raise InvalidRequest(problem, param="file_id", code="file_not_found")
    (file,) = await containers.copy(container, [found[id]])
    return file


@in_its_worker
async def list_files(request: web.Request) -> web.Response:
    (_, container), page = await _container(request), query_to_page(request.query)
    objects = [msgspec.to_builtins(_file_to_object(container, file)) for file in container.files.values()]
    return to_json(to_list(cut_by_id(objects, page), page))


@in_its_worker
async def retrieve_file(request: web.Request) -> web.Response:
    _, container = await _container(request)
    return to_json(_file_to_object(container, _file(request, container)))


@in_its_worker
async def delete_file(request: web.Request) -> web.Response:
    containers, container = await _container(request)
    file = _file(request, container)
    try:
        await containers.remove_file(container, file)
    except ContainerExpired:
        raise _not_found(container.id) from None
    return to_json(Deleted(id=file.id, object="container.file.deleted"))


@in_its_worker
async def file_content(request: web.Request) -> web.StreamResponse:
    containers, container = await _container(request)
    file = _file(request, container)
    async with aclosing(containers.read(container, file)) as pieces:
        return await _send_file(request, container, file, pieces)


async def _send_file(
    request: web.Request, container: Container, file: ContainerFile, pieces: AsyncIterator[bytes]
) -> web.StreamResponse:
    try:
        first = await anext(pieces, b"")
    except FileNotFoundError:
        raise _file_not_found(container.id, file.id) from None
    disposition = f"attachment; {disposition_of(file.name.rpartition('/')[2])}"
    answer = web.StreamResponse(headers={**GUARDED, "Content-Disposition": disposition})
    guessed = mimetypes.guess_type(file.name)[0]
    answer.content_type = guessed if guessed in SAFE_TYPES else BYTES
    await answer.prepare(request)
    if request.method == "HEAD":
        return answer
    if first:
        await answer.write(first)
    async for piece in pieces:
        await answer.write(piece)
    await answer.write_eof()
    return answer


# ---- files that code has written, as Anthropic's clients ask for them: by their ids alone -------------------------------


def _by_id(
    handler: Callable[[web.Request, Containers, Container, ContainerFile], Awaitable[web.StreamResponse]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    @wraps(handler)
    async def answer(request: web.Request) -> web.StreamResponse:
        id, containers = request.match_info["id"], request.app[APP].resources.containers
        if containers is None or not speaks(request, MESSAGES):
            raise no_such_file(id)
        for container in containers.of_owner(request[OWNER]):
            if (file := container.file(id)) is not None:
                return await handler(request, containers, container, file)
        return await request.app[APP].siblings.relay_found(request, no_such_file(id))

    return answer


@_by_id
async def made_file(request: web.Request, containers: Containers, container: Container, file: ContainerFile) -> web.Response:
    name = file.name.rpartition("/")[2]
    return to_json(
        {
            "id": file.id,
            "type": "file",
            "filename": name,
            "mime_type": mimetypes.guess_type(name)[0] or BYTES,
            "size_bytes": file.size,
            "created_at": to_timestamp(file.created_at),
            "downloadable": True,
        }
    )


@_by_id
async def made_content(
    request: web.Request, containers: Containers, container: Container, file: ContainerFile
) -> web.StreamResponse:
    async with aclosing(containers.read(container, file)) as pieces:
        return await _send_file(request, container, file, pieces)


@_by_id
async def delete_made(request: web.Request, containers: Containers, container: Container, file: ContainerFile) -> web.Response:
    try:
        await containers.remove_file(container, file)
    except ContainerExpired:
        raise no_such_file(file.id) from None
    return to_json({"id": file.id, "type": "file_deleted"})


# ---- what is there ---------------------------------------------------------------------------------------------------


async def _containers(request: web.Request) -> Containers:
    """Raises InvalidRequest where code cannot be run."""
    containers = request.app[APP].resources.containers
    reason = SWITCHED_OFF if containers is None else await containers.complaint()
    if containers is None or reason is not None:
        raise InvalidRequest(NO_CONTAINERS.format(reason=reason), code="containers_unavailable")
    return containers


async def _container(request: web.Request) -> tuple[Containers, Container]:
    id = request.match_info["id"]
    containers = await _containers(request)
    container = containers.get(request[OWNER], id)
    if container is None:
        raise _expired() if containers.seen(request[OWNER], id) is not None else _not_found(id)
    return containers, container


def _file(request: web.Request, container: Container) -> ContainerFile:
    id = request.match_info["file_id"]
    file = container.file(id)
    if file is None:
        raise _file_not_found(container.id, id)
    return file


def _expired() -> NotFound:
    return NotFound("Container is expired. Create another one.", code="container_expired")


def _not_found(id: str) -> NotFound:
    return NotFound(f"Container with id {quoted(id)} not found.", code="container_not_found")


def _file_not_found(container: str, id: str) -> NotFound:
    return NotFound(f"File with id {quoted(id)} not found in container {quoted(container)}.", code="file_not_found")


def _to_object(container: Container) -> ContainerObject:
    return ContainerObject(
        id=container.id,
        name=container.name,
        created_at=container.created_at,
        status="expired" if container.has_expired else "running",
        expires_after=ExpiresAfter("last_active_at", container.minutes),
        last_active_at=int(container.last_active_at),
        memory_limit=container.memory_limit,
    )


def _file_to_object(container: Container, file: ContainerFile) -> ContainerFileObject:
    return ContainerFileObject(
        id=file.id,
        container_id=container.id,
        created_at=file.created_at,
        bytes=file.size,
        path=FOLDER + file.name,
        source=file.source,
    )
