"""Files that are uploaded in parts: each part is stored by itself, and the file is made of them at the end."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from antiphon.errors import BodyTooLarge, InvalidRequest, NotFound, counted, quoted
from antiphon.files.library import FileLibrary
from antiphon.files.library import Upload as ArrivingFile
from antiphon.store.files import uploads as operations
from antiphon.store.files.files import BytesUsed
from antiphon.store.files.records import FileRecord, PartRecord, UploadRecord
from antiphon.store.operations import Database
from antiphon.store.protocol import FileStore
from antiphon.wire.uploads import CompleteUpload, CreateUpload

# Seconds that an upload has for all of its parts; it can be looked at for as long.
LIFE = 3_600
# As OpenAI's API has it.
LARGEST_PART = 64 * 1024 * 1024
SWEPT_UPLOADS = 100


class Uploads:
    """What belongs to another owner is not found."""

    def __init__(self, stored: FileStore, library: FileLibrary, new_id: Callable[[str], str]) -> None:
        self._stored = stored
        self._database: Database = stored.database
        self._library = library
        self._new_id = new_id

    def _now(self) -> int:
        return int(self._database.clock())

    async def create(self, owner: str, body: CreateUpload) -> UploadRecord:
        limits, now = self._library.limits, self._now()
        limits.check_size(body.bytes)
        upload = UploadRecord(
            id=self._new_id("upload"),
            owner=owner,
            created_at=now,
            expires_at=now + LIFE,
            status="pending",
            bytes=body.bytes,
            filename=body.filename,
            purpose=body.purpose,
            content_type=body.mime_type,
            life=None if body.expires_after is None else body.expires_after.seconds,
        )
        reserved = await self._database.write(operations.create(upload, limits.key, limits.all, now))
        if not reserved.is_added:
            limits.check_room(reserved.used, BytesUsed(body.bytes, body.bytes))
        return upload

    async def get(self, owner: str, id: str) -> UploadRecord:
        upload = await self._database.read(operations.get(owner, id))
        if upload is None:
            raise NotFound(f"No such upload: {quoted(id)}.", param="upload_id", code="upload_not_found")
        return upload

    async def _pending(self, owner: str, id: str) -> UploadRecord:
        upload = await self.get(owner, id)
        if upload.status != "pending" or upload.expires_at <= self._now():
            status = upload.status if upload.status != "pending" else "expired"
            raise InvalidRequest(f"The upload {quoted(id)} is {status}.", param="upload_id", code="upload_not_pending")
        return upload

    # ---- parts -------------------------------------------------------------------------------------------------------

    async def begin_part(self, owner: str, id: str) -> AbstractAsyncContextManager[ArrivingFile]:
        """`write()` its pieces, and give it to `add_part`. Its bytes are reserved."""
        await self._pending(owner, id)
        return self._library.receiving(owner, is_ours=True)

    async def add_part(self, owner: str, id: str, arriving: ArrivingFile) -> PartRecord:
        stored = await arriving.close("part", "part", None, None)
        part = PartRecord(id=stored.id, upload=id, created_at=stored.created_at, size=stored.size)
        if not await self._database.write(operations.add_part(owner, part, self._now())):
            upload = await self._pending(owner, id)
            problem = f"The parts of this upload may have {counted(upload.bytes, 'byte')}, as it was created."
            raise BodyTooLarge(problem, param="data", code="upload_too_large")
        arriving.added()
        return part

    async def complete(self, owner: str, id: str, body: CompleteUpload) -> FileRecord:
        upload, parts = await self._pending(owner, id), await self._database.read(operations.parts(id))
        if (missing := next((part for part in body.part_ids if part not in parts), None)) is not None:
            raise InvalidRequest(f"The upload has no part {quoted(missing)}.", param="part_ids", code="part_not_found")
        chosen = [parts[part] for part in dict.fromkeys(body.part_ids)]
        size = sum(part.size for part in chosen)
        if size != upload.bytes or len(chosen) != len(body.part_ids):
            problem = (
                f"The parts have {counted(size, 'byte')}, and the upload was created for {upload.bytes}; each is named once."
            )
            raise InvalidRequest(problem, param="part_ids", code="invalid_parts")
        digest = hashlib.md5(usedforsecurity=False)
        async with self._library.receiving(owner, is_ours=True) as whole:
            for part in chosen:
                async for piece in self._pieces(upload, part):
                    digest.update(piece)
                    await whole.write(piece)
            if body.md5 is not None and body.md5.lower() != digest.hexdigest():
                raise InvalidRequest("The bytes that came have another MD5 checksum.", param="md5", code="invalid_md5")
            file = await whole.close(upload.filename, upload.purpose, upload.life, upload.content_type)
            if not await self._database.write(operations.complete(id, file)):
                # Somebody else was faster.
                await self._pending(owner, id)
            whole.added()
        await self._remove_parts(id)
        return file

    async def _pieces(self, upload: UploadRecord, part: PartRecord) -> AsyncIterator[bytes]:
        record = FileRecord(
            id=part.id, owner=upload.owner, created_at=part.created_at, size=part.size, purpose="part", filename="part"
        )
        async for piece in self._library.read(record):
            yield piece

    async def cancel(self, owner: str, id: str) -> UploadRecord:
        await self._pending(owner, id)
        await self._database.write(operations.cancel(owner, id))
        await self._remove_parts(id)
        return await self.get(owner, id)

    # ---- removing ----------------------------------------------------------------------------------------------------

    async def _remove_parts(self, id: str) -> None:
        """Contents that are left behind are removed as those of other lost uploads are."""
        for part in await self._database.read(operations.parts(id)):
            await self._library.remove_contents(part)
        await self._database.write(operations.forget_parts(id))

    async def sweep(self) -> int:
        """Removes uploads whose time is over. Returns how many."""
        count = 0
        while self._stored.is_used() and (ids := await self._database.read(operations.expired(self._now(), SWEPT_UPLOADS))):
            for id in ids:
                await self._remove_parts(id)
            await self._database.write(operations.remove(ids))
            count += len(ids)
        return count

    async def move_owner(self, earlier: str, owner: str) -> int:
        return await self._database.write(operations.move(earlier, owner)) if self._stored.is_used() else 0
