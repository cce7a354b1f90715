"""Which web pages' requests are let in: by the name of the host, by the page's origin, and by the type of the body."""

from typing import Any

import aiohttp
import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import get, post, sent
from support.sockets import connected

from antiphon.server.request_headers import host_to_name

pytestmark = pytest.mark.timeout(60)

BODY = b'{"model": "mock", "input": "Hi"}'
JSON = b"Content-Type: application/json"
PAGE = b"https://page.example"


async def status_for_host(gateway: GatewayUnderTest, host: bytes, path: bytes = b"/v1/models") -> int:
    return (await sent(gateway, get(path, host=host))).status


# ---- Host ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        b"localhost", b"LocalHost:8484", b"localhost.", b"app.localhost:1", b"127.0.0.1:8484", b"127.9.9.9", b"[::1]:8484",
        b"host.docker.internal:8484", b"10.0.0.7:8484", b"[fe80::1]", b"",
    ],
)  # fmt: skip
async def test_local_names_and_addresses_are_served(gateway: GatewayUnderTest, host: bytes) -> None:
    assert await status_for_host(gateway, host) == 200


@pytest.mark.parametrize(
    "host",
    [
        b"evil.com", b"evil.com:8484", b"localhost.evil.com", b"127.0.0.1.evil.com", b"evil.com:localhost",
        b"localhost@evil.com", b"notlocalhost", b"2130706433", b"[evil.com]", b":8484", b"\xff",
    ],
)  # fmt: skip
async def test_an_unknown_name_is_a_403_that_names_the_setting(gateway: GatewayUnderTest, host: bytes) -> None:
    for request in (get(b"/v1/models", host=host), get(b"/ready", host=host)):
        answer = await sent(gateway, request)
        assert (answer.status, answer.json["error"]["code"]) == (403, "host_not_allowed")
        assert "allowed_hosts" in answer.json["error"]["message"]


