"""Citations of documents in Anthropic Messages: what the model reads, and where in a document its marks lead."""

import base64
from typing import Any

import aiohttp
import pytest
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest
from support.messages import VERSION, Body, create, fold, refused, stream
from support.pdfs import make_pdf
from support.search_services import SearchServices, searching

CITED = {"citations": {"enabled": True}}
GRASS, SKY = "The grass is green, as everybody knows. " * 5, "The sky is blue, at least on a day without clouds. " * 3
DATA = f"{GRASS.strip()}\n\n{SKY.strip()}\n"


def asked(*blocks: Body) -> list[Body]:
    return [{"role": "user", "content": [*blocks, {"type": "text", "text": "Which colours?"}]}]


def document(source: Body, **members: Any) -> Body:
    return {"type": "document", "source": source, **CITED, **members}


TEXT = document({"type": "text", "media_type": "text/plain", "data": DATA}, title='My "notes"')
# Pieces that cut the marks.
SAID = [chunk({"content": each}) for each in ("It is green [", "1]. And b", "lue [2", "]", "[1].", " Nothing else.")]


async def answered(gateway: GatewayUnderTest, engine: MockEngine, messages: Any, *said: bytes, **more: Any) -> list[Body]:
    """The blocks, which are the same whether they are streamed or whole."""
    engine.will(answer(*said), answer(*said))
    whole = (await create(gateway, messages, **more))["content"]
    assert fold(await stream(gateway, messages, **more))["content"] == whole
    assert not gateway.notice
    return list(whole)


async def test_a_text_is_cited_by_its_characters(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    green, blue, rest = await answered(gateway, engine, asked(TEXT), *SAID)
    read = engine.last["messages"][-1]["content"]
    assert read.startswith(
        f"<document title=\"My 'notes'\">\n[1] {GRASS.strip()}\n[2] {SKY.strip()}\n</document>\nCite what you use"
    )
    assert [green["text"], blue["text"], rest["text"]] == ["It is green.", " And blue.", " Nothing else."]
    assert "citations" not in rest
    (first,) = green["citations"]
    about = {"type": "char_location", "document_index": 0, "document_title": 'My "notes"', "file_id": None}
    assert first == {**about, "cited_text": GRASS.strip(), "start_char_index": 0, "end_char_index": len(GRASS) - 1}
    for cited in (first, *blue["citations"]):
        assert DATA[cited["start_char_index"] : cited["end_char_index"]] == cited["cited_text"]
    assert [cited["cited_text"] for cited in blue["citations"]] == [SKY.strip(), GRASS.strip()]


async def test_the_numbers_of_documents_run_on(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    pages = base64.b64encode(make_pdf("One page.", "Another page.")).decode()
    pdf = document({"type": "base64", "media_type": "application/pdf", "data": pages}, title="a.pdf", context="It is old.")
    own = document({"type": "content", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]})
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "C"}}
    found = {"type": "search_result", "source": "s", "title": "T", "content": [{"type": "text", "text": "D"}], **CITED}
    inside = {"type": "tool_result", "tool_use_id": "a", "content": [found, TEXT]}
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    messages = [*asked(pdf, own, plain), called, {"role": "user", "content": [inside]}]
    said = [chunk({"content": f"It is {number} [{number}]. "}) for number in (2, 3, 5, 6, 9)]
    blocks = await answered(gateway, engine, messages, *said)
    locations = [block["citations"][0] for block in blocks if "citations" in block]
    assert [each["type"] for each in locations] == [
        "page_location",
        "content_block_location",
        "search_result_location",
        "char_location",
    ]
    page, block, result, characters = locations
    assert (page["document_index"], page["start_page_number"], page["end_page_number"]) == (0, 2, 3)
    assert (page["cited_text"], page["document_title"]) == ("Another page.", "a.pdf")
    assert (block["document_index"], block["start_block_index"], block["cited_text"]) == (1, 0, "A")
    assert (result["search_result_index"], result["source"], result["title"], result["cited_text"]) == (0, "s", "T", "D")
    # A document without citations counts, too; and 9 is no number of anything.
    assert characters["document_index"] == 3
    assert blocks[-1]["text"].endswith("It is 9 [9]. ")


async def test_a_file_is_cited_and_known_by_its_id(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    form = aiohttp.FormData()
    form.add_field("file", DATA.encode(), filename="a.txt")
    async with gateway.client.post(f"{gateway.url}/v1/files", data=form, headers=VERSION) as uploaded:
        id = (await uploaded.json())["id"]
    (block,) = await answered(
        gateway, engine, asked(document({"type": "file", "file_id": id})), *[chunk({"content": "Blue [2]."})]
    )
    (cited,) = block["citations"]
    assert (cited["type"], cited["file_id"], cited["cited_text"]) == ("char_location", id, SKY.strip())


async def test_pages_that_are_found_have_the_next_numbers(engine: MockEngine) -> None:
    searched = answer(call("web_search", '{"query": "sky"}'), finish="tool_calls")
    engine.will(searched, text("Blue [2], says a page [3]."))
    web = {"type": "web_search_20250305", "name": "web_search"}
    async with SearchServices() as services, searching(engine, services) as gateway:
        message = await create(gateway, asked(TEXT), tools=[web])
    *_, first, second = message["content"]
    assert [each["type"] for each in first["citations"]] == ["char_location"]
    assert [each["url"] for each in second["citations"]] == [message["content"][1]["content"][0]["url"]]
    assert first["text"] == "Blue,"


async def test_a_document_that_changes_nothing_is_numbered_alike_in_every_turn(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    await create(gateway, asked(TEXT))
    first = engine.last["messages"]
    await create(gateway, [*asked(TEXT), {"role": "assistant", "content": "Green."}, *asked(TEXT)])
    assert engine.last["messages"][: len(first)] == first
    assert "\n[3] The grass" in engine.last["messages"][-1]["content"]


async def test_what_looks_like_a_mark_in_a_document_is_not_repeated(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Rome is old [1]."}
    await create(gateway, asked(document(source)))
    assert "[1] Rome is old.\n" in engine.last["messages"][-1]["content"]


@pytest.mark.parametrize("place", ["output_config", "output_format"])
async def test_an_answer_that_follows_a_schema_cites_nothing(gateway: GatewayUnderTest, place: str) -> None:
    format = {"type": "json_schema", "schema": {"type": "object"}}
    words = await refused(gateway, asked(TEXT), **{place: {"format": format} if place == "output_config" else format})
    assert words.startswith("Citations cannot be used together with")
