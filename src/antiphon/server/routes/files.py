"""Files: uploaded, listed, retrieved, downloaded and deleted."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest, NotFound, quoted
from antiphon.files.library import FileLibrary, Upload
from antiphon.ids import ADMIN
from antiphon.patterns import late_pattern
from antiphon.server.answers import notice_header, to_json
from antiphon.server.pages import to_timestamp
from antiphon.server.parts import APP
from antiphon.server.paths import speaks
from antiphon.server.request_state import OWNER
from antiphon.server.routes.multipart import FormPart, form_parts
from antiphon.store.files.records import NEVER, FileRecord

# What the API lets clients upload files for.
PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
# What Anthropic's clients, which name no purpose, upload files for; and their names for the page of a list.
FOR_MESSAGES = "user_data"
FILE_PAGE_OF_MESSAGES = {"after_id": "after", "page": "after", "limit": "limit"}
# Seconds after which a file may expire. Files for batches do so unless something else is said, as in OpenAI's API.
SHORTEST_LIFE, LONGEST_LIFE = 3_600, 2_592_000
LIVES = {"batch": LONGEST_LIFE}
# The most of Anthropic's API.
LONGEST_LIFE_OF_MESSAGES = 7_776_000
LONGEST_FILENAME = 255
# What a form adds to its file, in bytes: far more than any client writes.
MOST_AROUND_FILE = 1024 * 1024

# Types that no browser takes for a page or a program. Everything else is served as plain bytes.
SAFE_TYPES = frozenset(
    {
        *("text/plain", "text/csv", "text/markdown", "application/json", "application/jsonl", "application/pdf"),
        *("image/png", "image/jpeg", "image/gif", "image/webp", "audio/mpeg", "audio/wav", "video/mp4"),
    }
)
BYTES = "application/octet-stream"
# A page that shows it must neither guess its type nor run anything in it.
GUARDED = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
# A type, with the encoding of a text if that is said.
_TYPE = late_pattern(r"([\w.+-]{1,100}/[\w.+-]{1,100})\s*(;\s*charset=\"?[\w.:-]{1,40}\"?)?", re.ASCII | re.IGNORECASE)
_ID = late_pattern(r"file-[0-9a-zA-Z_-]{1,100}")
# In a header, all others are percent-encoded.
_PLAIN = "!#$&+-.^_`|~"


# ---- uploading -------------------------------------------------------------------------------------------------------


class UploadForm:
    """The form of an upload. Its parts may come in any order, so the file is received before all is known of it."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.content_type: str | None = None
        self.notices: list[str] = []

    async def read(self, request: web.Request, upload: Upload) -> None:
        async for part in form_parts(request):
            if part.name in self.fields or (part.name == "file" and self.filename is not None):
                raise _invalid(part.name, "it was sent twice", "duplicate_parameter")
            if part.name == "file":
                await self._receive(part, upload)
            elif (check := FIELDS.get(part.name)) is not None:
                self.fields[part.name] = text = await part.text()
                check(text, part.name)
            else:
                self.notices.append(f"unknown field {quoted(part.name)} was ignored")

    async def _receive(self, part: FormPart, upload: Upload) -> None:
        if part.filename is None:
            raise _invalid("file", "it must be a file: a part with a filename", "invalid_type")
        self.filename = to_filename(part.filename)
        self.content_type = part.content_type if _TYPE.fullmatch(part.content_type or "") else None
        async for piece in part.pieces():
            await upload.write(piece)

    async def finish(self, upload: Upload, default_purpose: str | None) -> FileRecord:
        """All parts have been read."""
        if self.filename is None:
            raise _missing("file")
        if (purpose := self.fields.get("purpose", default_purpose)) is None:
            raise _missing("purpose")
        anchor, seconds = self.fields.get(ANCHOR), self.fields.get(SECONDS)
        if (anchor is None) != (seconds is None):
            raise _missing(ANCHOR if anchor is None else SECONDS)
        own = self.fields.get(OWN_SECONDS)
        life = int(seconds or own or 0) or LIVES.get(purpose)
        return await upload.finish(self.filename, purpose, expires_after=life, content_type=self.content_type)


def _check_purpose(purpose: str, where: str) -> None:
    if purpose not in PURPOSES:
        raise _invalid(where, f"it must be one of: {', '.join(PURPOSES)}. It is {quoted(purpose)}")


def _check_anchor(anchor: str, where: str) -> None:
    if anchor != "created_at":
        raise _invalid(where, f"it must be created_at. It is {quoted(anchor)}")


def _check_seconds(seconds: str, where: str) -> None:
    is_number = seconds.isascii() and seconds.isdigit() and len(seconds) < 10
    longest = LONGEST_LIFE if where == SECONDS else LONGEST_LIFE_OF_MESSAGES
    if not is_number or not SHORTEST_LIFE <= int(seconds) <= longest:
        raise _invalid(where, f"it must be a whole number from {SHORTEST_LIFE} to {longest}. It is {quoted(seconds)}")


ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
# As Anthropic's clients say it.
OWN_SECONDS = "expires_in_seconds"
FIELDS: dict[str, Callable[[str, str], None]] = {
    "purpose": _check_purpose,
    ANCHOR: _check_anchor,
    SECONDS: _check_seconds,
    OWN_SECONDS: _check_seconds,
}


def to_filename(given: str) -> str:
    """The last part of a path, as browsers send it. It is a name for people: on the disk, a file has the name of its id."""
    name = given.rpartition("/")[2].replace("\0", "\ufffd").strip()
    if len(name) > LONGEST_FILENAME:
        raise _invalid("file", f"its name may have {LONGEST_FILENAME} characters at most", "string_above_max_length")
    return "file" if name in ("", ".", "..") else name


