"""Budgets: a hard one ends in a 429 that nobody tries again, a soft one in a notice, over all gateways of a store."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import openai
import pytest
from support.background import Background
from support.engine import MockEngine
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway
from support.metrics import scrape
from support.sockets import connected
from support.stores import interposed

from antiphon.errors import QuotaExceeded, StoreUnavailable
from antiphon.gateway.usage.budgets import Budget, Budgets
from antiphon.gateway.usage.ledger import Ledger
from antiphon.gateway.usage.prices import Price, Prices
from antiphon.settings.settings import Settings
from antiphon.settings.tables import BudgetSettings, UsageSettings
from antiphon.store.account_records import DAY, Counts, UsageEntry, UsageKind
from antiphon.store.memory.store import MemoryStore

ADA: dict[str, Any] = {"headers": {"Authorization": "Bearer a"}}
BOB: dict[str, Any] = {"headers": {"Authorization": "Bearer b"}}
BODY = {"model": "mock", "input": "Hi"}
KEYS: dict[str, Any] = {"keys": {"ada": ("a",), "bob": ("b",)}, "admin_key": ("boss",)}
CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}


def limited(**limits: Any) -> UsageSettings:
    return UsageSettings(budgets={"ada": BudgetSettings(**limits)})


async def ask(gateway: GatewayUnderTest, **options: Any) -> int:
    return (await gateway.post(BODY, **options))[0]


async def test_a_hard_budget_ends_in_a_429_however_a_request_comes(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS, usage=limited(tokens_per_day=34)) as gateway:
        # A mock answer takes 17 tokens.
        assert [await ask(gateway, **ADA) for _ in range(3)] == [200, 200, 429]
        _, refused = await gateway.post(BODY, **ADA)
        assert (refused["error"]["code"], refused["error"]["type"]) == ("insufficient_quota", "insufficient_quota")
        assert gateway.headers["x-should-retry"] == "false"
        assert "34 of 34 tokens a day" in refused["error"]["message"]
        for path, body in (("/v1/chat/completions", CHAT), ("/v1/embeddings", {"model": "mock", "input": "Hi"})):
            assert (await gateway.post(body, path, **ADA))[0] == 429
        assert (await gateway.post(BODY | {"background": True}, **ADA))[0] == 429
        async with connected(gateway, **ADA) as socket:
            event = await socket.refused()
            assert event["error"]["code"] == "insufficient_quota"
        assert await ask(gateway, **BOB) == 200
        asked = len(engine.requests)
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="a") as client:
            with pytest.raises(openai.RateLimitError, match="is used up"):
                await client.responses.create(model="mock", input="Hi")
        assert len(engine.requests) == asked
        shown = await scrape(gateway, "boss")
        assert shown.value("antiphon_budget_exceeded_total", key="ada", budget="hard") >= 6
        # More is allowed at once.
        await gateway.reload(settings(gateway, engine, usage=limited(tokens_per_day=100)))
        assert await ask(gateway, **ADA) == 200


def settings(gateway: GatewayUnderTest, engine: MockEngine, **members: Any) -> Settings:
    return Settings(upstream=(engine.url,), port=0, **(DEFAULTS | KEYS | members))


async def test_a_soft_budget_only_says_so(engine: MockEngine) -> None:
    usage = limited(requests_per_month=2, soft=True, notice_from=0.5)
    async with running_gateway(engine, **KEYS, usage=usage) as gateway:
        notices = []
        for _ in range(3):
            assert await ask(gateway, **ADA) == 200
            notices.append(gateway.notice)
        assert notices[0] == ""
        assert "1 of 2 requests a month are used" in notices[1]
        assert "the budget of this key is used up: 2 of 2 requests a month" in notices[2]
        engine.will(b"{}")
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=CHAT, **ADA) as passed:
            assert "used up" in passed.headers["antiphon-notice"]
        shown = await scrape(gateway, "boss")
        assert shown.value("antiphon_budget_exceeded_total", key="ada", budget="soft") == 2


async def test_a_background_response_that_waited_is_refused_when_its_turn_comes(engine: MockEngine) -> None:
    store = MemoryStore()
    usage = limited(requests_per_day=1)
    async with running_gateway(engine, shares=store, **KEYS, usage=usage, background_workers=0) as accepting:
        waiting = [await Background(accepting, **ADA).create() for _ in range(3)]
        async with running_gateway(engine, shares=store, **KEYS, usage=usage, background_workers=1) as working:
            ended = [await Background(working, **ADA).ended(each["id"]) for each in waiting]
    assert [each["status"] for each in ended] == ["completed", "failed", "failed"]
    assert ended[1]["error"]["code"] == "insufficient_quota"


# ---- what is known ---------------------------------------------------------------------------------------------------

NOW = 1_800_000_000


class Clock:
    now = float(NOW)

    def __call__(self) -> float:
        return self.now


def make(store: Any, clock: Clock, **limits: Any) -> tuple[Budgets, Ledger]:
    ledger = Ledger(store, lambda model: True, now=clock)
    prices = Prices("usd", {"*": Price(1, 1, 1)})
    return Budgets(store, ledger, prices, {"ada": Budget(**limits)}, now=clock), ledger


async def allowed(budgets: Budgets, owner: str = "ada") -> bool:
    try:
        if (checking := budgets.check(owner)) is not None:
            await checking
    except QuotaExceeded:
        return False
    return True


async def test_what_another_gateway_has_written_is_known_after_two_seconds() -> None:
    store, clock = MemoryStore().accounts, Clock()
    (here, own), (there, other) = make(store, clock, requests_per_day=4), make(store, clock, requests_per_day=4)
    assert await allowed(here)
    assert await allowed(there)
    for ledger in (own, other, other):
        ledger.count("ada", "m", "http", Counts(1))
    # A request that failed or was refused does not count.
    own.count("ada", "m", "http", Counts(5, 5))
    await asyncio.gather(own.flush(), other.flush())
    own.count("ada", "m", "http", Counts(1))
    assert await allowed(here)
    clock.now += 2
    assert not await allowed(here)
    # What is not written is known where it was counted, and nowhere else.
    assert await allowed(there)
    # On the next day all of it can be used again.
    clock.now = float(NOW - NOW % DAY + DAY)
    assert await allowed(here)


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        ({"tokens_per_month": 30}, Counts(1, 0, 20, 0, 10)),
        ({"cost_per_month": 2.5}, Counts(1, 0, 2_000_000, 0, 500_000)),
        ({"requests_per_month": 2}, Counts(2)),
        ({"tokens_per_day": 0}, Counts()),
    ],
)
async def test_each_limit_counts_what_it_names(limit: dict[str, Any], counts: Counts) -> None:
    clock, store = Clock(), MemoryStore().accounts
    yesterday = NOW - DAY if "day" not in next(iter(limit)) else NOW
    await store.add_usage([UsageEntry("1", yesterday, UsageKind("ada", "m", "http"), counts)])
    assert not await allowed(make(store, clock, **limit)[0])
    more = {name: value * 2 + 1 for name, value in limit.items()}
    assert await allowed(make(store, clock, **more)[0])
    # Not for other keys.
    assert await allowed(make(store, clock, **limit)[0], "bob")


@pytest.fixture(params=["UTC", "America/New_York", "Pacific/Kiritimati"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of the machine, which days and months do not depend on."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("ends", "is_month"),
    [
        ("2026-12-31", True),
        ("2027-01-31", True),
        ("2027-02-27", False),
        ("2027-02-28", True),
        ("2028-02-28", False),
        ("2028-02-29", True),
        # Clocks go forward and back in New York.
        ("2027-03-14", False),
        ("2027-11-07", False),
    ],
)
async def test_a_day_and_a_month_end_at_midnight_utc(ends: str, *, is_month: bool) -> None:
    last = datetime.fromisoformat(f"{ends}T23:59:59+00:00").timestamp()
    following = datetime.fromtimestamp(last + 1, UTC)
    for limit, begins_anew in (("requests_per_day", True), ("requests_per_month", is_month)):
        clock = Clock()
        clock.now = last - DAY + 1.5
        budgets, ledger = make(MemoryStore().accounts, clock, **{limit: 1})
        assert await allowed(budgets)
        ledger.count("ada", "m", "http", Counts(1))
        clock.now = last + 0.9
        with pytest.raises(QuotaExceeded) as refused:
            await (budgets.check("ada") or asyncio.sleep(0))
        again = f"{following:%Y-%m-%d} 00:00 (UTC)"
        assert (again in refused.value.message) == begins_anew
        # What the process knew from before is of the day before.
        clock.now = last + 1
        assert await allowed(budgets) == begins_anew
        await ledger.flush()
        clock.now += 5
        assert await allowed(budgets) == begins_anew


async def test_what_is_counted_while_others_are_written_counts_once() -> None:
    store, clock = MemoryStore().accounts, Clock()
    slow, hands = interposed(store)
    budgets, ledger = make(slow, clock, requests_per_day=3)
    assert await allowed(budgets)
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def add_usage(entries: Sequence[UsageEntry]) -> None:
        writing.set()
        await go_on.wait()
        await store.add_usage(entries)

    hands.instead["add_usage"] = add_usage
    ledger.count("ada", "m", "http", Counts(1))
    flushing = asyncio.create_task(ledger.flush())
    await writing.wait()
    clock.now += 2
    checking = asyncio.create_task(allowed(budgets))
    while not budgets._reading:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    ledger.count("ada", "m", "http", Counts(1))
    go_on.set()
    assert await checking
    await flushing
    assert await allowed(budgets)
    ledger.count("ada", "m", "http", Counts(1))
    assert not await allowed(budgets)


async def test_without_the_store_what_was_known_decides() -> None:
    class Away:
        def __getattr__(self, name: str) -> Any:
            raise StoreUnavailable

    clock, store = Clock(), MemoryStore().accounts
    budgets, ledger = make(store, clock, requests_per_day=1)
    assert await allowed(budgets)
    budgets._store = Away()
    clock.now += 3
    assert await allowed(budgets)
    ledger.count("ada", "m", "http", Counts(1))
    clock.now += 3
    assert not await allowed(budgets)
    with pytest.raises(StoreUnavailable):
        await allowed(make(Away(), clock, requests_per_day=1)[0])
