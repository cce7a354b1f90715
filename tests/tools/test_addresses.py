"""Which addresses tools may connect to, and that nothing else is connected to."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from support.host_names import resolves_to

from antiphon.tools.addresses import (
    AddressPolicy,
    AddressRefused,
    address_complaint,
    guarded_connector,
    literal_address,
    resolve,
    url_complaint,
)

ANY = AddressPolicy("any")
PUBLIC = AddressPolicy("public")
PUBLIC_AND_LOOPBACK = AddressPolicy("public", loopback=True, https=True)

# With every way to write them.
NEVER = [
    *("169.254.169.254", "169.254.170.2", "169.254.0.1", "fe80::1", "febf::1"),
    *("224.0.0.1", "239.255.255.250", "ff02::1", "255.255.255.255"),
    *("0.0.0.0", "0.1.2.3", "::"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:169.254.169.254", "::ffff:0:0", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "::ffff:0:169.254.169.254"),
    *("::169.254.169.254", "2002:a9fe:a9fe::1"),
    *("fd00:ec2::254%1", "fd20:ce::254%251", "fe80::1%eth0", "::%1", "::ffff:169.254.169.254%1"),
]
PRIVATE = [
    *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "240.0.0.1"),
    *("fc00::1", "fd12:3456::1", "fec0::1", "2001:db8::1", "3fff::1", "100::1", "4000::1"),
    *("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "::10.0.0.1"),
    # The last bits are those of a public address. They need not be where it leads.
    *("64:ff9b:1::101:101", "64:ff9b:1:a00:0:100:101:101", "fc00::1%1"),
]
LOOPBACK = ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
GLOBAL = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"]


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("policy", [ANY, PUBLIC, AddressPolicy("listed", listed=["host", "169.254.0.0/16"], loopback=True)])
def test_some_addresses_are_refused_whatever_the_policy(policy: AddressPolicy, address: str) -> None:
    assert address_complaint(policy, "host", address, 80) is not None


@pytest.mark.parametrize("address", [*PRIVATE, *LOOPBACK])
def test_private_addresses_are_not_public(address: str) -> None:
    assert address_complaint(PUBLIC, "host", address, 80) is not None
    assert address_complaint(ANY, "host", address, 80) is None


@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_is_reached_where_it_is_allowed(address: str) -> None:
    assert address_complaint(PUBLIC_AND_LOOPBACK, "host", address, 80) is None


@pytest.mark.parametrize("address", GLOBAL)
def test_public_addresses_are_public(address: str) -> None:
    assert address_complaint(PUBLIC, "host", address, 443) is None
    assert address_complaint(AddressPolicy("off"), "host", address, 443) is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_the_gateway_itself_is_never_reached(address: str) -> None:
    policy = AddressPolicy("any", own=[("0.0.0.0", 8484)], loopback=True, listed=["host"])
    complaint = address_complaint(policy, "host", address, 8484)
    assert complaint is not None
    assert "this gateway itself" in complaint
    assert address_complaint(policy, "host", address, 8485) is None


@pytest.mark.parametrize(
    ("listed", "host", "address", "allowed"),
    [
        ("example.com", "example.com", "10.0.0.1", True),
        ("example.com", "EXAMPLE.com.", "10.0.0.1", True),
        ("example.com", "a.example.com", "1.1.1.1", False),
        ("*.example.com", "a.b.example.com", "10.0.0.1", True),
        ("*.example.com", "badexample.com", "1.1.1.1", False),
        ("example.com:8080", "example.com", "10.0.0.1", True),
        ("example.com:8081", "example.com", "10.0.0.1", False),
        ("10.1.0.0/16", "printer", "10.1.2.3", True),
        ("10.1.0.0/16", "printer", "10.2.2.3", False),
        ("10.1.0.0/16", "printer", "::ffff:10.1.2.3", True),
        ("10.1.0.0/16", "printer", "64:ff9b:1::a01:203", False),
    ],
)
def test_hosts_are_listed_by_name_port_or_network(listed: str, host: str, address: str, allowed: bool) -> None:
    complaint = address_complaint(AddressPolicy("listed", listed=[listed]), host, address, 8080)
    assert (complaint is None) is allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1."])
def test_an_address_is_read_however_it_is_written(host: str) -> None:
    assert str(literal_address(host)) == "127.0.0.1"
    assert url_complaint(PUBLIC, f"https://{host}/mcp") is not None


@pytest.mark.parametrize("host", ["fd00:ec2::254%1", "fd00:ec2::254%251", "[fd00:ec2::254%eth0]"])
def test_an_address_is_the_same_by_whichever_interface_it_is_reached(host: str) -> None:
    assert str(literal_address(host)) == "fd00:ec2::254"


@pytest.mark.parametrize("host", ["example.com", "1password.com", "0x7f.example", "localhost", "dead.beef"])
def test_a_name_is_not_an_address(host: str) -> None:
    assert literal_address(host) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com/", "http://"),
        ("stdio:run", "http://"),
        ("https:///path", "http://"),
        ("https://user:secret@example.com/", "user name"),
        ("https://@example.com/", "user name"),
        ("https://example.com:99999/", "not a URL"),
        ("https://[::1/", "not a URL"),
        (f"https://{'a' * 64}.example/", "not a URL"),
        ("https://a..example/", "not a URL"),
        ("https://xn--/", "not a URL"),
        ("https://example.com/\r\nX: y", "control characters"),
        ("http://example.com/mcp", "only https"),
        ("http://10.0.0.1/mcp", "public internet"),
        ("https://[fe80::1]/mcp", "link-local"),
        ("https://169.254.169.254/latest", "link-local"),
        ("https://[fd00:ec2::254%251]/latest", "metadata"),
        ("https://0xa9fea9fe/latest", "link-local"),
    ],
)
def test_a_url_that_may_not_be_used_is_refused_with_the_reason(url: str, words: str) -> None:
    complaint = url_complaint(PUBLIC_AND_LOOPBACK, url)
    assert complaint is not None
    assert words in complaint
    assert "secret" not in complaint


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/mcp",
        "http://localhost:8000/mcp",
        "http://127.0.0.1:8000/mcp",
        "http://[::1]:8000/",
        "https://1.1.1.1",
    ],
)
def test_public_https_and_this_machine_may_be_used(url: str) -> None:
    assert url_complaint(PUBLIC_AND_LOOPBACK, url) is None


def test_a_listed_host_may_be_used_without_https() -> None:
    policy = AddressPolicy("listed", listed=["tools.lan"], https=True)
    assert url_complaint(policy, "http://tools.lan/mcp") is None
    assert url_complaint(policy, "http://other.lan/mcp") == "other.lan is not one of the hosts that may be connected to"


async def test_a_name_is_refused_for_the_addresses_that_it_has() -> None:
    with pytest.raises(AddressRefused, match="localhost is not on the public internet"):
        await resolve(PUBLIC, "localhost", 80)
    assert "127.0.0.1" in [each["host"] for each in await resolve(PUBLIC_AND_LOOPBACK, "localhost", 80)]


async def test_only_the_addresses_that_are_allowed_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, ["10.0.0.1", "1.1.1.1", "fe80::1%eth0"])
    assert [each["host"] for each in await resolve(PUBLIC, "mixed.example", 443)] == ["1.1.1.1"]


async def test_a_name_does_not_say_what_its_address_is(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, ["169.254.169.254"])
    with pytest.raises(AddressRefused) as refused:
        await resolve(ANY, "metadata.example", 80)
    assert str(refused.value) == "metadata.example has a link-local address, to which no connection is made"


# ---- connections -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="reached")

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.query["to"])

    app = web.Application()
    app.add_routes([web.get("/", answer), web.get("/redirect", redirect)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    yield site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    await runner.cleanup()


async def text_of(policy: AddressPolicy, url: str) -> str:
    async with aiohttp.ClientSession(connector=guarded_connector(policy)) as session, session.get(url) as answer:
        return await answer.text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_connection_is_made_where_it_is_allowed(port: int, host: str) -> None:
    assert await text_of(PUBLIC_AND_LOOPBACK, f"http://{host}:{port}/") == "reached"
    with pytest.raises(AddressRefused):
        await text_of(PUBLIC, f"http://{host}:{port}/")


async def test_a_redirect_is_followed_only_to_what_is_allowed(port: int) -> None:
    assert await text_of(PUBLIC_AND_LOOPBACK, f"http://localhost:{port}/redirect?to=/") == "reached"
    with pytest.raises(AddressRefused, match="link-local"):
        await text_of(PUBLIC_AND_LOOPBACK, f"http://localhost:{port}/redirect?to=http://169.254.169.254/latest")


async def test_a_name_that_changes_its_address_gains_nothing(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is allowed, every later one would not be: it is asked for once, and that address is connected to."""
    asked = resolves_to(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
    policy = AddressPolicy("listed", listed=["127.0.0.0/8"])
    assert await text_of(policy, f"http://rebinding.example:{port}/") == "reached"
    assert asked == ["rebinding.example"]
    with pytest.raises(AddressRefused):
        await text_of(policy, f"http://rebinding.example:{port}/")
