"""Keys that `antiphon key` makes: let in, limited, rotated and refused at once, in every gateway on the store."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.background import held_back
from support.commands import bare_environment, shown_by
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.older_store import FOLDER as OLDER_STORES
from support.postgres import PostgresServer
from support.sockets import connected
from support.worker_gateway import worker_gateway

from antiphon.cli.team.keys import in_store, limit, list_keys, revoke, rotate, store_new
from antiphon.gateway.usage.budgets import Budget
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.tables import BudgetSettings, PriceSettings, UsageSettings
from antiphon.store.account_records import Counts, UsageEntry, UsageKind

BODY = {"model": "mock", "input": "Hi"}
OPTIONS: dict[str, Any] = {"api_key": ("set",)}


def sent(key: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {key}"}}


def key_in(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("sk-antiphon-"))


async def until(gateway: GatewayUnderTest, key: str, status: int) -> None:
    async with asyncio.timeout(10):
        while (await gateway.post(BODY, **sent(key)))[0] != status:
            pass


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'responses.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest_asyncio.fixture
async def gateways(url: str, engine: MockEngine) -> AsyncIterator[list[GatewayUnderTest]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running_gateway(engine, store=url, **OPTIONS)) for _ in range(2)]


async def run(work: Any, *arguments: Any) -> Any:
    """A command, in another thread, where no loop runs."""
    return await asyncio.to_thread(work, *arguments)


async def test_what_is_probably_a_mistake_is_said(tmp_path: Path) -> None:
    """A second key where the first one was meant to be replaced, and a budget for a name that is misspelt."""
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}")
    assert "other key" not in await run(store_new, settings, "ada")
    again = await run(store_new, settings, "ada")
    assert "ada has 1 other key, which works as before. `antiphon key rotate ada` makes a key in place of" in again
    assert "ada has 2 other keys, which work as before." in await run(store_new, settings, "ada")
    await run(revoke, settings, "ada", None)
    assert "other key" not in await run(store_new, settings, "ada")
    assert await run(limit, settings, "ada", Budget(requests_per_day=1)) == "ada may use 1 request a day."
    said = await run(limit, settings, "aad", Budget(tokens_per_day=2000))
    assert said == "aad may use 2,000 tokens a day. No key has this name yet: `antiphon key new aad` makes one."
    assert await run(limit, settings, "aad", None) == "aad has no budget of its own."


async def test_keys_work_and_end_in_every_gateway(url: str, gateways: list[GatewayUnderTest]) -> None:
    settings, (here, there) = Settings(store=url), gateways
    first = key_in(await run(store_new, settings, "ada"))
    for gateway in gateways:
        await until(gateway, first, 200)
    stored = (await here.post(BODY, **sent(first)))[1]["id"]
    assert first not in str(await there.gateway.store.accounts.keys())
    # Another one in its place: what was stored stays with its owner.
    second = key_in(await run(rotate, settings, "ada", 0.0))
    for gateway in gateways:
        await until(gateway, second, 200)
        await until(gateway, first, 401)
    assert (await there.get(f"/v1/responses/{stored}", **sent(second)))[0] == 200
    assert (await there.get(f"/v1/responses/{stored}", **sent("set")))[0] == 404
    async with connected(here, **sent(second)) as socket:
        await socket.create()
        assert "1 key of ada is refused" in await run(revoke, settings, "ada", None)
        for gateway in gateways:
            await until(gateway, second, 401)
        assert (await socket.refused())["error"]["code"] == "invalid_api_key"
    with pytest.raises(SettingsError, match="no key of ada"):
        await run(revoke, settings, "ada", None)


async def test_a_stream_goes_on_when_its_key_is_revoked_and_is_stored_for_its_owner(
    url: str, gateways: list[GatewayUnderTest], engine: MockEngine
) -> None:
    settings, (here, there) = Settings(store=url), gateways
    first = key_in(await run(store_new, settings, "ada"))
    await until(here, first, 200)
    script, go_on = held_back("Hello", " there")
    engine.will(script)
    async with here.client.post(f"{here.url}/v1/responses", json=BODY | {"stream": True}, **sent(first)) as streamed:
        await streamed.content.readuntil(b"output_text.delta")
        second = key_in(await run(rotate, settings, "ada", 0.0))
        for gateway in gateways:
            await until(gateway, first, 401)
            await until(gateway, second, 200)
        go_on.set()
        rest = (await streamed.read()).decode()
    assert "event: response.completed" in rest
    ended = next(line for line in rest.splitlines() if line.startswith('data: {"type":"response.completed"'))
    response = json.loads(ended.removeprefix("data: "))["response"]
    assert (await there.get(f"/v1/responses/{response['id']}", **sent(second)))[0] == 200
    assert (await there.get(f"/v1/responses/{response['id']}", **sent(first)))[0] == 401


async def test_a_budget_of_the_store_counts_in_every_gateway_and_the_settings_win(
    url: str, gateways: list[GatewayUnderTest]
) -> None:
    settings = Settings(store=url)
    key = key_in(await run(store_new, settings, "ada"))
    said = await run(limit, settings, "ada", Budget(requests_per_day=0))
    assert said == "ada may use 0 requests a day."
    for gateway in gateways:
        await until(gateway, key, 429)
    assert await run(limit, settings, "ada", None) == "ada has no budget of its own."
    for gateway in gateways:
        await until(gateway, key, 200)
    budgets = {"ada": BudgetSettings(tokens_per_day=5, soft=True)}
    won = await run(limit, Settings(store=url, usage=UsageSettings(budgets=budgets)), "ada", Budget(requests_per_day=0))
    assert "which wins" in won


async def test_a_gateway_that_had_keys_never_becomes_one_that_needs_none(url: str, engine: MockEngine) -> None:
    settings = Settings(store=url)
    async with running_gateway(engine, store=url) as gateway:
        assert (await gateway.post(BODY))[0] == 200
        key = key_in(await run(store_new, settings, "ada"))
        await until(gateway, "none", 401)
        await run(revoke, settings, "ada", key[-4:])
        await until(gateway, key, 401)
        assert (await gateway.post(BODY))[0] == 401
    async with running_gateway(engine, store=url) as gateway:
        assert (await gateway.post(BODY))[0] == 401
        # A key of the settings opens it.
    async with running_gateway(engine, store=url, keys={"ada": (key,)}) as gateway:
        assert (await gateway.post(BODY, **sent(key)))[0] == 200


async def test_the_list_shows_every_key_and_none_of_it(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}", keys={"bob": ("secret",)})
    key = key_in(await run(store_new, settings, "ada"))
    await run(rotate, settings, "ada", 3600.0)
    await run(limit, settings, "ada", Budget(tokens_per_day=1000, cost_per_month=2.5, soft=True))
    shown = await run(lambda: list_keys(settings, as_json=False))
    assert [line.split()[0] for line in shown.splitlines()] == ["name", "bob", "ada", "ada"]
    assert f"…{key[-4:]}" in shown
    assert "1,000 tokens a day, 2.5 a month in costs (soft)" in shown
    assert "ends " in shown
    assert key not in shown
    assert "secret" not in shown


async def test_the_list_shows_how_much_of_a_budget_is_used(tmp_path: Path) -> None:
    usage = UsageSettings(budgets={"*": BudgetSettings(requests_per_day=8)}, prices={"m": PriceSettings(input=40_000)})
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}", usage=usage)
    await run(store_new, settings, "ada")
    await run(store_new, settings, "grace")
    await run(limit, settings, "ada", Budget(tokens_per_day=50, cost_per_month=10.0))
    entries = [
        UsageEntry(str(number), int(time.time()), UsageKind(name, "m", "http"), Counts(2, 0, tokens, 0, 3))
        for number, (name, tokens) in enumerate((("ada", 50), ("grace", 1)))
    ]
    await run(in_store, settings, lambda accounts: accounts.add_usage(entries))
    shown = json.loads(await run(lambda: list_keys(settings, as_json=True)))["keys"]
    assert [(key["name"], key["budget"], key["used"]) for key in shown] == [
        ("ada", "50 tokens a day, 10 a month in costs", "53 (106 %), 2.00 (20 %)"),
        ("grace", "8 requests a day", "2 (25 %)"),
    ]


async def test_a_new_key_comes_with_its_use_and_the_first_one_with_a_warning(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}")
    first, second = await run(store_new, settings, "ada"), await run(store_new, settings, "grace")
    assert "ANTIPHON_API_KEY" in second
    assert ("It is the first key" in first, "It is the first key" in second) == (True, False)
    # A gateway with a key of the settings needed one before.
    settings = Settings(store=f"sqlite:{tmp_path / 'other.db'}", api_key=("set",))
    assert "It is the first key" not in await run(store_new, settings, "ada")


@pytest.mark.parametrize("version", [1, 8])
async def test_the_commands_use_a_store_of_an_older_version_without_a_gateway(version: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "responses.db")) as database:
        database.executescript((OLDER_STORES / f"{version}_sqlite.sql").read_text())
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}")
    key = key_in(await run(store_new, settings, "ada"))
    assert f"…{key[-4:]}" in await run(lambda: list_keys(settings, as_json=False))


async def test_a_budget_of_a_newer_version_is_listed_as_one(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:{tmp_path / 'responses.db'}")
    await run(store_new, settings, "ada")
    await run(in_store, settings, lambda accounts: accounts.limit_key("ada", b'{"images_per_day":3}'))
    assert "(of a newer version)" in await run(lambda: list_keys(settings, as_json=False))


async def test_the_commands_say_what_is_wrong(tmp_path: Path) -> None:
    for words, said in (
        (("key", "new", "a b", "--store", f"sqlite:{tmp_path / 'a.db'}"), "is not a name"),
        (("key", "new", "ada", "--store", "memory:"), "--file"),
        (("key", "revoke", "ada", "--store", f"sqlite:{tmp_path / 'a.db'}"), "no key of ada"),
        (("key", "rotate", "ada", "--grace", "inf", "--store", f"sqlite:{tmp_path / 'a.db'}"), "--grace"),
        (("key", "list", "--store", "postgresql://127.0.0.1:1/none"), "cannot reach Postgres"),
        (("key", "list", "--store", f"sqlite:{tmp_path}"), "cannot open"),
    ):
        code, _, err = await shown_by(*words, env=bare_environment(), cwd=tmp_path)
        assert (code, said in err) == (2, True), err


async def test_every_worker_process_lets_a_new_key_in_and_keeps_a_revoked_one_out(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, f'upstream = "{engine.url}"\nprobe = false\n') as gateway:
        clients = await gateway.both()
        store = f"sqlite:{tmp_path / 'data' / 'responses.db'}"
        made = await gateway.run("key", "new", "ada", "--store", store)
        headers = {"Authorization": f"Bearer {key_in(made.stdout)}"}

        async def until_all(status: int, sent: dict[str, str]) -> None:
            async with asyncio.timeout(20):
                for client in clients:
                    seen = 0
                    while seen != status:
                        async with client.post("/v1/responses", json={"input": "Hi"}, headers=sent) as answer:
                            seen = answer.status

        await until_all(401, {})
        await until_all(200, headers)
        assert (await gateway.run("key", "revoke", "ada", "--store", store)).returncode == 0
        await until_all(401, headers)
