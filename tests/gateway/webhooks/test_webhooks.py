"""Webhooks: each end is reported at least once, signed, to every endpoint by itself, and to no address that is forbidden."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiohttp import web
from support.background import Background, held_back
from support.engine import MockEngine, Refusal
from support.gateway import running_gateway
from support.host_names import resolves_to
from support.stores import interposed
from support.webhook_receiver import SECRET, receiving

from antiphon.app.webhooks import check_webhooks
from antiphon.gateway.webhooks.messages import Endpoint, Webhooks, secret_to_key
from antiphon.gateway.webhooks.sender import WebhookSender
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.tables import WebhookEndpointSettings, WebhookSettings
from antiphon.store.accounts.store import AccountStore
from antiphon.store.memory.store import MemoryStore
from antiphon.tools.addresses import AddressPolicy

HERE = AddressPolicy("public", loopback=True)


def hooks(**receivers: str) -> WebhookSettings:
    endpoints = {name: WebhookEndpointSettings(url=url, secret=SECRET) for name, url in receivers.items()}
    return WebhookSettings(endpoints=endpoints)


async def test_each_end_of_a_background_response_is_reported_and_verified_by_the_sdk(engine: MockEngine) -> None:
    async with receiving() as receiver, running_gateway(engine, webhooks=hooks(one=receiver.url)) as gateway:
        background = Background(gateway)
        done = await background.made()
        engine.will(Refusal(400, {"error": {"message": "no"}}))
        failed = await background.made()
        script, go_on = held_back("Hi")
        engine.will(script)
        running = await background.create()
        await background.seen(running["id"], "in_progress")
        await background.cancel(running["id"])
        go_on.set()
        events = await receiver.got(3)
        # Others are not in the background.
        await gateway.create()
    found = {(event.type, event.data.id) for event in events}
    assert found == {
        ("response.completed", done["id"]),
        ("response.failed", failed["id"]),
        ("response.cancelled", running["id"]),
    }
    assert len({event.id for event in events}) == 3


async def test_one_that_is_cancelled_in_the_queue_is_reported_and_another_gateway_sends_it(engine: MockEngine) -> None:
    store = MemoryStore()
    async with receiving() as receiver:
        webhooks = hooks(one=receiver.url)
        async with running_gateway(engine, shares=store, background_workers=0, webhooks=webhooks) as gateway:
            queued = await Background(gateway).create()
            await Background(gateway).cancel(queued["id"])
            (event,) = await receiver.got(1)
    assert (event.type, event.data.id) == ("response.cancelled", queued["id"])


# ---- receivers that are slow, dead, lie or redirect --------------------------------------------------------------------


def message(store: MemoryStore, *endpoints: Endpoint, id: str = "resp_1") -> None:
    store.accounts.deliver(Webhooks(endpoints).messages("response.completed", id, "", 0))


def endpoint(name: str, url: str) -> Endpoint:
    return Endpoint(name, url, secret_to_key(SECRET))


async def sent(store: AccountStore, endpoints: Sequence[Endpoint], until: Any, **options: Any) -> None:
    policy = options.pop("policy", HERE)
    sender = WebhookSender(store, endpoints, policy, patience=options.pop("patience", 5.0), pauses=(0.0,), **options)
    sending = asyncio.create_task(sender.run())
    try:
        await until
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def broken(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def refusing(request: web.Request) -> web.StreamResponse:
    return web.Response(status=500)


async def redirecting(request: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": str(request.url)})


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def endless(request: web.Request) -> web.StreamResponse:
    """It accepts, and goes on talking."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65536)


async def claiming(request: web.Request) -> web.StreamResponse:
    """A length that it does not have, in a coding that it is not in, which nobody reads."""
    return web.Response(status=299, headers={"Content-Length": "1000000", "Content-Encoding": "gzip"}, body=b"x")


