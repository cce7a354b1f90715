"""PDF files in a request: read before the engine is asked, away from the event loop, and once."""

from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, Refusal
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.office_files import MADE
from support.pdfs import file_part, make_pdf, make_scan

from antiphon.app.parts import Extensions
from antiphon.core.checks.work import CheckOutcome, CheckWork, DocumentWork
from antiphon.gateway.runs.checker import Checker

TEXT = '<file name="a.pdf">\n[page 1]\nHello\n\n[page 2]\nWorld\n</file>'
DOCUMENT = make_pdf("Hello", "World")
# Of the documents in `MADE`.
EXPECTED = ("Sloop | 12 €", "Mention the moon.", "2026-11-16", "High  at noon", "Subject:", "Größe of ships", "<b>noon</b>")
BROKEN = b"%PDF-1.7 and then nothing"


def asked(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_text", "text": "Read."}, *parts]}]


class CountingChecker(Checker):
    """Passes its work on to the checker of all tests. One that is not `finishing` behaves as at its deadline."""

    def __init__(self, *, finishing: bool = True) -> None:
        super().__init__()
        self.work: list[CheckWork] = []
        self._finishing = finishing

    async def run(self, work: CheckWork, owner: str = "", *, patient: bool = False) -> CheckOutcome:
        self.work.append(work)
        return await CHECKER.run(work) if self._finishing else CheckOutcome(unfinished=True)


@pytest.mark.parametrize("prefix", ["", "data:application/pdf;base64,"])
async def test_the_text_of_a_pdf_is_sent_with_its_name(gateway: GatewayUnderTest, engine: MockEngine, prefix: str) -> None:
    await gateway.create(asked(file_part(DOCUMENT, prefix=prefix)))
    assert engine.last["messages"][-1]["content"] == f"Read.\n{TEXT}"
    await gateway.stream(asked(file_part(b"\xff\xfe" + DOCUMENT, prefix=prefix)))
    assert engine.last["messages"][-1]["content"] == f"Read.\n{TEXT}"


@pytest.mark.parametrize("streams", [False, True])
async def test_a_scanned_pdf_is_sent_as_the_images_on_its_pages(
    gateway: GatewayUnderTest, engine: MockEngine, streams: bool
) -> None:
    large = b"\xff\xd8" + b"x" * 500_000
    items = asked(file_part(make_scan(b"\xff\xd8one", large)))
    await (gateway.stream(items) if streams else gateway.create(items))
    text, named, first, second = engine.last["messages"][-1]["content"]
    assert (text["text"], first) == ("Read.", {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9hvbmU="}})
    assert named["text"].startswith('<file name="a.pdf">\n(It has no text. The images on its pages follow: 2.)')
    assert len(second["image_url"]["url"]) > 600_000
    assert gateway.notice == "`input[0].content[1].file_data`: the PDF has no text, the images on its pages take its place"


async def test_an_engine_that_sees_no_images_refuses_a_scanned_pdf(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(500, {"error": {"message": "image input is not supported", "code": 500}}))
    status, body = await gateway.post({"model": "mock", "input": asked(file_part(make_scan(b"\xff\xd8one")))})
    assert (status, body["error"]["code"], body["error"]["param"]) == (400, "unsupported_content", "input")


async def test_a_tool_may_return_a_pdf(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [file_part(DOCUMENT)]}
    await gateway.create([*asked(), call, output])
    assert engine.last["messages"][-1] == {"role": "tool", "tool_call_id": "c", "content": TEXT}


async def test_a_pdf_is_read_once_and_gives_the_same_prompt_when_it_is_continued(engine: MockEngine) -> None:
    checker = CountingChecker()
    async with running_gateway(engine, extensions=Extensions(checker=checker)) as gateway:
        first = await gateway.create(asked(file_part(DOCUMENT), file_part(make_pdf("More"))))
        before = engine.last["messages"]
        await gateway.create("Go on", previous_response_id=first["id"])
    assert engine.last["messages"][: len(before)] == before
    assert checker.work == [DocumentWork(DOCUMENT), DocumentWork(make_pdf("More"))]


@pytest.mark.parametrize(
    ("document", "reason"),
    [(BROKEN, "damaged"), (make_pdf(""), "no text"), (b"\x00" + BROKEN, "damaged")],
)
@pytest.mark.parametrize("options", [{}, {"stream": True}, {"background": True}])
async def test_a_pdf_that_cannot_be_read_is_rejected_by_its_place(
    gateway: GatewayUnderTest, engine: MockEngine, document: bytes, reason: str, options: dict[str, Any]
) -> None:
    status, body = await gateway.post({"input": asked(file_part(document)), **options})
    error = body["error"]
    assert (status, error["param"], error["code"]) == (400, "input[0].content[1].file_data", "unreadable_file")
    assert reason in error["message"]
    assert not engine.requests


async def test_a_pdf_that_takes_too_long_is_rejected_and_tried_again_the_next_time(engine: MockEngine) -> None:
    checker = CountingChecker(finishing=False)
    async with running_gateway(engine, extensions=Extensions(checker=checker)) as gateway:
        for _ in range(2):
            status, body = await gateway.post({"input": asked(file_part(DOCUMENT))})
            assert (status, body["error"]["param"]) == (400, "input[0].content[1].file_data")
            assert "takes too long" in body["error"]["message"]
    assert len(checker.work) == 2


async def test_a_stored_pdf_that_cannot_be_read_is_a_note_to_the_model(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    status, conversation = await gateway.post({"items": asked(file_part(BROKEN))}, "/v1/conversations")
    assert status == 200
    await gateway.create("Go on", conversation=conversation["id"])
    content = engine.last["messages"][0]["content"]
    assert content.startswith('Read.\n<file name="a.pdf">\n(This file cannot be read: ')
    assert gateway.notice.startswith("`history[0].content[1].file_data` cannot be read: ")


async def test_a_background_response_reads_its_pdf(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    made = await Background(gateway).made(asked(file_part(DOCUMENT)))
    assert made["status"] == "completed"
    assert engine.last["messages"][-1]["content"] == f"Read.\n{TEXT}"


async def test_another_binary_file_is_rejected(gateway: GatewayUnderTest) -> None:
    png = file_part(b"\x89PNG\r\n\x1a\n\x00", prefix="data:image/png;base64,")
    status, body = await gateway.post({"input": asked(png)})
    assert (status, body["error"]["code"]) == (400, "unsupported_file")
    assert (body["error"]["param"], "a PNG image" in body["error"]["message"]) == ("input[0].content[1].file_data", True)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *((name, make(), words) for (name, make), words in zip(MADE.items(), EXPECTED, strict=True)),
        ("a.txt", "港の船は毎朝出航します。".encode("shift_jis"), "港の船は毎朝出航します。"),
        ("a.txt", "Größe".encode("utf-16"), "Größe"),
    ],
)
async def test_documents_of_every_kind_are_sent_as_their_text(
    gateway: GatewayUnderTest, engine: MockEngine, name: str, content: bytes, words: str
) -> None:
    await gateway.create(asked(file_part(content, filename=name, prefix="")))
    sent = engine.last["messages"][-1]["content"]
    assert sent.startswith(f'Read.\n<file name="{name}">\n')
    assert words in sent


async def test_a_page_in_a_request_stays_as_it_is(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """It may be what the question is about."""
    await gateway.create(asked(file_part(b"<html><p>Hello", filename="a.html")))
    assert "<html><p>Hello" in engine.last["messages"][-1]["content"]


async def test_a_text_about_pdf_files_is_text(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.create(asked(file_part(b"A file that begins with %PDF- is a PDF.", filename="a.txt")))
    assert "is a PDF." in engine.last["messages"][-1]["content"]
