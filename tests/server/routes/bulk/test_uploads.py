"""/v1/uploads with the openai SDK: files in parts, on every store; what is wrong with them, and what is left of them."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from support.batches import sdk
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import Clock

from antiphon.server.parts import APP
from antiphon.settings.tables import FileSettings
from antiphon.store import open_store

CONTENT = bytes(range(256)) * 1000
PARTS = [CONTENT[at : at + 100_000] for at in range(0, len(CONTENT), 100_000)]


@pytest_asyncio.fixture
async def stored(engine: MockEngine, url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=url) as gateway:
        yield gateway


def asked(size: int = len(CONTENT), **more: Any) -> Any:
    return {"bytes": size, "filename": "big.bin", "mime_type": "application/pdf", "purpose": "user_data"} | more


async def test_a_file_is_made_of_its_parts_in_the_order_that_is_asked_for(stored: GatewayUnderTest) -> None:
    async with sdk(stored) as client:
        expiry = {"anchor": "created_at", "seconds": 7200}
        upload = await client.uploads.create(**asked(expires_after=expiry))
        assert (upload.object, upload.status, upload.bytes, upload.file) == ("upload", "pending", len(CONTENT), None)
        assert upload.expires_at == upload.created_at + 3600
        parts = [await client.uploads.parts.create(upload.id, data=part) for part in reversed(PARTS)]
        assert {(part.object, part.upload_id) for part in parts} == {("upload.part", upload.id)}
        # None of them is a file yet.
        assert (await client.files.list()).data == []
        order, digest = [part.id for part in reversed(parts)], hashlib.md5(CONTENT).hexdigest()
        done = await client.uploads.complete(upload.id, part_ids=order, md5=digest)
        assert done.status == "completed"
        assert done.file is not None
        assert (done.file.filename, done.file.bytes, done.file.purpose) == ("big.bin", len(CONTENT), "user_data")
        assert done.file.expires_at == done.file.created_at + 7200
        assert (await client.files.content(done.file.id)).content == CONTENT
        with pytest.raises(openai.BadRequestError, match="completed"):
            await client.uploads.complete(upload.id, part_ids=order)


async def test_the_chunked_helper_of_the_sdk_uploads_a_file(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        done = await client.uploads.upload_file_chunked(
            file=CONTENT, filename="a.txt", bytes=len(CONTENT), mime_type="text/plain", purpose="batch", part_size=70_000
        )
        assert done.file is not None
        assert (await client.files.content(done.file.id)).content == CONTENT


async def test_what_is_wrong_with_an_upload_is_said(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        upload = await client.uploads.create(**asked())
        part = await client.uploads.parts.create(upload.id, data=PARTS[0])
        for given, param in (
            ({"part_ids": [part.id]}, "part_ids"),
            ({"part_ids": ["file-none"]}, "part_ids"),
            ({"part_ids": [part.id, part.id]}, "part_ids"),
        ):
            with pytest.raises(openai.BadRequestError) as wrong:
                await client.uploads.complete(upload.id, **given)  # type: ignore[arg-type]
            assert wrong.value.param == param
        with pytest.raises(openai.APIStatusError) as large:
            await client.uploads.parts.create(upload.id, data=CONTENT)
        assert (large.value.status_code, large.value.code) == (413, "upload_too_large")
        small = await client.uploads.create(**asked(3))
        three = await client.uploads.parts.create(small.id, data=b"abc")
        with pytest.raises(openai.BadRequestError, match="MD5"):
            await client.uploads.complete(small.id, part_ids=[three.id], md5="0" * 32)
        assert (await client.uploads.complete(small.id, part_ids=[three.id])).status == "completed"
        with pytest.raises(openai.BadRequestError, match="purpose"):
            await client.uploads.create(**asked(purpose="nothing"))
        with pytest.raises(openai.NotFoundError):
            await client.uploads.parts.create("upload_none", data=b"a")
    async with gateway.client.post(f"{gateway.url}/v1/uploads/{upload.id}/parts", data={"other": "x"}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (415, "unsupported_media_type")


async def test_pending_uploads_count_for_the_room_of_a_key(engine: MockEngine) -> None:
    room: Any = FileSettings(key_bytes=1000, max_file_bytes=900)
    async with running_gateway(engine, files=room) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.APIStatusError) as large:
            await client.uploads.create(**asked(901))
        assert large.value.code == "file_too_large"
        first = await client.uploads.create(**asked(900))
        with pytest.raises(openai.APIStatusError) as full:
            await client.uploads.create(**asked(200))
        assert full.value.code == "file_storage_full"
        assert (await client.uploads.cancel(first.id)).status == "cancelled"
        await client.uploads.create(**asked(200))


async def test_an_upload_has_an_hour_and_leaves_nothing(engine: MockEngine, clock: Clock) -> None:
    async with (
        open_store("memory:", clock) as store,
        running_gateway(engine, shares=store) as gateway,
        sdk(gateway) as client,
    ):
        upload = await client.uploads.create(**asked(3))
        part = await client.uploads.parts.create(upload.id, data=b"abc")
        folder = store.files.folder()
        assert folder is not None
        assert [each.name for each in (folder / "contents").iterdir()] == [part.id]
        clock.forward(3601)
        with pytest.raises(openai.BadRequestError, match="expired"):
            await client.uploads.complete(upload.id, part_ids=[part.id])
        assert await gateway.app[APP].resources.uploads.sweep() == 1
        assert list((folder / "contents").iterdir()) == []
