"""/v1/files with the openai SDK and by hand: uploads, lists, contents, deletions, and whose they are."""

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from support.gateway import GatewayUnderTest, running_gateway
from support.postgres import PostgresServer
from support.raw_client import dialled, post
from support.ways_in import until

from antiphon.files.contents import PIECE
from antiphon.settings.tables import FileSettings
from antiphon.store.operations import Change, Operation

NAMES = ["plain.txt", "with space; and=.txt", 'quo"ted\\.txt', "Übergröße 文書 🦊.txt", "per%20cent%.txt", "'", "-rf"]


@pytest_asyncio.fixture
async def stored(url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(store=url) as gateway:
        yield gateway


def sdk(gateway: GatewayUnderTest, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0)


def form(*parts: tuple[str, Any], boundary: str = "edge") -> dict[str, Any]:
    """A body with these fields in this order; a file is (filename, content)."""
    body = b""
    for name, value in parts:
        named = f'; filename="{value[0]}"' if isinstance(value, tuple) else ""
        content = value[1] if isinstance(value, tuple) else value.encode()
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + content + b"\r\n"
    return {
        "data": body + f"--{boundary}--\r\n".encode(),
        "headers": {"Content-Type": f"multipart/form-data; boundary={boundary}"},
    }


async def uploaded(gateway: GatewayUnderTest, *parts: tuple[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    given = form(*parts)
    async with gateway.client.post(gateway.url + "/v1/files", data=given["data"], headers=given["headers"] | headers) as answer:
        gateway.headers = answer.headers
        return answer.status, await answer.json()


FILE = ("file", ("a.txt", b"Hello"))
PURPOSE = ("purpose", "user_data")


# ---- the SDK ---------------------------------------------------------------------------------------------------------


async def test_a_file_is_uploaded_listed_retrieved_read_and_deleted(stored: GatewayUnderTest) -> None:
    async with sdk(stored) as client:
        content = bytes(range(256)) * 4000
        made = await client.files.create(file=("größe.bin", content), purpose="user_data")
        assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(content), "größe.bin", "user_data")
        assert (made.status, made.expires_at) == ("processed", None)
        assert made.id.startswith("file-")
        assert await client.files.retrieve(made.id) == made
        assert (await client.files.content(made.id)).content == content
        listed = await client.files.list()
        assert (listed.data, listed.has_more) == ([made], False)
        deleted = await client.files.delete(made.id)
        assert (deleted.id, deleted.object, deleted.deleted) == (made.id, "file", True)
        with pytest.raises(openai.NotFoundError) as gone:
            await client.files.retrieve(made.id)
        assert gone.value.code == "file_not_found"
        assert (await client.files.list()).data == []


async def test_a_file_expires_when_its_upload_says_so(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        made = await client.files.create(
            file=b"x", purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600}
        )
        assert made.expires_at == made.created_at + 3600
        batch = await client.files.create(file=b"x", purpose="batch")
        assert batch.expires_at == batch.created_at + 30 * 86_400


async def test_lists_come_page_by_page_in_both_orders(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        made = [(await client.files.create(file=(f"{n}", b"x"), purpose="vision" if n % 2 else "evals")).id for n in range(5)]
        assert [file.id async for file in client.files.list(limit=2)] == made[::-1]
        assert [file.id async for file in client.files.list(limit=2, order="asc")] == made
        assert [file.id async for file in client.files.list(limit=1, purpose="vision")] == [made[3], made[1]]
        page = await client.files.list(limit=2, order="asc", after=made[0])
        assert ([file.id for file in page.data], page.has_more) == (made[1:3], True)
        async for file in client.files.list(limit=1):
            await client.files.delete(file.id)
        assert (await client.files.list()).data == []


@pytest.mark.parametrize("query", ["limit=0", "limit=10001", "limit=x", "order=up", "after=../x"])
async def test_a_wrong_page_is_a_400_that_names_the_field(gateway: GatewayUnderTest, query: str) -> None:
    status, body = await gateway.get(f"/v1/files?{query}")
    assert (status, body["error"]["param"]) == (400, query.partition("=")[0])


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_may_have_any_characters(gateway: GatewayUnderTest, name: str) -> None:
    async with sdk(gateway) as client:
        made = await client.files.create(file=(name, b"x"), purpose="user_data")
        assert made.filename == name
        answer = await client.files.with_raw_response.content(made.id)
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    assert answer.headers["Content-Length"] == "1"


async def test_a_file_of_the_disk_and_one_of_the_memory_are_uploaded_alike(gateway: GatewayUnderTest, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"disk")
    async with sdk(gateway) as client:
        of_disk = await client.files.create(file=tmp_path / "a.txt", purpose="user_data")
        of_memory = await client.files.create(file=io.BytesIO(b"memory"), purpose="user_data")
        assert (of_disk.filename, of_disk.bytes, of_memory.bytes) == ("a.txt", 4, 6)


async def test_gateways_that_share_a_database_share_files(postgres: PostgresServer) -> None:
    with postgres.shared_database() as url:
        async with (
            running_gateway(store=url) as one,
            running_gateway(store=url) as other,
            sdk(one) as here,
            sdk(other) as there,
        ):
            made = await here.files.create(file=bytes(600_000), purpose="user_data")
            assert await there.files.retrieve(made.id) == made
            assert (await there.files.content(made.id)).content == bytes(600_000)
            assert (await there.files.delete(made.id)).deleted
            assert (await here.files.list()).data == []


# ---- forms -----------------------------------------------------------------------------------------------------------


async def test_the_parts_of_a_form_may_come_in_any_order(gateway: GatewayUnderTest) -> None:
    life = ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "7200")
    for parts in ([PURPOSE, *life, FILE], [FILE, *life, PURPOSE]):
        status, made = await uploaded(gateway, *parts)
        assert (status, made["expires_at"] - made["created_at"]) == (200, 7200), made


@pytest.mark.parametrize(
    ("parts", "param", "code"),
    [
        ([PURPOSE], "file", "missing_required_parameter"),
        ([FILE], "purpose", "missing_required_parameter"),
        ([("purpose", "fun"), FILE], "purpose", "invalid_value"),
        ([FILE, ("purpose", "assistants_output")], "purpose", "invalid_value"),
        ([PURPOSE, FILE, FILE], "file", "duplicate_parameter"),
        ([PURPOSE, PURPOSE, FILE], "purpose", "duplicate_parameter"),
        ([PURPOSE, ("file", "no file")], "file", "invalid_type"),
        ([PURPOSE, FILE, ("expires_after[seconds]", "3600")], "expires_after[anchor]", "missing_required_parameter"),
        ([PURPOSE, FILE, ("expires_after[anchor]", "created_at")], "expires_after[seconds]", "missing_required_parameter"),
        ([("expires_after[seconds]", "3599"), FILE], "expires_after[seconds]", "invalid_value"),
        ([("expires_after[seconds]", "2592001"), FILE], "expires_after[seconds]", "invalid_value"),
        ([("expires_after[seconds]", "1e4"), FILE], "expires_after[seconds]", "invalid_value"),
        ([("expires_after[anchor]", "last_active_at"), FILE], "expires_after[anchor]", "invalid_value"),
        ([("purpose", "x" * 70_000), FILE], "purpose", "string_above_max_length"),
        ([("file", ("x" * 256, b""))], "file", "string_above_max_length"),
    ],
)
async def test_a_wrong_form_is_a_400_that_names_the_field_and_leaves_nothing(
    gateway: GatewayUnderTest, parts: list[tuple[str, Any]], param: str, code: str
) -> None:
    status, body = await uploaded(gateway, *parts)
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, param, code)
    assert (await gateway.get("/v1/files"))[1]["data"] == []
    assert nothing_left(gateway)


def nothing_left(gateway: GatewayUnderTest) -> bool:
    folder = gateway.gateway.store.files.folder()
    assert folder is not None
    contents = folder / "contents"
    return not contents.exists() or not list(contents.iterdir())


async def test_an_unknown_field_is_ignored_with_a_notice(gateway: GatewayUnderTest) -> None:
    status, _ = await uploaded(gateway, PURPOSE, ("colour", "red"), FILE)
    assert (status, gateway.headers["antiphon-notice"]) == (200, "unknown field 'colour' was ignored")


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "multipart/mixed; boundary=x", ""])
async def test_what_is_no_form_is_a_415(gateway: GatewayUnderTest, kind: str) -> None:
    async with gateway.client.post(
        gateway.url + "/v1/files", data=b"{}", headers={"Content-Type": kind}, skip_auto_headers=["Content-Type"]
    ) as answer:
        body = await answer.json()
    assert (answer.status, body["error"]["code"]) == (415, "unsupported_media_type")
    assert "multipart/form-data" in body["error"]["message"]


