"""Usage and costs as the openai SDK's calls for administrators read them: the admin key sees all, another key its own."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.usage import used

from antiphon.settings.tables import PriceSettings, UsageSettings
from antiphon.store.account_records import DAY, HOUR, Counts, UsageEntry, UsageKind

PRICES = UsageSettings(currency="eur", prices={"mock": PriceSettings(input=2.0, cached=1.0, output=10.0)})
KEYS: dict[str, Any] = {"keys": {"ada": ("a",), "bob": ("b",)}, "admin_key": ("boss",), "usage": PRICES}
TODAY = int(time.time()) // DAY * DAY


@asynccontextmanager
async def admin(gateway: GatewayUnderTest, key: str) -> AsyncIterator[Any]:
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, admin_api_key=key, max_retries=0) as client:
        yield client.admin.organization.usage


def entry(id: str, owner: str, at: int, counts: Counts, channel: str = "http") -> UsageEntry:
    return UsageEntry(id, at, UsageKind(owner, "mock", channel), counts)


async def test_the_sdk_reads_usage_and_costs(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway, admin(gateway, "boss") as usage:
        counts = Counts(2, 1, 1_000_000, 400_000, 100_000, 7, 3)
        await gateway.gateway.store.accounts.add_usage(
            [
                entry("1", "ada", TODAY - DAY + HOUR, counts),
                entry("2", "bob", TODAY - DAY, Counts(1, 0, 500_000)),
                entry("3", "bob", TODAY - 3 * DAY, Counts(1, 0, 10), "embeddings"),
                entry("4", "bob", TODAY - DAY, Counts(4, 0, 10), "batch"),
            ]
        )
        page = await usage.completions(start_time=TODAY - 2 * DAY, end_time=TODAY + DAY, group_by=["api_key_id", "model"])
        assert [len(bucket.results) for bucket in page.data] == [0, 2, 0]
        ada, bob = page.data[1].results
        assert (ada.api_key_id, ada.model, ada.num_model_requests, ada.input_tokens) == ("ada", "mock", 2, 1_000_000)
        assert (ada.input_cached_tokens, ada.input_uncached_tokens, ada.output_tokens) == (400_000, 600_000, 100_000)
        assert (bob.api_key_id, bob.num_model_requests) == ("bob", 5)
        batch = await usage.completions(start_time=TODAY - DAY, limit=1, batch=True, models=["mock"], group_by=["batch"])
        assert [(each.batch, each.num_model_requests) for each in batch.data[0].results] == [(True, 4)]
        hours = await usage.completions(start_time=TODAY - DAY, bucket_width="1h", limit=2, api_key_ids=["ada"])
        assert [len(bucket.results) for bucket in hours.data] == [0, 1]
        rest = await usage.completions(start_time=TODAY - DAY, bucket_width="1h", page=hours.next_page)
        assert (hours.has_more, rest.data[0].start_time) == (True, TODAY - DAY + 2 * HOUR)
        embeddings = await usage.embeddings(start_time=TODAY - 3 * DAY, limit=1)
        assert embeddings.data[0].results[0].input_tokens == 10
        costs = await usage.costs(start_time=TODAY - DAY, limit=1, group_by=["line_item", "api_key_id"])
        found = {(each.api_key_id, each.line_item): each.amount.value for each in costs.data[0].results}
        assert found["ada", "mock, input_tokens"] == pytest.approx(1.2)
        assert found["ada", "mock, cached_input_tokens"] == pytest.approx(0.4)
        assert found["ada", "mock, output_tokens"] == pytest.approx(1.0)
        assert costs.data[0].results[0].amount.currency == "eur"
        whole = await usage.costs(start_time=TODAY - DAY, limit=1)
        assert whole.data[0].results[0].amount.value == pytest.approx(2.6 + 1.00002)


async def test_a_key_sees_its_own_usage_only(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        for key in ("a", "b"):
            headers = {"Authorization": f"Bearer {key}"}
            assert (await gateway.post({"model": "mock", "input": "Hi", "store": False}, headers=headers))[0] == 200
        assert len(await used(gateway)) == 2
        seen = {}
        for key in ("a", "b", "boss"):
            async with admin(gateway, key) as usage:
                page = await usage.completions(start_time=TODAY, group_by=["api_key_id"], limit=1)
                seen[key] = {each.api_key_id for each in page.data[0].results}
                # Not by naming it either.
                page = await usage.completions(start_time=TODAY, api_key_ids=["bob"], limit=1)
                assert bool(page.data[0].results) == (key != "a")
        assert seen == {"a": {"ada"}, "b": {"bob"}, "boss": {"ada", "bob"}}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("", "start_time"),
        ("start_time=x", "start_time"),
        ("start_time=0&bucket_width=1m", "bucket_width"),
        ("start_time=0&limit=32", "limit"),
        ("start_time=0&group_by=user_id", "group_by"),
        ("start_time=0&project_ids=p", "project_ids"),
    ],
)
async def test_what_cannot_be_asked_for_is_a_400_that_names_the_field(
    gateway: GatewayUnderTest, query: str, param: str
) -> None:
    status, answer = await gateway.get(f"/v1/organization/usage/completions?{query}")
    assert (status, answer["error"]["param"]) == (400, param)
    async with admin(gateway, "none") as usage:
        with pytest.raises(BadRequestError):
            await usage.costs(start_time=0, bucket_width="1h")
