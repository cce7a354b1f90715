"""The inspector lists what is stored: of a key what it stored itself, for the admin key all of it."""

from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway

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