@pytest.mark.parametrize("size", [0, 1, 40, 90, 100])
async def test_a_form_that_breaks_off_is_a_400_and_leaves_nothing(gateway: GatewayUnderTest, size: int) -> None:
    given = form(FILE, PURPOSE)
    async with gateway.client.post(gateway.url + "/v1/files", data=given["data"][:size], headers=given["headers"]) as answer:
        body = await answer.json()
    assert (answer.status, body["error"]["code"]) == (400, "invalid_multipart")
    assert nothing_left(gateway)


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("both_transports")
async def test_the_limit_of_bodies_does_not_count_for_uploads() -> None:
    async with running_gateway(max_body_bytes=1000) as gateway:
        for path in ("/v1/files", "/v1/files/", "/files", "/openai/v1/files", "/openai/files"):
            given = form(PURPOSE, ("file", ("a", bytes(5000))))
            async with gateway.client.post(gateway.url + path, **given) as answer:
                assert (answer.status, (await answer.json())["bytes"]) == (200, 5000)
        status, body = await gateway.post({"input": "x" * 2000})
        assert (status, body["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_file_that_is_too_large_is_a_413_that_says_what_is_allowed(chunked: bool) -> None:
    async with running_gateway(files=FileSettings(max_file_bytes=1000)) as gateway:
        given = form(PURPOSE, ("file", ("a", bytes(3_000_000))))

        async def body() -> AsyncIterator[bytes]:
            for start in range(0, len(given["data"]), 100_000):
                yield given["data"][start : start + 100_000]

        data = body() if chunked else io.BytesIO(given["data"])
        async with gateway.client.post(gateway.url + "/v1/files", data=data, headers=given["headers"]) as answer:
            error = (await answer.json())["error"]
        assert (answer.status, error["code"], error["param"]) == (413, "file_too_large", "file")
        assert "1000 bytes" in error["message"]
        assert "max_file_bytes" in error["message"]
        assert nothing_left(gateway)


@pytest.mark.parametrize("limit", ["key_bytes", "max_bytes"])
async def test_where_there_is_no_room_the_answer_says_which_limit_it_is_and_nothing_is_removed(limit: str) -> None:
    async with running_gateway(files=FileSettings(**{limit: 8})) as gateway, sdk(gateway) as client:
        kept = await client.files.create(file=b"12345", purpose="user_data")
        with pytest.raises(openai.APIStatusError) as full:
            await client.files.create(file=b"12345", purpose="user_data")
        assert (full.value.status_code, full.value.code) == (413, "file_storage_full")
        assert f"files.{limit}" in full.value.message
        assert (await client.files.content(kept.id)).content == b"12345"


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(gateway: GatewayUnderTest) -> None:
    given = form(PURPOSE, ("file", ("a", bytes(800_000))))
    request = post(given["data"], b"Content-Type: " + given["headers"]["Content-Type"].encode(), path=b"/v1/files")
    async with dialled(gateway) as client:
        await client.send(request[: len(request) // 2])
        await until(lambda: not nothing_left(gateway))
    await until(lambda: nothing_left(gateway))
    assert (await gateway.get("/v1/files"))[1]["data"] == []


async def test_a_client_that_stops_sending_gets_a_408_and_leaves_nothing() -> None:
    given = form(PURPOSE, ("file", ("a", bytes(800_000))))
    request = post(given["data"], b"Content-Type: " + given["headers"]["Content-Type"].encode(), path=b"/v1/files")
    async with running_gateway(body_timeout=0.3) as gateway, dialled(gateway) as client:
        await client.send(request[: len(request) // 2])
        assert (await client.answer()).status == 408
        assert nothing_left(gateway)


# ---- contents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "served"),
    [
        ("text/plain", "text/plain"),
        ("Text/CSV; charset=latin-1", "text/csv"),
        ("image/png", "image/png"),
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("application/xhtml+xml", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
        ("text/plain; charset=x\tevil", "application/octet-stream"),
    ],
)
async def test_contents_are_served_so_that_no_browser_runs_them(gateway: GatewayUnderTest, kind: str, served: str) -> None:
    async with sdk(gateway) as client:
        made = await client.files.create(file=("a.html", b"<script>alert(1)</script>", kind), purpose="user_data")
        answer = await client.files.with_raw_response.content(made.id)
    assert answer.headers["Content-Type"] == served
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"].startswith("attachment;")


async def test_contents_that_are_removed_while_they_are_read_break_off(postgres: PostgresServer) -> None:
    with postgres.shared_database() as url:
        async with running_gateway(store=url) as gateway, sdk(gateway) as client:
            made = await client.files.create(file=bytes(5 * PIECE), purpose="user_data")
            database = gateway.gateway.store.files.database
            await database.write(without_its_end(made.id))
            with pytest.raises(openai.APIConnectionError):
                await client.files.content(made.id)


def without_its_end(id: str) -> Operation[None]:
    yield Change("DELETE FROM file_parts WHERE file = $1 AND number > 2", (id,))


async def test_the_head_of_contents_has_their_length_and_no_body(gateway: GatewayUnderTest) -> None:
    _, made = await uploaded(gateway, PURPOSE, FILE)
    async with gateway.client.head(f"{gateway.url}/v1/files/{made['id']}/content") as answer:
        assert (answer.status, answer.headers["Content-Length"], await answer.read()) == (200, "5", b"")


# ---- whose they are --------------------------------------------------------------------------------------------------


async def test_a_key_sees_nothing_of_another_ones_files() -> None:
    async with (
        running_gateway(keys={"ada": ("a",), "bob": ("b",)}, admin_key=("root",)) as gateway,
        sdk(gateway, "a") as ada,
        sdk(gateway, "b") as bob,
        sdk(gateway, "root") as admin,
    ):
        made = await ada.files.create(file=b"secret", purpose="user_data")
        assert (await bob.files.list()).data == []
        for ask in (bob.files.retrieve, bob.files.content, bob.files.delete):
            with pytest.raises(openai.NotFoundError) as hidden:
                await ask(made.id)
            with pytest.raises(openai.NotFoundError) as missing:
                await ask("file-0")
            assert hidden.value.message.replace(made.id, "file-0") == missing.value.message
        assert (await admin.files.content(made.id)).content == b"secret"
        assert (await admin.files.list()).data == []
        assert (await admin.files.delete(made.id)).deleted
        async with gateway.client.post(gateway.url + "/v1/files", **form(PURPOSE, FILE)) as answer:
            assert answer.status == 401


async def test_the_files_of_a_key_that_gets_a_name_are_those_of_the_name(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'responses.db'}"
    async with running_gateway(api_key=("k",), store=store) as gateway, sdk(gateway, "k") as client:
        made = await client.files.create(file=b"mine", purpose="user_data")
    async with running_gateway(keys={"ada": ("k",)}, store=store) as gateway, sdk(gateway, "k") as client:
        assert await client.files.retrieve(made.id) == made


# ---- web pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://app.example"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 415),
    ],
)
async def test_a_page_may_upload_a_file_if_its_origin_may_use_the_api(headers: dict[str, str], status: int) -> None:
    async with running_gateway(cors_origins=("https://app.example",)) as gateway:
        assert (await uploaded(gateway, PURPOSE, FILE, **headers))[0] == status


async def test_a_host_name_that_is_not_known_may_not_upload(gateway: GatewayUnderTest) -> None:
    assert (await uploaded(gateway, PURPOSE, FILE, Host="evil.example"))[0] == 403
