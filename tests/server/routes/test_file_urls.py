"""Files and images that requests name by their addresses: fetched, where the operator allows it, on every way in."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.web_site import WebSite

PNG = b"\x89PNG"
PAPER = '<file name="paper.pdf">\n[page 1]\nRome on paper\n</file>'


@pytest_asyncio.fixture
async def site() -> AsyncIterator[WebSite]:
    async with WebSite() as running:
        yield running


@asynccontextmanager
async def fetching(engine: MockEngine, site: WebSite, **settings: Any) -> AsyncIterator[GatewayUnderTest]:
    """Only from this site."""
    host = site.url.removeprefix("http://")
    async with running_gateway(engine, **{"fetch_urls": "public", "fetch_hosts": (host,), **settings}) as gateway:
        yield gateway


def file(url: str, **members: Any) -> dict[str, Any]:
    return {"type": "input_file", "file_url": url, **members}


def image(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url}


def asked(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_text", "text": "Read."}, *parts]}]


def data_url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


# ---- what the engine gets --------------------------------------------------------------------------------------------


async def test_a_file_is_read_like_an_uploaded_one(engine: MockEngine, site: WebSite) -> None:
    async with fetching(engine, site) as gateway:
        await gateway.create(asked(file(f"{site.url}/paper.pdf")))
        assert engine.last["messages"] == [{"role": "user", "content": f"Read.\n{PAPER}"}]
        await gateway.create(asked(file(f"{site.url}/data.json?x=1", filename="a.json")))
        assert engine.last["messages"][-1]["content"] == 'Read.\n<file name="a.json">\n{"capital": "Rome"}\n</file>'


async def test_an_image_is_sent_to_the_engine_itself(engine: MockEngine, site: WebSite) -> None:
    async with fetching(engine, site) as gateway:
        await gateway.create(asked({**image(f"{site.url}/whole.png"), "detail": "low"}))
    sent = {"type": "image_url", "image_url": {"url": data_url(b"\x89PNG\r\n\x1a\nwhole"), "detail": "low"}}
    assert engine.last["messages"][-1]["content"][1] == sent


async def test_messages_and_chat_completions_fetch_them_too(engine: MockEngine, site: WebSite) -> None:
    async with fetching(engine, site) as gateway:
        document = {"type": "document", "source": {"type": "url", "url": f"{site.url}/paper.pdf"}}
        picture = {"type": "image", "source": {"type": "url", "url": f"{site.url}/whole.png"}}
        body = {"model": "mock", "max_tokens": 9, "messages": [{"role": "user", "content": [document, picture]}]}
        status, _ = await gateway.post(body, "/v1/messages")
        content = engine.last["messages"][-1]["content"]
        assert (status, content[0]["text"]) == (200, PAPER)
        assert content[1]["image_url"]["url"].startswith("data:image/png")
        # Without a tool it would be passed through as it came.
        parts = [{"type": "image_url", "image_url": {"url": f"{site.url}/whole.png"}}]
        status, _ = await gateway.post(
            {"model": "mock", "messages": [{"role": "user", "content": parts}]}, "/v1/chat/completions"
        )
        assert status == 200
        assert engine.last["messages"][-1]["content"][0]["image_url"]["url"].startswith("data:image/png")
        assert "images by URL" in gateway.notice


async def test_it_is_fetched_once_for_a_conversation(engine: MockEngine, site: WebSite) -> None:
    async with fetching(engine, site) as gateway:
        first = await gateway.create(asked(file(f"{site.url}/paper.pdf"), image(f"{site.url}/whole.png")))
        begun = engine.last["messages"]
        await gateway.create("Go on", previous_response_id=first["id"])
        assert engine.last["messages"][:1] == begun
    assert site.opened == ["paper.pdf", "whole.png"]


async def test_a_conversation_takes_items_with_addresses(engine: MockEngine, site: WebSite) -> None:
    async with fetching(engine, site) as gateway:
        status, created = await gateway.post({"items": asked(file(f"{site.url}/paper.pdf"))}, "/v1/conversations")
        assert status == 200
        await gateway.create("Go on", conversation=created["id"])
        assert engine.last["messages"][0]["content"] == f"Read.\n{PAPER}"


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/responses", {"input": asked(file("https://example.com/a.pdf"))}, "input[0].content[1].file_url"),
        (
            "/v1/messages",
            {
                "max_tokens": 9,
                "messages": [
                    {"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "https://x/a"}}]}
                ],
            },
            "messages[0].content[0].source.url",
        ),
        ("/v1/conversations", {"items": asked(file("https://example.com/a.pdf"))}, "items[0].content[1].file_url"),
    ],
)
async def test_without_the_setting_the_error_names_it(
    gateway: GatewayUnderTest, engine: MockEngine, path: str, body: Any, param: str
) -> None:
    status, answer = await gateway.post({"model": "mock", **body} if "conv" not in path else body, path)
    assert status == 400
    assert "`fetch_urls`" in answer["error"]["message"]
    assert param in (answer["error"].get("param") or answer["error"]["message"])
    assert not engine.requests


async def test_without_the_setting_the_address_of_an_image_goes_to_the_engine(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    await gateway.create(asked(image("https://example.com/a.png")))
    assert engine.last["messages"][-1]["content"][1]["image_url"] == {"url": "https://example.com/a.png"}


@pytest.mark.parametrize(
    ("name", "make", "problem"),
    [
        ("missing", file, "its server answered with status 404"),
        ("image.png", image, "the file is no image"),
        ("huge", file, "it has more than 100000 bytes"),
        ("bomb", file, "it has more than 100000 bytes"),
        ("slow", image, "it did not come within 0.5 s"),
        ("round", file, "it redirects more than 5 times"),
        ("to?url=http://169.254.169.254/", file, "link-local"),
        ("to?url=http://127.0.0.2/", image, "127.0.0.2 is not on the public internet"),
        ("to?url=file:///etc/passwd", file, "it must be http://"),
    ],
)
async def test_what_cannot_be_fetched_is_a_400_that_says_why(
    engine: MockEngine, site: WebSite, name: str, make: Any, problem: str
) -> None:
    timeout = 0.5 if name == "slow" else 60.0
    async with fetching(engine, site, fetch_bytes=100_000, max_image_bytes=90_000_000, fetch_timeout=timeout) as gateway:
        status, body = await gateway.post({"input": asked(make(f"{site.url}/{name}"))})
    assert status == 400
    assert problem in body["error"]["message"]
    assert body["error"]["param"] in ("input[0].content[1].file_url", "input[0].content[1].image_url")
    assert not engine.requests


async def test_an_address_that_the_policy_does_not_allow_is_not_connected_to(engine: MockEngine, site: WebSite) -> None:
    for settings in ({"fetch_urls": "public"}, {"fetch_urls": "listed", "fetch_hosts": ("example.com",)}):
        async with running_gateway(engine, **settings) as gateway:
            status, body = await gateway.post({"input": asked(image(f"{site.url}/whole.png"))})
            assert (status, body["error"]["param"]) == (400, "input[0].content[1].image_url")
    assert not site.opened


async def test_a_private_address_is_fetched_from_where_the_policy_allows_any(engine: MockEngine, site: WebSite) -> None:
    async with running_gateway(engine, fetch_urls="any") as gateway:
        await gateway.create(asked(image(f"{site.url}/whole.png")))
        status, body = await gateway.post({"input": asked(image(f"{gateway.url}/health"))})
        assert status == 400
        assert "is this gateway itself" in body["error"]["message"]


async def test_all_that_is_fetched_for_a_request_is_bounded(engine: MockEngine, site: WebSite) -> None:
    names = [f"whole.png?{at}" for at in range(9)]
    async with fetching(engine, site, fetch_bytes=60) as gateway:
        status, body = await gateway.post({"input": asked(*(image(f"{site.url}/{name}") for name in names))})
        assert (status, "fetch_bytes" in body["error"]["message"]) == (400, True)
        assert len(site.opened) < len(names)
        status, body = await gateway.post({"input": asked(*(image(f"{site.url}/whole.png?{at}") for at in range(101)))})
        assert "100 addresses at most" in body["error"]["message"]


async def test_what_a_stored_conversation_names_may_be_gone(engine: MockEngine, site: WebSite, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/store.db"
    async with fetching(engine, site, store=url) as gateway:
        first = await gateway.create(asked(file(f"{site.url}/paper.pdf"), image(f"{site.url}/whole.png")))
    async with running_gateway(engine, store=url) as gateway:
        await gateway.create("Go on", previous_response_id=first["id"])
        assert "history[0].content[1].file_url" in gateway.notice
        assert "This file cannot be read" in str(engine.last["messages"][0])
