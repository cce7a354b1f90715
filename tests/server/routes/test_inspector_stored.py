"""The inspector lists what is stored: of a key what it stored itself, for the admin key all of it."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from support.engine import MockEngine, text
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway
from support.stores import interposed

from antiphon.ids import hash_of_key
from antiphon.settings.settings import Settings
from antiphon.store.records import Listing

RESPONSES = "/inspector/stored/responses"
CONVERSATIONS = "/inspector/stored/conversations"


async def test_the_newest_responses_are_listed_with_what_was_asked(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create("Name a colour.")
    second = await gateway.create([{"role": "user", "content": [{"type": "input_text", "text": "Name another."}]}])
    await gateway.create("Not stored.", store=False)
    status, page = await gateway.get(RESPONSES)
    assert status == 200
    assert {row["id"]: row["preview"] for row in page["data"]} == {
        first["id"]: "Name a colour.",
        second["id"]: "Name another.",
    }
    assert {(row["model"], row["status"], row["owner"]) for row in page["data"]} == {("mock", "completed", "")}
    assert (page["has_more"], page["last_id"]) == (False, None)


async def test_pages_follow_each_other(gateway: GatewayUnderTest) -> None:
    made = {(await gateway.create(f"Hi {number}"))["id"] for number in range(3)}
    _, page = await gateway.get(f"{RESPONSES}?limit=2")
    assert page["has_more"]
    _, rest = await gateway.get(f"{RESPONSES}?limit=2&after={page['last_id']}")
    assert {row["id"] for row in [*page["data"], *rest["data"]]} == made
    assert not rest["has_more"]


async def test_a_search_finds_words_of_the_question_and_of_the_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text('Grün, "natürlich".'), text("Blue."))
    german = await gateway.create("Nenne eine Farbe.")
    await gateway.create("Name a colour.")
    for words in ("Nenne", 'Grün, "natürlich"'):
        _, page = await gateway.get(RESPONSES, params={"search": words})
        assert [row["id"] for row in page["data"]] == [german["id"]]


async def test_conversations_are_listed_with_their_items(gateway: GatewayUnderTest) -> None:
    item = {"type": "message", "role": "user", "content": "Hello there"}
    _, conversation = await gateway.post({"items": [item, item], "metadata": {"topic": "x"}}, "/v1/conversations")
    _, page = await gateway.get(CONVERSATIONS, params={"search": "there"})
    (row,) = page["data"]
    assert (row["id"], row["items"], row["metadata"], row["preview"]) == (
        conversation["id"], 2, {"topic": "x"}, "Hello there"
    )  # fmt: skip


async def test_a_wrong_query_is_a_400_that_names_the_field(gateway: GatewayUnderTest) -> None:
    limits = [(f"limit={limit}", "limit") for limit in ("0", "x", "1e1", "1.0", "null")]
    for query, param in (*limits, ("after=x", "after"), (f"search={'x' * 201}", "search")):
        status, answer = await gateway.get(f"{RESPONSES}?{query}")
        assert (status, answer["error"]["param"]) == (400, param)


async def test_a_key_sees_its_own_and_the_admin_key_all(engine: MockEngine) -> None:
    keys = {"ada": ("key-of-ada",), "bob": ("key-of-bob",)}
    async with running_gateway(engine, keys=keys, admin_key=("key-of-admin",)) as gateway:
        for name in ("ada", "bob"):
            headers = {"Authorization": f"Bearer key-of-{name}"}
            status, _ = await gateway.post({"model": "mock", "input": name}, headers=headers)
            assert status == 200
        seen = {}
        for name in ("ada", "bob", "admin"):
            _, page = await gateway.get(RESPONSES, headers={"Authorization": f"Bearer key-of-{name}"})
            seen[name] = {row["owner"] for row in page["data"]}
        status, _ = await gateway.get(RESPONSES)
    assert seen == {"ada": {"ada"}, "bob": {"bob"}, "admin": {"ada", "bob"}}
    assert status == 401


# ---- what one key may take of the store ------------------------------------------------------------------------------

KEYS: dict[str, Any] = {"keys": {"ada": ("key-of-ada",), "bob": ("key-of-bob",)}, "admin_key": ("key-of-admin",)}


def bearing(name: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer key-of-{name}"}}


class SlowLists:
    """The lists of a store, which end when the test says so."""

    def __init__(self) -> None:
        self.store, interference = interposed()
        self._list = interference.store.list_responses
        interference.instead["list_responses"] = self.list
        self.running: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        self.begun = asyncio.Condition()
        self.go_on = asyncio.Event()

    async def list(self, owner: str | None, **options: Any) -> Listing:
        self.running[owner] += 1
        self.most[owner] = max(self.most[owner], self.running[owner])
        async with self.begun:
            self.begun.notify_all()
        await self.go_on.wait()
        self.running[owner] -= 1
        listing: Listing = await self._list(owner, **options)
        return listing

    async def wait_for(self, *owners: str) -> None:
        async with self.begun:
            await self.begun.wait_for(lambda: all(self.running[owner] for owner in owners))


async def test_one_search_of_each_key_runs_at_a_time(engine: MockEngine) -> None:
    lists = SlowLists()
    async with running_gateway(engine, shares=lists.store, **KEYS) as gateway:
        searches = [asyncio.create_task(gateway.get(f"{RESPONSES}?search={n}", **bearing("ada"))) for n in range(5)]
        await lists.wait_for("ada")
        searches.append(asyncio.create_task(gateway.get(f"{RESPONSES}?search=x", **bearing("bob"))))
        await lists.wait_for("ada", "bob")
        lists.go_on.set()
        statuses = [status for status, _ in await asyncio.gather(*searches)]
    assert statuses == [200] * 6
    assert lists.most == {"ada": 1, "bob": 1}


async def test_a_search_that_its_client_has_left_keeps_its_turn(engine: MockEngine) -> None:
    """A database goes on searching. A page that searches with each letter would otherwise use all of its connections."""
    lists = SlowLists()
    async with running_gateway(engine, shares=lists.store, **KEYS) as gateway:
        for _ in range(3):
            left = asyncio.create_task(gateway.get(f"{RESPONSES}?search=x", **bearing("ada")))
            await lists.wait_for("ada")
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        last = asyncio.create_task(gateway.get(f"{RESPONSES}?search=x", **bearing("ada")))
        lists.go_on.set()
        assert (await last)[0] == 200
    assert lists.most == {"ada": 1}


# ---- what is not shown -----------------------------------------------------------------------------------------------


async def test_without_bodies_there_are_neither_previews_nor_metadata(engine: MockEngine) -> None:
    async with running_gateway(engine, inspector_bodies=False) as gateway:
        await gateway.create("The password is hunter2.")
        item = {"type": "message", "role": "user", "content": "hunter2"}
        await gateway.post({"items": [item], "metadata": {"topic": "hunter2"}}, "/v1/conversations")
        _, responses = await gateway.get(RESPONSES)
        _, conversations = await gateway.get(CONVERSATIONS)
    assert [(row["model"], row["preview"]) for row in responses["data"]] == [("mock", None)]
    assert [(row["items"], row["preview"], row["metadata"]) for row in conversations["data"]] == [
        (1, None, {"topic": "[7 characters]"})
    ]


async def test_without_bodies_a_search_is_a_400_that_names_the_setting(engine: MockEngine) -> None:
    async with running_gateway(engine, inspector_bodies=False) as gateway:
        for path in (RESPONSES, CONVERSATIONS):
            status, answer = await gateway.get(f"{path}?search=hunter2")
            assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "search", "bodies_hidden")
            assert "inspector_bodies" in answer["error"]["message"]


async def test_of_a_key_without_a_name_only_the_beginning_of_its_hash_is_shown(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("key-of-ada",), admin_key=("key-of-admin",)) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ada"))
        await gateway.post({}, "/v1/conversations", **bearing("ada"))
        pages = [(await gateway.get(path, **bearing("admin")))[1] for path in (RESPONSES, CONVERSATIONS)]
        _, status = await gateway.get("/inspector/status", **bearing("ada"))
    shown = f"unnamed-{hash_of_key(b'key-of-ada')[:6]}"
    assert [row["owner"] for page in pages for row in page["data"]] == [shown, shown]
    assert status["owner"] == shown


# ---- where it is switched off ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({}, True),
        ({"inspector": False}, False),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0", "insecure_no_auth": True}, False),
        ({"host": "", "insecure_no_auth": True}, False),
        ({"host": "0.0.0.0", "insecure_no_auth": True, "inspector": True}, True),
        ({"host": "0.0.0.0", "api_key": ("key-of-ada",)}, True),
    ],
)
async def test_without_keys_other_machines_see_nothing(engine: MockEngine, settings: dict[str, Any], is_on: bool) -> None:
    async with running_gateway(engine, **settings) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ada"))
        _, status = await gateway.get("/inspector/status", **bearing("ada"))
        answers = [await gateway.get(path, **bearing("ada")) for path in (RESPONSES, CONVERSATIONS, "/inspector/requests")]
        async with gateway.client.get(gateway.url + "/") as page:
            page_status = page.status
    assert status["recording"]["on"] is is_on
    assert {status for status, _ in answers} == {200 if is_on else 404}
    assert page_status == (200 if is_on else 404)
    if not is_on:
        assert {answer["error"]["code"] for _, answer in answers} == {"inspector_off"}


async def test_nothing_is_shown_to_other_machines_when_the_last_key_is_removed(engine: MockEngine) -> None:
    open_to_all: dict[str, Any] = {"host": "0.0.0.0", "insecure_no_auth": True}
    async with running_gateway(engine, api_key=("key-of-ada",), **open_to_all) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ada"))
        await gateway.reload(Settings(upstream=(engine.url,), port=0, **DEFAULTS, **open_to_all))
        for path in (RESPONSES, "/inspector/requests", "/inspector/requests/1"):
            status, answer = await gateway.get(path)
            assert (status, answer["error"]["code"]) == (404, "inspector_off")