def _invalid(param: str, problem: str, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(f"Invalid `{param}`: {problem}.", param=param, code=code)


def _missing(param: str) -> InvalidRequest:
    return InvalidRequest(f"`{param}` is required.", param=param, code="missing_required_parameter")


async def create(request: web.Request) -> web.Response:
    library, form = request.app[APP].resources.files, UploadForm()
    # Before anything of it is read.
    library.limits.check_size((request.content_length or 0) - MOST_AROUND_FILE)
    async with library.receiving(request[OWNER]) as upload:
        await form.read(request, upload)
        record = await form.finish(upload, FOR_MESSAGES if speaks(request, MESSAGES) else None)
    return to_json(_shown(request, record), notice_header(form.notices))


# ---- what was uploaded -----------------------------------------------------------------------------------------------


class FilePage(Struct, frozen=True):
    """The page that a client asks for. By default the newest comes first."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: str | None = None


async def list_files(request: web.Request) -> web.Response:
    if speaks(request, MESSAGES) and ((ids := request.query.getall("ids[]", [])) or "scope_id" in request.query):
        # There are no sessions that files could belong to.
        found = await request.app[APP].resources.files.find(request[OWNER], ids)
        return to_json(_to_list(request, [found[id] for id in dict.fromkeys(ids) if id in found], len(ids)))
    names = FILE_PAGE_OF_MESSAGES if speaks(request, MESSAGES) else dict.fromkeys(FilePage.__struct_fields__)
    given = {known or name: request.query[name] for name, known in names.items() if name in request.query}
    page = convert_strings(given, FilePage)
    if page.after is not None and _ID.fullmatch(page.after) is None:
        raise _invalid("after", f"it must be the id of a file. It is {quoted(page.after)}")
    ascending = page.order == "asc"
    records = await request.app[APP].resources.files.list(
        request[OWNER], purpose=page.purpose, after=page.after, limit=page.limit + 1, ascending=ascending
    )
    return to_json(_to_list(request, records, page.limit))


async def retrieve(request: web.Request) -> web.Response:
    return to_json(_shown(request, await _found(request)))


async def delete(request: web.Request) -> web.Response:
    library, id = request.app[APP].resources.files, request.match_info["id"]
    if not await library.delete(await _owner_seen(request, library, id), id):
        raise not_found(id)
    is_message = speaks(request, MESSAGES)
    return to_json({"id": id, "type": "file_deleted"} if is_message else {"id": id, "object": "file", "deleted": True})


async def content(request: web.Request) -> web.StreamResponse:
    return await send(request, await _found(request))


async def send(request: web.Request, record: FileRecord) -> web.StreamResponse:
    """Streamed: a file may be larger than the memory."""
    answer = web.StreamResponse(headers={**GUARDED, "Content-Disposition": f"attachment; {disposition_of(record.filename)}"})
    kind = (record.content_type or "").partition(";")[0].strip().lower()
    answer.content_type = kind if kind in SAFE_TYPES else BYTES
    answer.content_length = record.size
    if request.method == "HEAD":
        await answer.prepare(request)
        return answer
    pieces = request.app[APP].resources.files.read(record)
    # What goes wrong at once is an error, and not a body that breaks off.
    first = await anext(pieces, b"")
    await answer.prepare(request)
    await answer.write(first)
    async for piece in pieces:
        await answer.write(piece)
    await answer.write_eof()
    return answer


def disposition_of(filename: str) -> str:
    """As RFC 6266 has it: every client can read the second form, and the first is for those that are older than it."""
    plain = "".join(letter if " " <= letter <= "~" and letter not in '"\\%' else "_" for letter in filename)
    return f"filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe=_PLAIN, errors='replace')}"


async def _found(request: web.Request) -> FileRecord:
    library, id = request.app[APP].resources.files, request.match_info["id"]
    record = await library.get(await _owner_seen(request, library, id), id)
    if record is None:
        raise not_found(id)
    return record


async def _owner_seen(request: web.Request, library: FileLibrary, id: str) -> str:
    """Whose file a request may read and delete: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    return await library.owner_of(id) or owner if owner == ADMIN else owner


def not_found(id: str) -> NotFound:
    return NotFound(f"No such file: {quoted(id)}.", param="id", code="file_not_found")


def to_object(record: FileRecord) -> dict[str, Any]:
    expiry = {"expires_at": record.expires_at} if record.expires_at != NEVER else {}
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": record.created_at,
        **expiry,
        "filename": record.filename,
        "purpose": record.purpose,
        "status": "processed",
    }


def _shown(request: web.Request, record: FileRecord) -> dict[str, Any]:
    """In the protocol of the client."""
    return _to_anthropic(record) if speaks(request, MESSAGES) else to_object(record)


def _to_anthropic(record: FileRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "type": "file",
        "filename": record.filename,
        "mime_type": record.content_type or BYTES,
        "size_bytes": record.size,
        "created_at": to_timestamp(record.created_at),
        "downloadable": True,
        **({"expires_at": to_timestamp(record.expires_at)} if record.expires_at != NEVER else {}),
    }


def _to_list(request: web.Request, records: Sequence[FileRecord], limit: int) -> dict[str, Any]:
    shown, has_more = [_shown(request, record) for record in records[:limit]], len(records) > limit
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    # Anthropic's newer clients ask for the next page by what the last one says.
    own = {"next_page": last if has_more else None} if speaks(request, MESSAGES) else {"object": "list"}
    return {**own, "data": shown, "first_id": first, "last_id": last, "has_more": has_more}
