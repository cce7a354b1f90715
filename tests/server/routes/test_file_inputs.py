"""Uploaded files in requests: `input_file` and `input_image` with a `file_id`, on every way in."""

import base64
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from support.background import Background
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway
from support.inspector import opened
from support.office_files import make_docx, make_pptx, make_xlsx
from support.pdfs import make_pdf, make_scan
from support.sockets import connected

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.exchange.exchange import Exchange
from antiphon.server.parts import APP
from antiphon.store.files.records import FileRecord

PNG = b"\x89PNG\r\n\x1a\nand so on"
SHOWN = '<file name="a.txt">\nHello from a file\n</file>'
NOTE = '<file name="file">\n(This file cannot be read: there is no such file.)\n</file>'


@pytest_asyncio.fixture
async def stored(engine: MockEngine, url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=url) as gateway:
        yield gateway


async def uploaded(
    gateway: GatewayUnderTest, content: bytes = b"Hello from a file", name: str = "a.txt", owner: str = ""
) -> FileRecord:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    return await gateway.app[APP].resources.files.create(owner, name, "user_data", pieces())


def part(id: str, **members: Any) -> dict[str, Any]:
    return {"type": "input_file", "file_id": id, **members}


def image(id: str, **members: Any) -> dict[str, Any]:
    return {"type": "input_image", "file_id": id, **members}