async def test_a_page_that_was_given_our_address_can_do_nothing(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """DNS rebinding: to the browser the page's origin is that of the gateway."""
    page = (b"Origin: http://evil.com:8484", b"Sec-Fetch-Site: same-origin", JSON)
    answer = await sent(gateway, post(BODY, *page).replace(b"Host: localhost", b"Host: evil.com:8484"))
    assert (answer.status, answer.json["error"]["code"]) == (403, "host_not_allowed")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with connected(gateway, headers={"Host": "evil.com:8484", "Origin": "http://evil.com:8484"}):
            pass
    assert refused.value.status == 403
    assert not engine.requests


async def test_health_checks_may_use_any_name(gateway: GatewayUnderTest) -> None:
    assert await status_for_host(gateway, b"probe.example", b"/health") == 200


@pytest.mark.parametrize(("setting", "host"), [("antiphon.example", b"antiphon.example:443"), ("*", b"evil.com")])
async def test_names_can_be_allowed(engine: MockEngine, setting: str, host: bytes) -> None:
    async with running_gateway(engine, allowed_hosts=(setting,)) as gateway:
        assert await status_for_host(gateway, host) == 200
        assert await status_for_host(gateway, b"other.example") == (200 if setting == "*" else 403)


async def test_the_name_that_it_listens_on_is_allowed(engine: MockEngine) -> None:
    async with running_gateway(engine, host="box.lan") as gateway:
        assert await status_for_host(gateway, b"box.lan:8484") == 200


async def test_with_a_key_every_name_is_allowed(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("k",)) as gateway:
        assert (await sent(gateway, get(b"/v1/models", b"api-key: k", host=b"antiphon.example"))).status == 200
        assert await status_for_host(gateway, b"antiphon.example") == 401


@pytest.mark.parametrize(
    ("host", "name"),
    [("A.b:1", "a.b"), ("a.b.", "a.b"), ("[::1]:80", "::1"), ("::1", "::1"), (" a ", "a"), ("", ""), (":1", "")],
)
def test_the_name_of_a_host(host: str, name: str) -> None:
    assert host_to_name(host) == name


# ---- Origin ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [PAGE, b"null", b"http://localhost:3000", b"http://[broken", b"file://", b"\xff"])
@pytest.mark.parametrize("key", [(), ("k",)])
async def test_a_page_of_another_origin_is_a_403(engine: MockEngine, origin: bytes, key: tuple[str, ...]) -> None:
    async with running_gateway(engine, api_key=key) as gateway:
        from_page = (b"Origin: " + origin, b"api-key: k")
        for request in (post(BODY, *from_page, JSON), get(b"/v1/models", *from_page)):
            answer = await sent(gateway, request)
            assert (answer.status, answer.json["error"]["code"]) == (403, "origin_not_allowed")
            assert "cors_origins" in answer.json["error"]["message"]
    assert not engine.requests


async def test_our_own_origin_and_allowed_ones_are_served(engine: MockEngine) -> None:
    async with running_gateway(engine, cors_origins=(PAGE.decode(),)) as gateway:
        for origin in (b"http://localhost", b"https://localhost", PAGE):
            assert (await sent(gateway, post(BODY, b"Origin: " + origin, JSON))).status == 200


# ---- Content-Type ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "", "ÿ"]
)
@pytest.mark.parametrize("sign", [b"Origin: http://localhost", b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Site: same-origin"])
async def test_a_page_must_send_json(gateway: GatewayUnderTest, engine: MockEngine, sign: bytes, kind: str) -> None:
    for path in (b"/v1/responses", b"/v1/chat/completions", b"/v1/conversations"):
        answer = await sent(gateway, post(BODY, sign, b"Content-Type: " + kind.encode("latin-1"), path=path))
        assert (answer.status, answer.json["error"]["code"]) == (415, "unsupported_media_type")
    assert not engine.requests


@pytest.mark.parametrize("kind", [b"application/json", b"Application/JSON; charset=utf-8", b"application/vnd.api+json"])
async def test_a_page_may_send_json(gateway: GatewayUnderTest, kind: bytes) -> None:
    from_page = (b"Origin: http://localhost", b"Sec-Fetch-Site: same-origin", b"Content-Type: " + kind)
    assert (await sent(gateway, post(BODY, *from_page))).status == 200


async def test_a_page_may_send_nothing(gateway: GatewayUnderTest) -> None:
    cancel = post(b"", b"Origin: http://localhost", path=b"/v1/responses/resp_none/cancel")
    assert (await sent(gateway, cancel)).status == 404


async def test_other_clients_may_name_any_type(gateway: GatewayUnderTest) -> None:
    for headers in ((), (b"Content-Type: text/plain",), (b"Content-Type: \xff",)):
        assert (await sent(gateway, post(BODY, *headers))).status == 200


# ---- every way in ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("both_transports")
async def test_a_websocket_is_checked_like_every_request(engine: MockEngine) -> None:
    refusals: list[dict[str, Any]] = [
        {"Host": "evil.com"},
        {"Origin": "http://evil.com"},
        {"Host": "evil.com", "Origin": "http://evil.com"},
    ]
    async with running_gateway(engine) as gateway:
        for headers in refusals:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with connected(gateway, headers=headers):
                    pass
            assert refused.value.status == 403
        async with connected(gateway, headers={"Host": "localhost:1", "Origin": "http://localhost:1"}) as socket:
            assert (await socket.create())["status"] == "completed"


# ---- Sec-Fetch-Site --------------------------------------------------------------------------------------------------

INSPECTOR_DATA = (b"/inspector/status", b"/inspector/requests", b"/inspector/requests/1", b"/inspector/stored/responses")


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
async def test_pages_of_other_sites_get_nothing_of_the_inspector(gateway: GatewayUnderTest, site: bytes) -> None:
    """An image of such a page is sent without an Origin."""
    await gateway.create("Hi")
    for path in (*INSPECTOR_DATA, b"/inspector/engines", b"/inspector/live"):
        answer = await sent(gateway, get(path, b"Sec-Fetch-Site: " + site, b"Sec-Fetch-Mode: no-cors"))
        assert (answer.status, answer.json["error"]["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("site", [b"same-origin", b"none"])
async def test_the_page_of_the_inspector_gets_its_data(gateway: GatewayUnderTest, site: bytes) -> None:
    await gateway.create("Hi")
    for path in INSPECTOR_DATA:
        assert (await sent(gateway, get(path, b"Sec-Fetch-Site: " + site))).status == 200


async def test_a_link_of_another_site_may_open_the_page_of_the_inspector(gateway: GatewayUnderTest) -> None:
    async with gateway.client.get(gateway.url + "/", headers={"Sec-Fetch-Site": "cross-site"}) as answer:
        assert answer.status == 200


async def test_a_page_of_an_allowed_origin_may_read_the_inspector(engine: MockEngine) -> None:
    async with running_gateway(engine, cors_origins=(PAGE.decode(),)) as gateway:
        answer = await sent(gateway, get(b"/inspector/status", b"Origin: " + PAGE, b"Sec-Fetch-Site: cross-site"))
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/inspector/requests", "/inspector/requests/1", "/inspector/requests/99"])
async def test_what_the_inspector_shows_is_neither_embedded_nor_kept(gateway: GatewayUnderTest, path: str) -> None:
    await gateway.create("Hi")
    await gateway.get(path)
    assert gateway.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert gateway.headers["X-Content-Type-Options"] == "nosniff"
    assert gateway.headers["Cache-Control"] == "no-store"
