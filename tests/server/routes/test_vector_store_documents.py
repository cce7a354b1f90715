"""Real documents in vector stores, with the openai SDK: uploaded, read, divided, and found."""

from collections.abc import AsyncIterator

import openai
import pytest_asyncio
from support.engine import MockEngine
from support.gateway import running_gateway
from support.office_files import MADE, make_ole
from support.pdfs import make_pdf, make_scan

# A document, what is asked, and what the chunk that is found must have.
DOCUMENTS = {
    "a.docx": (MADE["a.docx"](), "fee of the sloop", "Sloop | 12 €"),
    "a.pptx": (MADE["a.pptx"](), "what to say about the moon", "Mention the moon."),
    "a.xlsx": (MADE["a.xlsx"](), "when is the fee of the sloop due", "Sloop\t12.5\t\t2026-11-16"),
    "a.odt": (MADE["a.odt"](), "tides at noon", "## Tides"),
    "a.eml": (MADE["a.eml"](), "how large is the sloop", "The sloop is small."),
    "a.rtf": (MADE["a.rtf"](), "Größe of ships", "Größe of ships"),
    "a.html": (MADE["a.html"](), "when does high water come", "It comes at noon."),
    "a.pdf": (make_pdf("The lighthouse has 212 steps."), "steps of the lighthouse", "[page 1]\nThe lighthouse"),
    "a.txt": ("Der Leuchtturm ist höher als die Mühle.".encode("cp1252"), "Leuchtturm", "höher als die Mühle"),
    "b.txt": ("灯台は港の北にあります。\n".encode("utf-16-le"), "灯台は港の北にあります", "灯台は港の北にあります。"),
    "a.csv": (b"ship,fee\nsloop,12\n", "sloop", "sloop,12"),
    "a.json": (b'{"ship": "sloop", "fee": 12}', "sloop fee", '{"ship"'),
    "a.py": (b"def fee(ship):\n    return 12\n", "def fee ship", "def fee(ship):"),
}
UNREADABLE = {
    "a.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "unsupported_file", "PNG image"),
    "scan.pdf": (make_scan(b"\xff\xd8one"), "unsupported_file", "only images"),
    "a.doc": (make_ole(b"WordDocument"), "unsupported_file", ".docx"),
    "cut.docx": (MADE["a.docx"]()[:3000], "invalid_file", "damaged"),
    "locked.xlsx": (make_ole("EncryptedPackage".encode("utf-16-le")), "invalid_file", "password"),
    "empty.txt": (b"\n", "invalid_file", "no text"),
}


@pytest_asyncio.fixture
async def client(engine: MockEngine, vector_url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        running_gateway(engine, store=vector_url) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


async def test_documents_of_every_kind_are_read_and_found(client: openai.AsyncOpenAI) -> None:
    for name, (content, query, expected) in DOCUMENTS.items():
        store = await client.vector_stores.create()
        file = await client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=(name, content))
        assert (name, file.status, file.last_error) == (name, "completed", None)
        found = await client.vector_stores.search(store.id, query=query)
        assert [row.filename for row in found.data] == [name]
        assert expected in found.data[0].content[0].text


async def test_a_document_that_cannot_be_read_says_why(client: openai.AsyncOpenAI) -> None:
    store = await client.vector_stores.create()
    for name, (content, code, words) in UNREADABLE.items():
        file = await client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=(name, content))
        assert file.status == "failed"
        assert file.last_error is not None
        assert (name, file.last_error.code) == (name, code)
        assert words in file.last_error.message
    counts = (await client.vector_stores.retrieve(store.id)).file_counts
    assert (counts.failed, counts.completed, counts.total) == (len(UNREADABLE), 0, len(UNREADABLE))


async def test_a_long_document_is_divided_as_it_was_asked_for(client: openai.AsyncOpenAI) -> None:
    text = "\n\n".join(f"Rule {number}. Ship number {number} waits at pier {number % 7}." for number in range(400))
    store = await client.vector_stores.create()
    file = await client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id,
        file=("rules.txt", text.encode()),
        chunking_strategy={"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20}},
    )
    assert file.status == "completed"
    pieces = [each.text or "" async for each in client.vector_stores.files.content(file.id, vector_store_id=store.id)]
    assert len(pieces) > 40
    assert all(len(piece) <= 400 and piece.startswith("Rule ") and piece.endswith(".") for piece in pieces)
    found = await client.vector_stores.search(store.id, query="Where does ship number 217 wait?", max_num_results=5)
    assert any("Ship number 217 waits at pier 0." in row.content[0].text for row in found.data)
