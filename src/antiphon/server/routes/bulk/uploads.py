"""/v1/uploads: large files, part by part."""

from aiohttp import web

from antiphon.errors import BodyTooLarge, InvalidRequest, counted, quoted
from antiphon.files.library import Upload as ArrivingFile
from antiphon.files.uploads import LARGEST_PART
from antiphon.server.answers import notice_header, to_json
from antiphon.server.bodies import Bodies
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.server.routes.files import MOST_AROUND_FILE, PURPOSES, to_filename, to_object
from antiphon.server.routes.multipart import form_parts
from antiphon.store.files.records import FileRecord, UploadRecord
from antiphon.wire.uploads import CompleteUpload, CreateUpload, Upload, UploadPart

TOO_LARGE = "A part may have {most}."


async def create(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CreateUpload)
    if body.purpose not in PURPOSES:
        problem = f"Invalid `purpose`: it must be one of: {', '.join(PURPOSES)}. It is {quoted(body.purpose)}."
        raise InvalidRequest(problem, param="purpose", code="invalid_value")
    body.filename = to_filename(body.filename)
    return to_json(_shown(await request.app[APP].resources.uploads.create(request[OWNER], body)), notices)


async def add_part(request: web.Request) -> web.Response:
    uploads, id = request.app[APP].resources.uploads, request.match_info["id"]
    if (request.content_length or 0) - MOST_AROUND_FILE > LARGEST_PART:
        raise _too_large()
    async with await uploads.begin_part(request[OWNER], id) as arriving:
        notices = await _receive(request, arriving)
        part = await uploads.add_part(request[OWNER], id, arriving)
    return to_json(UploadPart(part.id, part.created_at, id), notice_header(notices))


async def _receive(request: web.Request, arriving: ArrivingFile) -> list[str]:
    notices, has_data = [], False
    async for part in form_parts(request):
        if part.name != "data":
            notices.append(f"unknown field {quoted(part.name)} was ignored")
            continue
        if has_data:
            raise InvalidRequest("Invalid `data`: it was sent twice.", param="data", code="duplicate_parameter")
        has_data = True
        async for piece in part.pieces():
            await arriving.write(piece)
            if arriving.size > LARGEST_PART:
                raise _too_large()
    if not has_data:
        raise InvalidRequest("`data` is required.", param="data", code="missing_required_parameter")
    return notices


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(TOO_LARGE.format(most=counted(LARGEST_PART, "byte")), param="data", code="part_too_large")


async def complete(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CompleteUpload)
    uploads, owner, id = request.app[APP].resources.uploads, request[OWNER], request.match_info["id"]
    file = await uploads.complete(owner, id, body)
    return to_json(_shown(await uploads.get(owner, id), file), notices)


async def cancel(request: web.Request) -> web.Response:
    return to_json(_shown(await request.app[APP].resources.uploads.cancel(request[OWNER], request.match_info["id"])))


def _shown(upload: UploadRecord, file: FileRecord | None = None) -> Upload:
    return Upload(
        id=upload.id,
        bytes=upload.bytes,
        created_at=upload.created_at,
        filename=upload.filename,
        purpose=upload.purpose,
        status=upload.status,
        expires_at=upload.expires_at,
        file=None if file is None else to_object(file),
    )
