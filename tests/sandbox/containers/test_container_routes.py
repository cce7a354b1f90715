"""/v1/containers through the openai SDK, and what it refuses."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI, NotFoundError
from support.engine import MockEngine
from support.gateway import GatewayUnderTest
from support.kernels import ScriptedKernels, interpreting

from antiphon.sandbox.containers.container_files import Uploads
from antiphon.server.parts import APP
from antiphon.settings.tables import ContainerSettings
from antiphon.store.files.records import FileRecord

FEW = ContainerSettings(most=3, most_per_key=2, disk_bytes=1024 * 1024, memory_limit="4g")


@pytest_asyncio.fixture
async def gateway(engine: MockEngine, tmp_path: Path) -> AsyncIterator[GatewayUnderTest]:
    async with interpreting(engine, ScriptedKernels(), tmp_path, FEW) as running:
        yield running


@pytest_asyncio.fixture
async def client(gateway: GatewayUnderTest) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as made:
        yield made


async def test_a_container_is_made_listed_retrieved_and_deleted(client: AsyncOpenAI) -> None:
    made = await client.containers.create(
        name="mine", memory_limit="4g", expires_after={"anchor": "last_active_at", "minutes": 5}
    )
    assert made.id.startswith("cntr_")
    assert (made.object, made.name, made.status, made.memory_limit) == ("container", "mine", "running", "4g")
    assert made.expires_after is not None
    assert (made.expires_after.anchor, made.expires_after.minutes) == ("last_active_at", 5)
    assert made.network_policy is not None
    assert made.network_policy.type == "disabled"
    other = await client.containers.create(name="other")
    assert other.expires_after is not None
    assert other.expires_after.minutes == 20
    assert [each.id async for each in client.containers.list(limit=1)] == [other.id, made.id]
    assert [each.id async for each in client.containers.list(order="asc")] == [made.id, other.id]
    assert [each.id async for each in client.containers.list(name="mine")] == [made.id]
    assert (await client.containers.retrieve(made.id)).id == made.id
    await client.containers.delete(made.id)
    with pytest.raises(NotFoundError) as gone:
        await client.containers.retrieve(made.id)
    assert gone.value.code == "container_not_found"
    with pytest.raises(NotFoundError):
        await client.containers.delete(made.id)


async def test_files_are_uploaded_copied_listed_read_and_deleted(client: AsyncOpenAI) -> None:
    uploaded = await client.files.create(file=("../a table.csv", b"a,b"), purpose="user_data")
    made = await client.containers.create(name="mine", file_ids=[uploaded.id])
    (copied,) = [each async for each in client.containers.files.list(made.id)]
    assert (copied.path, copied.bytes, copied.source) == ("/mnt/data/a table.csv", 3, "user")
    again = await client.containers.files.create(made.id, file_id=uploaded.id)
    assert again.id == copied.id
    sent = await client.containers.files.create(made.id, file=("notes.txt", b"Hello"))
    assert (sent.object, sent.container_id, sent.path) == ("container.file", made.id, "/mnt/data/notes.txt")
    assert (await client.containers.files.retrieve(sent.id, container_id=made.id)).bytes == 5
    content = await client.containers.files.content.retrieve(sent.id, container_id=made.id)
    assert content.read() == b"Hello"
    assert content.response.headers["content-disposition"].startswith("attachment")
    await client.containers.files.delete(sent.id, container_id=made.id)
    assert [each.id async for each in client.containers.files.list(made.id)] == [copied.id]
    with pytest.raises(NotFoundError) as gone:
        await client.containers.files.content.retrieve(sent.id, container_id=made.id)
    assert gone.value.code == "file_not_found"


async def test_files_are_listed_page_by_page(client: AsyncOpenAI) -> None:
    made = await client.containers.create(name="mine")
    sent = [await client.containers.files.create(made.id, file=(name, b"")) for name in ("c", "a", "b")]
    ids = [each.id for each in sent]
    assert [each.id async for each in client.containers.files.list(made.id, limit=1, order="asc")] == ids
    assert [each.id async for each in client.containers.files.list(made.id, limit=2)] == ids[::-1]
    assert [each.id for each in (await client.containers.files.list(made.id, after=ids[1])).data] == ids[:1]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_what_is_listed_may_be_deleted_meanwhile(gateway: GatewayUnderTest, client: AsyncOpenAI, order: Any) -> None:
    made = await client.containers.create(name="mine")
    for name in ("a", "b", "c", "d", "e"):
        await client.containers.files.create(made.id, file=(name, b""))
    async for file in client.containers.files.list(made.id, limit=2, order=order):
        await client.containers.files.delete(file.id, container_id=made.id)
    assert (await client.containers.files.list(made.id)).data == []
    other = await client.containers.create(name="other")
    async for container in client.containers.list(limit=1, order=order):
        await client.containers.delete(container.id)
    assert (await client.containers.list()).data == []
    last = await client.containers.create(name="last")
    _, before = await gateway.get(f"/v1/containers?order=asc&before={other.id}")
    _, after = await gateway.get(f"/v1/containers?order=asc&after={other.id}")
    assert [[each["id"] for each in page["data"]] for page in (before, after)] == [[], [last.id]]
    status, refused = await gateway.get("/v1/containers?after=cntr_none")
    assert (status, refused["error"]["param"]) == (400, "after")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "name"),
    ({"name": ""}, "name"),
    ({"name": "a", "memory_limit": "16g"}, "memory_limit"),
    ({"name": "a", "memory_limit": "2g"}, "memory_limit"),
    ({"name": "a", "expires_after": {"anchor": "last_active_at", "minutes": 21}}, "expires_after.minutes"),
    ({"name": "a", "expires_after": {"anchor": "created_at", "minutes": 5}}, "expires_after.anchor"),
    ({"name": "a", "network_policy": {"type": "allowlist", "allowed_domains": ["example.com"]}}, "network_policy"),
    ({"name": "a", "file_ids": ["file-none"]}, "file_ids[0]"),
    ({"name": "a", "skills": [{"type": "skill_reference", "skill_id": "s"}]}, "skills"),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
async def test_what_cannot_be_had_is_refused_with_its_field(
    gateway: GatewayUnderTest, body: dict[str, Any], param: str
) -> None:
    status, refused = await gateway.post(body, "/v1/containers")
    assert (status, refused["error"]["param"]) == (400, param), refused


async def test_a_file_that_does_not_fit_is_refused(gateway: GatewayUnderTest, client: AsyncOpenAI) -> None:
    made = await client.containers.create(name="mine")
    await client.containers.files.create(made.id, file=("a.bin", b"x" * 1024 * 1000))
    status, body = await gateway.post(
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="b.bin"\r\n\r\n' + b"x" * 50_000 + b"\r\n--b--\r\n",
        f"/v1/containers/{made.id}/files",
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert (status, body["error"]["code"]) == (400, "container_full")
    # The same file may be sent again.
    await client.containers.files.create(made.id, file=("a.bin", b"y" * 1024 * 1000))
    assert len([each async for each in client.containers.files.list(made.id)]) == 1


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/mixed; boundary=b", "ÿ"])
@pytest.mark.parametrize("is_packed", [True, False])
async def test_what_is_no_form_may_not_be_larger_than_other_bodies(
    engine: MockEngine, tmp_path: Path, kind: str, is_packed: bool
) -> None:
    body = b'{"file_id": "' + b"x" * 100_000 + b'"}'
    headers = {"Content-Type": kind} | ({"Content-Encoding": "gzip"} if is_packed else {})
    async with interpreting(engine, ScriptedKernels(), tmp_path, FEW, max_body_bytes=10_000) as gateway:
        _, made = await gateway.post({"name": "mine"}, "/v1/containers")
        path = f"/v1/containers/{made['id']}/files"
        status, refused = await gateway.post(gzip.compress(body) if is_packed else body, path, headers=headers)
    assert (status, refused["error"]["message"]) == (413, "The body is larger than 10000 bytes.")


async def test_too_many_containers_are_refused(gateway: GatewayUnderTest, client: AsyncOpenAI) -> None:
    for name in ("a", "b"):
        await client.containers.create(name=name)
    status, body = await gateway.post({"name": "c"}, "/v1/containers")
    assert (status, body["error"]["type"]) == (429, "rate_limit_error")


async def test_a_container_that_has_expired_says_so(gateway: GatewayUnderTest, client: AsyncOpenAI) -> None:
    made = await client.containers.create(name="mine")
    containers = gateway.app[APP].resources.containers
    assert containers is not None
    containers.all[0].last_active_at -= 20 * 60
    assert containers.sweep() == 1
    assert (await client.containers.retrieve(made.id)).status == "expired"
    assert [each async for each in client.containers.list()] == []
    status, body = await gateway.get(f"/v1/containers/{made.id}/files")
    assert (status, body["error"]["code"]) == (404, "container_expired")
    assert body["error"]["message"].startswith("Container is expired.")


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"file_id": "file-none"}, "file_id", "Invalid `file_id`: there is no file 'file-none'."),
        ({}, "file", "Missing `file`: send the file as `multipart/form-data`"),
    ],
)
async def test_a_copy_of_what_is_not_there_is_refused_with_its_field(
    gateway: GatewayUnderTest, client: AsyncOpenAI, body: dict[str, str], param: str, words: str
) -> None:
    made = await client.containers.create(name="mine")
    status, refused = await gateway.post(body, f"/v1/containers/{made.id}/files")
    assert (status, refused["error"]["param"]) == (400, param)
    assert refused["error"]["message"].startswith(words)


async def test_a_field_that_is_unknown_is_left_out_with_a_notice(gateway: GatewayUnderTest) -> None:
    async with gateway.client.post(gateway.url + "/v1/containers", json={"name": "mine", "colour": "red"}) as answered:
        assert (answered.status, answered.headers["antiphon-notice"]) == (200, "field colour is unknown and was left out")


async def test_the_reason_why_there_are_no_containers_is_a_sentence(engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(reason="It does not hold."), tmp_path) as running:
        _, body = await running.get("/v1/containers")
    assert body["error"]["message"] == "There are no containers here. It does not hold."


class SlowUploads:
    """Uploaded files that are read only after `may_end`."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def find(self, owner: str, ids: Collection[str]) -> Mapping[str, FileRecord]:
        return await self._uploads.find(owner, ids)

    async def read(self, record: FileRecord) -> AsyncIterator[bytes]:
        self.begun.set()
        await self.may_end.wait()
        async for piece in self._uploads.read(record):
            yield piece


