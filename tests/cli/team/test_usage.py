"""`antiphon usage`: a table of keys and models, and a bar for each day, from the store or from a gateway."""

import asyncio
import time
from pathlib import Path

import pytest
from support.engine import MockEngine
from support.gateway import running_gateway

from antiphon.cli.team.usage import ask_gateway, lines, read_store, run_usage
from antiphon.settings.settings import Settings
from antiphon.settings.tables import PriceSettings, UsageSettings
from antiphon.store import open_store
from antiphon.store.account_records import DAY, Counts, UsageEntry, UsageKind

TODAY = int(time.time()) // DAY * DAY


async def filled(url: str) -> None:
    async with open_store(url) as store:
        entries = [
            UsageEntry("1", TODAY - DAY, UsageKind("ada", "m", "http"), Counts(3, 1, 1_000_000, 5, 200_000, 6, 2)),
            UsageEntry("2", TODAY, UsageKind("", "n", "passed"), Counts(1, 0, 10)),
        ]
        await store.accounts.add_usage(entries)


async def test_the_store_and_a_gateway_show_the_same(tmp_path: Path, engine: MockEngine) -> None:
    url = f"sqlite:{tmp_path / 'responses.db'}"
    await filled(url)
    usage = UsageSettings(currency="eur", prices={"m": PriceSettings(input=1.5)})
    settings = Settings(store=url, usage=usage, admin_key=("boss",))
    since = TODAY - 2 * DAY
    async with running_gateway(engine, store=url, usage=usage, admin_key=("boss",)) as gateway:
        asked = await asyncio.to_thread(ask_gateway, settings, gateway.url, since, 3)
    read = await asyncio.to_thread(read_store, settings, since, 3)
    assert read == asked
    shown = lines(*read)
    assert shown[0].split() == ["key", "model", "requests", "failed", "input", "cached", "output", "reasoning", "calls", "cost"]
    assert shown[1].split() == ["(no", "key)", "n", "1", "0", "10", "0", "0", "0", "0"]
    assert shown[2].split() == ["ada", "m", "3", "1", "1,000,000", "5", "200,000", "6", "2", "1.5000", "eur"]
    assert [line.count("\N{FULL BLOCK}") for line in shown[-3:]] == [0, 40, 1]


async def test_a_request_that_was_refused_before_a_model_was_chosen_has_a_row_that_says_so(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'responses.db'}"
    async with open_store(url) as store:
        await store.accounts.add_usage([UsageEntry("1", TODAY, UsageKind("ada", "", "http"), Counts(1, 1))])
    shown = lines(*await asyncio.to_thread(read_store, Settings(store=url), TODAY, 1))
    assert shown[1].split() == ["ada", "(no", "model)", "1", "1", "0", "0", "0", "0", "0"]


async def test_it_says_that_nothing_was_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}")
    assert await asyncio.to_thread(lambda: run_usage(settings, None, days=2, as_json=False)) == 0
    assert capsys.readouterr().out == "Nothing was used in this time.\n"