def raw(answer: bytes) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Not of HTTP, or of another one."""

    async def write(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(answer)
        return await broken(request)

    return write


LIES = [
    raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
    raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    raw(b"220 mail.example ESMTP\r\n"),
]


@pytest.mark.parametrize("answer", [broken, refusing, redirecting, silent, *LIES])
async def test_what_is_not_accepted_is_sent_again(answer: Any) -> None:
    store = MemoryStore(wakeups=None)
    async with receiving() as receiver:
        receiver.answer = answer
        hook = endpoint("one", receiver.url)
        message(store, hook)

        async def until() -> None:
            await receiver.got(2)
            receiver.answer = endless
            while store.accounts._deliveries:
                await asyncio.sleep(0)

        await sent(store.accounts, [hook], until(), patience=0.3)
    assert len({event.id for event in receiver.events}) == 1


async def test_a_status_is_enough_whatever_is_said_of_the_body() -> None:
    store = MemoryStore()
    async with receiving() as receiver:
        receiver.answer = claiming
        hook = endpoint("one", receiver.url)
        message(store, hook)

        async def until() -> None:
            while store.accounts._deliveries:
                await asyncio.sleep(0)

        await sent(store.accounts, [hook], until())
        assert len(receiver.events) == 1


async def test_a_redirect_is_not_followed() -> None:
    store = MemoryStore()
    async with receiving() as receiver, receiving() as other:

        async def elsewhere(request: web.Request) -> web.StreamResponse:
            return web.Response(status=308, headers={"Location": other.url})

        receiver.answer = elsewhere
        hook = endpoint("one", receiver.url)
        message(store, hook)
        await sent(store.accounts, [hook], receiver.got(3))
    assert other.events == []


async def test_a_name_that_changes_its_address_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is resolved once for each attempt, and the address that was allowed is the one that is connected to."""
    store = MemoryStore()
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        asked = resolves_to(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
        hook = endpoint("one", f"http://rebinding.example:{port}/hook")
        receiver.answer = refusing
        message(store, hook)

        async def until() -> None:
            while len(asked) < 3:
                await asyncio.sleep(0)

        await sent(store.accounts, [hook], until(), policy=AddressPolicy("listed", ("127.0.0.0/8",)))
    assert len(receiver.events) == 1


async def test_a_dead_endpoint_delays_only_its_own() -> None:
    store = MemoryStore()
    async with receiving() as dead, receiving() as well:
        dead.answer = silent
        hooks = [endpoint("dead", dead.url), endpoint("well", well.url)]
        for number in range(20):
            message(store, *hooks, id=f"resp_{number}")
        await sent(store.accounts, hooks, well.got(20))
        assert 1 <= len(dead.events) <= 4


async def test_a_message_survives_a_gateway_that_is_killed_while_it_sends() -> None:
    """Before the store knows that it was accepted, or while it is on its way."""
    store = MemoryStore()
    first, hands = interposed(store.accounts)

    async def killed(id: str) -> None:
        await asyncio.Event().wait()

    hands.instead["delivered"] = killed
    async with receiving() as receiver:
        hook = endpoint("one", receiver.url)
        message(store, hook)
        await sent(first, [hook], receiver.got(1))
        # Another gateway, after the lease.
        store.accounts._deliveries = {id: (0.0, each) for id, (_, each) in store.accounts._deliveries.items()}
        await sent(store.accounts, [hook], receiver.got(2))
    assert receiver.events[0].id == receiver.events[1].id


@pytest.mark.parametrize(
    ("url", "policy"),
    [
        ("http://169.254.169.254/latest", HERE),
        ("https://10.0.0.1/hook", HERE),
        ("RECEIVER", AddressPolicy("listed", ("hooks.example",))),
    ],
)
async def test_nothing_is_sent_to_an_address_that_is_forbidden(
    url: str, policy: AddressPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    async with receiving() as receiver:
        hook = endpoint("one", url.replace("RECEIVER", receiver.url))
        message(store, hook)
        sender = WebhookSender(store.accounts, [hook], policy, patience=5, pauses=(60.0,))
        sending = asyncio.create_task(sender.run())
        while "webhook not delivered" not in caplog.text:
            await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert receiver.events == []


def test_an_endpoint_gets_what_it_wants() -> None:
    wanting = Webhooks([Endpoint("a", "", b"k", ("batch.failed",), ("ada",)), Endpoint("b", "", b"k")])
    assert [each.endpoint for each in wanting.messages("batch.failed", "batch_1", "ada", 1)] == ["a", "b"]
    assert [each.endpoint for each in wanting.messages("batch.failed", "batch_1", "bob", 1)] == ["b"]
    assert [each.endpoint for each in wanting.messages("response.failed", "resp_1", "ada", 1)] == ["b"]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"url": "http://hooks.example/x"}, "https"),
        ({"secret": ""}, "needs a secret"),
        ({"secret": "whsec_%%%"}, "base64"),
        ({"secret": "$NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
        ({"events": ("response.complete",)}, "Did you mean response.completed"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_said(members: dict[str, Any], said: str) -> None:
    given = WebhookEndpointSettings(**({"url": "https://hooks.example/x", "secret": "s"} | members))
    with pytest.raises(SettingsError, match=said):
        check_webhooks(Settings(webhooks=WebhookSettings(endpoints={"one": given})))


@pytest.mark.parametrize("name", ["", "a b", "é", "a\r\nX-Admin: 1", "x" * 65])
def test_a_name_that_cannot_be_in_a_header_is_refused(name: str) -> None:
    given = WebhookEndpointSettings(url="https://hooks.example/x", secret="s")
    with pytest.raises(SettingsError, match="is not a name"):
        check_webhooks(Settings(webhooks=WebhookSettings(endpoints={name: given})))