async def test_a_container_that_is_deleted_while_it_is_made_is_not_found(
    gateway: GatewayUnderTest, client: AsyncOpenAI
) -> None:
    uploaded = await client.files.create(file=("a.csv", b"a,b"), purpose="user_data")
    containers = gateway.app[APP].resources.containers
    assert containers is not None
    slow = containers.uploads = SlowUploads(containers.uploads)
    making = asyncio.create_task(gateway.post({"name": "mine", "file_ids": [uploaded.id]}, "/v1/containers"))
    await slow.begun.wait()
    await client.containers.delete(containers.all[0].id)
    slow.may_end.set()
    status, body = await making
    assert (status, body["error"]["code"]) == (404, "container_not_found")


async def test_nothing_of_another_key_is_seen(engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(), tmp_path, api_key=("key-ada", "key-ben")) as running:
        ada, ben = (AsyncOpenAI(base_url=running.url + "/v1", api_key=key, max_retries=0) for key in ("key-ada", "key-ben"))
        async with ada, ben:
            made = await ada.containers.create(name="mine")
            file = await ada.containers.files.create(made.id, file=("a.txt", b"secret"))
            upload = await ada.files.create(file=("b.txt", b"secret"), purpose="user_data")
            assert [each async for each in ben.containers.list()] == []
            refused: list[Any] = [
                ben.containers.retrieve(made.id),
                ben.containers.files.list(made.id),
                ben.containers.files.retrieve(file.id, container_id=made.id),
                ben.containers.files.content.retrieve(file.id, container_id=made.id),
                ben.containers.files.create(made.id, file=("c.txt", b"")),
                ben.containers.files.delete(file.id, container_id=made.id),
                ben.containers.delete(made.id),
            ]
            for asking in refused:
                with pytest.raises(NotFoundError) as hidden:
                    await asking
                assert hidden.value.code == "container_not_found"
            status, body = await running.post(
                {"name": "his", "file_ids": [upload.id]}, "/v1/containers", headers={"Authorization": "Bearer key-ben"}
            )
            assert (status, body["error"]["code"]) == (400, "file_not_found")
            assert (await ada.containers.files.retrieve(file.id, container_id=made.id)).bytes == 6
