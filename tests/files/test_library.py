"""Files and their contents, with every kind of store."""

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.postgres import PostgresServer
from support.stores import Clock

from antiphon.errors import BodyTooLarge, StoreUnavailable
from antiphon.files.contents import PIECE, FolderWriter
from antiphon.files.library import FileLibrary, FileLimits
from antiphon.ids import new_id
from antiphon.store import Store, open_store
from antiphon.store.files.records import NEVER, FileRecord

HOUR = 3600


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def added(library: FileLibrary, owner: str = "ada", content: bytes = b"Hello", **options: int) -> FileRecord:
    return await library.create(owner, "a.txt", "user_data", pieces(content), content_type="text/plain", **options)


async def content_of(library: FileLibrary, record: FileRecord) -> bytes:
    return b"".join([piece async for piece in library.read(record)])


async def test_a_file_is_read_as_it_was_written(library: FileLibrary) -> None:
    content = bytes(range(256)) * (PIECE // 100)
    record = await library.create("ada", "a.bin", "user_data", pieces(content[:5], content[5:700_000], content[700_000:]))
    assert record == await library.get("ada", record.id)
    assert (record.size, record.expires_at, record.filename) == (len(content), NEVER, "a.bin")
    assert await content_of(library, record) == content
    assert max([len(piece) async for piece in library.read(record)]) < len(content)


async def test_an_empty_file_is_a_file(library: FileLibrary) -> None:
    record = await library.create("ada", "empty", "user_data", pieces())
    assert (record.size, await content_of(library, record)) == (0, b"")


async def test_a_local_copy_can_be_read_by_its_path(library: FileLibrary) -> None:
    record = await added(library)
    async with library.local_copy(record) as path:
        assert path.read_bytes() == b"Hello"
    assert await content_of(library, record) == b"Hello"


async def test_another_owners_file_is_not_there(library: FileLibrary) -> None:
    record = await added(library)
    assert await library.get("bob", record.id) is None
    assert await library.find("bob", [record.id]) == {}
    assert await library.list("bob", limit=10) == []
    assert not await library.delete("bob", record.id)
    assert await library.find("ada", [record.id, "file-x"]) == {record.id: record}
    assert await library.owner_of(record.id) == "ada"


async def test_files_are_listed_page_by_page_also_if_they_are_deleted_meanwhile(library: FileLibrary) -> None:
    files = [await added(library) for _ in range(5)]
    other = await library.create("ada", "b.txt", "vision", pieces(b"b"))
    assert await library.list("ada", limit=10, ascending=True) == [*files, other]
    newest = await library.list("ada", limit=3)
    assert newest == [other, files[4], files[3]]
    for record in newest:
        assert await library.delete("ada", record.id)
    assert await library.list("ada", limit=3, after=newest[-1].id) == [files[2], files[1], files[0]]
    assert await library.list("ada", limit=3, purpose="vision") == []


async def test_a_deleted_file_leaves_nothing_and_what_was_made_of_it_is_removed_first(
    library: FileLibrary, store: Store
) -> None:
    record = await added(library)
    forgotten: list[FileRecord | None] = []

    async def forget(id: str) -> None:
        forgotten.append(await library.get("ada", id))

    library.on_delete.append(forget)
    assert await library.delete("ada", record.id)
    assert forgotten == [record]
    assert not await library.delete("ada", record.id)
    assert await library.sweep() == 0


async def test_a_file_expires_and_is_swept(library: FileLibrary, clock: Clock) -> None:
    record, other = await added(library, expires_after=HOUR), await added(library)
    assert record.expires_at == record.created_at + HOUR
    forgotten: list[str] = []

    async def forget(id: str) -> None:
        forgotten.append(id)

    library.on_delete.append(forget)
    clock.forward(HOUR)
    assert await library.get("ada", record.id) is None
    assert await library.list("ada", limit=10) == [other]
    assert await library.sweep() == 1
    assert forgotten == [record.id]
    assert await content_of(library, other) == b"Hello"


async def test_a_file_that_is_too_large_is_refused_while_it_comes_and_leaves_nothing(store: Store) -> None:
    library = FileLibrary(store.files, FileLimits(file=2 * PIECE), new_id, lost_age=-1)
    read: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            read.append(PIECE // 2)
            yield bytes(PIECE // 2)

    with pytest.raises(BodyTooLarge) as refused:
        await library.create("ada", "a", "user_data", endless())
    assert refused.value.code == "file_too_large"
    assert sum(read) == 2 * PIECE + PIECE // 2
    assert await library.list("ada", limit=10) == []
    assert await library.sweep() == 0


@pytest.mark.parametrize(("limits", "who"), [(FileLimits(key=8), "ada"), (FileLimits(all=8), "bob")])
async def test_where_there_is_no_room_nothing_is_removed(store: Store, clock: Clock, limits: FileLimits, who: str) -> None:
    library = FileLibrary(store.files, limits, new_id, lost_age=-1)
    record = await added(library, expires_after=HOUR)
    with pytest.raises(BodyTooLarge) as refused:
        await added(library, who)
    assert refused.value.code == "file_storage_full"
    assert await content_of(library, record) == b"Hello"
    assert await library.sweep() == 0
    clock.forward(HOUR)
    # An expired file takes no room.
    assert await added(library, who)


async def test_the_room_of_one_key_is_not_that_of_another(store: Store) -> None:
    library = FileLibrary(store.files, FileLimits(key=8), new_id)
    await added(library)
    assert await added(library, "bob")


async def test_uploads_at_the_same_time_do_not_fill_the_same_room(store: Store) -> None:
    library = FileLibrary(store.files, FileLimits(key=8), new_id, lost_age=-1)
    async with library.receiving("ada") as first, library.receiving("ada") as second:
        await first.write(b"12345")
        with pytest.raises(BodyTooLarge):
            await second.write(b"12345")
        await first.finish("a", "user_data")
    # Another gateway, which knows nothing of the uploads of this one.
    async with FileLibrary(store.files, FileLimits(key=8), new_id).receiving("ada") as third:
        await third.write(b"123")
        async with FileLibrary(store.files, FileLimits(key=8), new_id).receiving("ada") as fourth:
            await fourth.write(b"123")
            await fourth.finish("b", "user_data")
        with pytest.raises(BodyTooLarge):
            await third.finish("c", "user_data")
    assert [record.filename for record in await library.list("ada", limit=10)] == ["b", "a"]
    assert await library.sweep() == 0


async def test_a_client_that_leaves_leaves_nothing(library: FileLibrary) -> None:
    began = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield bytes(PIECE)
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(library.create("ada", "a", "user_data", stuck()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await library.list("ada", limit=10) == []
    assert await library.sweep() == 0


async def test_what_a_killed_gateway_left_of_an_upload_is_swept_when_it_is_old(library: FileLibrary, store: Store) -> None:
    kept = await added(library)
    receiving = library.receiving("ada")
    upload = await receiving.__aenter__()
    await upload.write(bytes(2 * PIECE))
    young = FileLibrary(store.files, FileLimits(), new_id)
    assert await young.sweep() == 0
    assert await library.list("ada", limit=10) == [kept]
    assert await library.sweep() == 1
    assert await content_of(library, kept) == b"Hello"


async def test_contents_whose_row_was_never_written_are_swept(library: FileLibrary) -> None:
    receiving = library.receiving("ada")
    upload = await receiving.__aenter__()
    await upload.write(bytes(PIECE))
    await upload._writer.finish()
    assert await library.sweep() == 1
    assert await library.sweep() == 0


async def test_an_upload_that_was_swept_while_it_came_is_not_a_file(library: FileLibrary) -> None:
    async with library.receiving("ada") as upload:
        await upload.write(bytes(PIECE))
        assert await library.sweep() == 1
        await upload.write(bytes(PIECE))
        with pytest.raises(StoreUnavailable):
            await upload.finish("a", "user_data")
    assert await library.list("ada", limit=10) == []


async def test_contents_that_are_gone_are_an_error_and_not_a_shorter_file(library: FileLibrary) -> None:
    record = await added(library)
    await library._contents.remove(record.id)
    with pytest.raises(StoreUnavailable):
        await content_of(library, record)
    with pytest.raises(StoreUnavailable):
        async with library.local_copy(record):
            pass


async def test_the_files_of_a_key_follow_its_name(library: FileLibrary) -> None:
    files = [await added(library, "hash") for _ in range(3)]
    assert await library.move_owner("hash", "ada") == 3
    assert [record.id for record in await library.list("ada", limit=10, ascending=True)] == [each.id for each in files]
    assert await library.list("hash", limit=10) == []


async def test_the_name_on_the_disk_is_the_id_and_only_the_user_may_read_it(tmp_path: Path) -> None:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}") as store:
        library = FileLibrary(store.files, FileLimits(), new_id)
        record = await library.create("ada", "../../evil", "user_data", pieces(b"x"))
        (path,) = (tmp_path / "responses.files" / "contents").iterdir()
    assert path.name == record.id
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


async def test_a_disk_that_is_full_is_a_503_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: ASYNC230, SIM115 - a device, which the writer closes
    with contextlib.closing(full), pytest.raises(StoreUnavailable, match="No space left on device"):
        await FolderWriter(tmp_path / "file-1", full).write(b"x")

    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with open_store(f"sqlite:{tmp_path / 'responses.db'}") as store:
        library = FileLibrary(store.files, FileLimits(), new_id)
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(StoreUnavailable, match="No space left on device"):
            await added(library)
    assert list((tmp_path / "responses.files" / "contents").iterdir()) == []


async def test_a_copy_for_which_the_disk_has_no_room_is_a_503_that_says_so(postgres: PostgresServer) -> None:
    with postgres.shared_database() as database:
        async with open_store(database) as store:
            library = FileLibrary(store.files, FileLimits(), new_id)
            record = await library.create("ada", "large", "user_data", pieces(b"x" * 300_000))
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            # The system takes a part of the last piece, and then nothing.
            resource.setrlimit(resource.RLIMIT_FSIZE, (299_000, limits[1]))
            try:
                with pytest.raises(StoreUnavailable, match="could not be copied to the disk of the gateway: File too large"):
                    async with library.local_copy(record):
                        pass
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_nothing_is_opened_to_look_for_files_where_there_are_none(tmp_path: Path) -> None:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}") as store:
        library = FileLibrary(store.files, FileLimits(), new_id)
        assert await library.get("ada", "file-1") is None
        assert await library.list("ada", limit=10) == []
        assert (await library.sweep(), await library.move_owner("a", "b")) == (0, 0)
    assert not (tmp_path / "responses.files").exists()