def asked(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_text", "text": "Read."}, *parts]}]


# ---- what the engine gets --------------------------------------------------------------------------------------------


async def test_the_text_of_a_file_is_sent_with_its_name(stored: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(stored)
    await stored.create(asked(part(file.id)))
    assert engine.last["messages"] == [{"role": "user", "content": f"Read.\n{SHOWN}"}]
    await stored.create(asked(part(file.id, filename="b.txt")))
    assert engine.last["messages"][-1]["content"] == f"Read.\n{SHOWN}".replace("a.txt", "b.txt")


async def test_an_image_is_sent_as_it_is(stored: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(stored, PNG, "a.jpg")
    await stored.create(asked(image(file.id, detail="low")))
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert engine.last["messages"][-1]["content"][1] == {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    assert not stored.notice


async def test_a_pdf_is_read_and_a_scanned_one_is_sent_as_its_pages(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(gateway, make_pdf("Hello"), "a.pdf")
    scan = await uploaded(gateway, make_scan(b"\xff\xd8one"), "b.pdf")
    await gateway.create(asked(part(file.id), part(scan.id)))
    first, second, page = engine.last["messages"][-1]["content"][1:]
    assert first["text"] == '<file name="a.pdf">\n[page 1]\nHello\n</file>'
    assert second["text"].startswith('<file name="b.pdf">\n(It has no text.')
    assert page["image_url"]["url"].startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", make_docx()),
        ("a.xlsx", make_xlsx()),
        ("a.pptx", make_pptx()),
        ("a.pdf", make_pdf("Hello")),
        ("a.html", b"<p>Hello</p>"),
        ("a.txt", "Größe".encode("cp1252")),
        ("a.csv", "\ufeffa,b\n1,2\n".encode()),
        ("empty.txt", b""),
    ],
)
async def test_a_file_that_was_uploaded_is_read_like_one_in_the_request(
    gateway: GatewayUnderTest, engine: MockEngine, name: str, content: bytes
) -> None:
    file = await uploaded(gateway, content, name)
    await gateway.create(asked({"type": "input_file", "filename": name, "file_data": base64.b64encode(content).decode()}))
    await gateway.create(asked(part(file.id)))
    sent, stored = (request["messages"] for request in engine.requests)
    assert sent == stored


async def test_the_output_of_a_tool_may_name_files(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(gateway)
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [part(file.id)]}
    await gateway.create([*asked(), call, output])
    assert engine.last["messages"][-1] == {"role": "tool", "tool_call_id": "c", "content": SHOWN}


# ---- every way in ----------------------------------------------------------------------------------------------------


async def test_a_stream_a_websocket_and_a_background_response_read_it_too(stored: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(stored)
    items = asked(part(file.id))
    await stored.stream(items)
    assert engine.last["messages"][-1]["content"] == f"Read.\n{SHOWN}"
    async with connected(stored) as socket:
        await socket.create(items)
    assert engine.last["messages"][-1]["content"] == f"Read.\n{SHOWN}"
    made = await Background(stored).made(items)
    assert made["status"] == "completed"
    assert engine.last["messages"][-1]["content"] == f"Read.\n{SHOWN}"


async def test_its_tokens_count(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(gateway, b"word " * 5000)
    body = {"model": "mock", "input": asked(part(file.id))}
    status, counted = await gateway.post(body, "/v1/responses/input_tokens")
    assert status == 200
    assert "word word" in engine.last["messages"][-1]["content"]
    assert counted["input_tokens"] > 0


async def test_it_is_part_of_what_is_compacted(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(gateway)
    engine.will(text("A summary."))
    status, made = await gateway.post({"model": "mock", "input": asked(part(file.id))}, "/v1/responses/compact")
    assert (status, made["output"][-1]["type"]) == (200, "compaction")
    assert SHOWN in str(engine.last["messages"]).replace("\\n", "\n")
    await gateway.create([*made["output"], {"role": "user", "content": "Go on"}])
    assert f"Read.\n{SHOWN}" in [message["content"] for message in engine.last["messages"]]


@pytest.mark.parametrize("between", [[], [{"role": "assistant", "content": "Tea."}]])
async def test_a_history_with_files_is_compacted_when_it_is_too_long(
    gateway: GatewayUnderTest, engine: MockEngine, between: list[dict[str, Any]]
) -> None:
    """The text of a file counts, although the history has only its id."""
    file = await uploaded(gateway, b"tea " * 2000)
    engine.will(text("About tea."), text("And coffee."))
    items = [*asked(part(file.id)), *between, {"role": "user", "content": "Coffee?"}]
    response = await gateway.create(items, context_management=[{"type": "compaction", "compact_threshold": 1000}])
    assert [item["type"] for item in response["output"]] == ["compaction", "message"]
    assert "tea tea" in str(engine.requests[0]["messages"])
    assert "tea tea" not in str(engine.requests[1]["messages"])


async def test_a_history_keeps_the_id_and_gives_the_same_prompt(stored: GatewayUnderTest, engine: MockEngine) -> None:
    file, picture = await uploaded(stored), await uploaded(stored, PNG)
    parts = part(file.id), image(picture.id, detail="auto")
    first = await stored.create(asked(*parts))
    before = engine.last["messages"]
    _, kept = await stored.get(f"/v1/responses/{first['id']}/input_items")
    assert kept["data"][0]["content"][1:] == list(parts)
    await stored.create("Go on", previous_response_id=first["id"])
    assert engine.last["messages"][: len(before)] == before
    _, conversation = await stored.post({"items": asked(*parts)}, "/v1/conversations")
    await stored.create("Go on", conversation=conversation["id"])
    assert engine.last["messages"][0] == before[0]


async def test_a_recorded_request_with_files_is_opened_as_it_was(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file, picture = await uploaded(gateway), await uploaded(gateway, PNG + bytes(1000))
    events = await gateway.stream(asked(part(file.id), image(picture.id)))
    for each in (file, picture):
        await gateway.app[APP].resources.files.delete("", each.id)
    view = await opened(gateway, 1)
    assert (view["exact"], view["inexact_reason"]) == (True, None)
    assert [moment["event"] for moment in view["timeline"] if moment["kind"] == "event"] == events
    assert SHOWN in view["asks"][0]["chat"]["messages"][0]["content"][1]["text"]


async def test_a_long_text_is_converted_in_a_thread(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file = await uploaded(gateway, b"word " * 200_000)
    threads: list[str] = []
    checked = Exchange.checked

    def noted(exchange: Exchange, outcome: CheckOutcome) -> Any:
        threads.append(threading.current_thread().name)
        return checked(exchange, outcome)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exchange, "checked", noted)
        await gateway.create(asked(part(file.id)))
        body = {"model": "mock", "input": asked(part(file.id))}
        assert (await gateway.post(body, "/v1/responses/input_tokens"))[0] == 200
    assert len(threads) == 2
    assert all(name.startswith("large-request") for name in threads)


# ---- files that are not there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"stream": True}, {"background": True}])
@pytest.mark.parametrize("named", [part("file-none"), image("file-none"), part("../../etc/passwd"), part("\x00")])
async def test_a_file_that_is_not_there_is_a_400_that_names_the_field(
    gateway: GatewayUnderTest, engine: MockEngine, named: dict[str, Any], options: dict[str, Any]
) -> None:
    await uploaded(gateway)
    status, body = await gateway.post({"input": asked(named), **options})
    error = body["error"]
    assert (status, error["param"], error["code"]) == (400, "input[0].content[1].file_id", "file_not_found")
    assert "there is no such file" in error["message"]
    assert not engine.requests


async def test_a_file_that_was_deleted_is_a_note_in_a_history(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    file, picture = await uploaded(gateway), await uploaded(gateway, PNG)
    first = await gateway.create(asked(part(file.id), image(picture.id)))
    for each in (file, picture):
        assert await gateway.app[APP].resources.files.delete("", each.id)
    await gateway.create("Go on", previous_response_id=first["id"])
    assert engine.last["messages"][0]["content"] == f"Read.\n{NOTE}\n(This file cannot be read: there is no such file.)"
    assert gateway.notice.count("cannot be read: there is no such file") == 2
    assert gateway.notice.startswith("`history[0].content[1].file_id` cannot be read")


async def test_an_item_of_a_conversation_must_name_a_file_that_is_there(gateway: GatewayUnderTest) -> None:
    file = await uploaded(gateway)
    status, body = await gateway.post({"items": asked(part("file-none"))}, "/v1/conversations")
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, "items[0].content[1].file_id", "file_not_found")
    status, conversation = await gateway.post({"items": asked(part(file.id))}, "/v1/conversations")
    assert status == 200
    path = f"/v1/conversations/{conversation['id']}/items"
    assert (await gateway.post({"items": asked(image("file-none"))}, path))[0] == 400
    assert (await gateway.post({"items": asked(part(file.id))}, path))[0] == 200


async def test_a_key_cannot_read_another_ones_file_also_not_if_its_text_is_known(engine: MockEngine) -> None:
    keys = {"ada": ("a",), "bob": ("b",)}
    async with running_gateway(engine, keys=keys) as gateway:
        ada, bob = ({"Authorization": f"Bearer {key}"} for key in "ab")
        file, picture = await uploaded(gateway, owner="ada"), await uploaded(gateway, PNG, owner="ada")
        body = {"input": asked(part(file.id), image(picture.id))}
        assert (await gateway.post(body, headers=ada))[0] == 200
        asked_before = len(engine.requests)
        messages = []
        for named in (part(file.id), part("file-none"), image(picture.id), image("file-none")):
            status, answer = await gateway.post({"input": asked(named)}, headers=bob)
            assert (status, answer["error"]["code"]) == (400, "file_not_found")
            messages.append(answer["error"]["message"])
        assert len(set(messages)) == 1
        assert (await gateway.post({"items": asked(part(file.id))}, "/v1/conversations", headers=bob))[0] == 400
        assert len(engine.requests) == asked_before


# ---- files that cannot be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "named", "code"),
    [
        (b"%PDF-1.7 and then nothing\xff", part, "unreadable_file"),
        (b"no image", image, "unsupported_file"),
        (b"RIFF1234WAVEfmt ", image, "unsupported_file"),
    ],
)
async def test_a_file_that_cannot_be_read_is_a_400_that_says_why(
    gateway: GatewayUnderTest, engine: MockEngine, content: bytes, named: Any, code: str
) -> None:
    file = await uploaded(gateway, content)
    status, body = await gateway.post({"input": asked(named(file.id))})
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, "input[0].content[1].file_id", code)
    assert not engine.requests


async def test_an_image_may_be_as_large_as_one_in_a_request(engine: MockEngine) -> None:
    async with running_gateway(engine, max_image_bytes=len(PNG)) as gateway:
        file, larger = await uploaded(gateway, PNG), await uploaded(gateway, PNG + b"x")
        await gateway.create(asked(image(file.id)))
        status, body = await gateway.post({"input": asked(image(larger.id))})
        assert (status, body["error"]["param"]) == (400, "input[0].content[1].file_id")
        assert "max_image_bytes" in body["error"]["message"]


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"type": "input_file"}, "file_data", "missing_required_parameter"),
        ({"type": "input_file", "file_id": None, "file_data": None}, "file_data", "missing_required_parameter"),
        ({"type": "input_file", "file_id": "x", "file_data": "aGk="}, "file_id", "mutually_exclusive_parameters"),
        ({"type": "input_file", "file_url": "https://example.com/a"}, "file_url", "unsupported_parameter"),
        ({"type": "input_file", "file_id": 7}, "file_id", "invalid_type"),
        ({"type": "input_image"}, "image_url", "missing_required_parameter"),
        ({"type": "input_image", "image_url": "data:,", "file_id": "x"}, "file_id", "mutually_exclusive_parameters"),
    ],
)
async def test_a_part_must_have_one_source(gateway: GatewayUnderTest, members: dict[str, Any], param: str, code: str) -> None:
    status, body = await gateway.post({"input": asked(members)})
    assert (status, body["error"]["param"], body["error"]["code"]) == (400, f"input[0].content[1].{param}", code)
