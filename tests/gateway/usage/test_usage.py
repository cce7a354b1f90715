"""What is counted of each request: with its record if it is stored, else within seconds; once, and as the metrics show it."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.background import Background, held_back
from support.engine import DONE, MockEngine, Refusal, call, chunk, text
from support.gateway import running_gateway
from support.metrics import scrape
from support.stores import interposed
from support.usage import stored_usage, used

from antiphon.errors import StoreUnavailable
from antiphon.gateway.usage.counting import PassedAnswer
from antiphon.settings.tables import UsageSettings
from antiphon.store.account_records import Counts
from antiphon.store.memory.store import MemoryStore
from antiphon.wire.chat import MOST_TOKENS

USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 7},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
END = chunk(usage=USAGE) + DONE
SAID = chunk({"content": "Hi"}) + chunk(finish="stop") + END
ONE = Counts(1, 0, 12, 7, 5, 2)
ADA: dict[str, Any] = {"headers": {"Authorization": "Bearer a"}}
BODY = {"model": "mock", "input": "Hi"}
CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}


def times(count: int, counts: Counts = ONE) -> Counts:
    return Counts(*(count * each for each in counts))


async def test_each_request_is_counted_once_however_it_came(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": ("a",)}) as gateway:
        for fields in ({}, {"stream": True}, {"store": False}):
            engine.will(SAID)
            async with gateway.client.post(gateway.url + "/v1/responses", json=BODY | fields, **ADA) as streamed:
                await streamed.read()
        # What is stored is counted with its record, the rest is not written yet.
        assert await stored_usage(gateway.gateway.store) == {("ada", "mock", "http"): times(2)}
        engine.will(call("a", "{}") + chunk(finish="tool_calls") + END)
        tools = [{"type": "function", "name": "a", "parameters": {}}]
        assert (await gateway.post(BODY | {"tools": tools}, **ADA))[0] == 200
        engine.will(Refusal(400, {"error": {"message": "no"}}))
        assert (await gateway.post(BODY, **ADA))[0] == 400
        assert (await gateway.post({"input": 3}, **ADA))[0] == 400
        assert (await gateway.post(BODY))[0] == 401
        seen = await used(gateway)
    counts = times(4).plus(Counts(1, 1, tool_calls=1))
    assert seen == {("ada", "mock", "http"): counts, ("ada", "", "http"): Counts(1, 1)}


async def test_the_metrics_count_the_same_tokens(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        for fields in ({}, {"store": False}):
            engine.will(SAID)
            await gateway.create(**fields)
        engine.will(SAID)
        assert (await gateway.client.post(gateway.url + "/v1/chat/completions", json=CHAT | {"stream": True})).status == 200
        shown, seen = await scrape(gateway), await used(gateway)
    whole = Counts(*map(sum, zip(*seen.values(), strict=True)))
    assert whole == times(3)
    named = {
        "input": "input_tokens",
        "cached_input": "cached_tokens",
        "output": "output_tokens",
        "reasoning": "reasoning_tokens",
    }
    for name, member in named.items():
        assert shown.value(f"antiphon_{name}_tokens_total", model="mock", key="none") == getattr(whole, member)


async def test_what_is_passed_through_is_counted_by_what_the_engine_reports(engine: MockEngine) -> None:
    reported = {"data": [{"embedding": [0.5] * 9000}], "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    engine.paths = {"/v1/embeddings": reported, "/v1/completions": Refusal(400, {"error": {"message": "no"}})}
    async with running_gateway(engine) as gateway:
        assert (await gateway.post({"model": "mock", "input": "Hi"}, "/v1/embeddings"))[0] == 200
        assert (await gateway.post({"model": "mock", "prompt": "Hi"}, "/v1/completions"))[0] == 400
        engine.will(SAID)
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=CHAT) as passed:
            assert passed.status == 200
        assert await used(gateway) == {
            ("", "mock", "embeddings"): Counts(1, 0, 8),
            ("", "mock", "completions"): Counts(1, 1),
            ("", "mock", "passed"): ONE,
        }


def test_usage_is_estimated_if_the_engine_reports_none() -> None:
    silent = PassedAnswer(b"x" * 40, failed=False)
    for piece in (b"data: {}\n\nda", b'ta: {"usage": nothing}\n\n', b"data: [DONE]\n\n"):
        silent.receive(piece)
    assert silent.counts() == Counts(1, 0, input_tokens=10, output_tokens=3)
    # The last one counts: an engine may send it with each chunk.
    spoken = PassedAnswer(b"", failed=False)
    for tokens in (1, 2):
        spoken.receive(chunk({"content": "x"}, usage={"prompt_tokens": 3, "completion_tokens": tokens}))
    spoken.receive(chunk({"content": "x"}, usage=None))
    assert spoken.counts() == Counts(1, 0, 3, output_tokens=2)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize("reported", [-5, 2**62, 10**30])
async def test_what_an_engine_reports_and_is_no_count_is_estimated(
    reported: int, database: str, engine: MockEngine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It would be refused by the database, with all that is written beside it."""
    url = f"sqlite:{tmp_path / 'r.db'}" if database == "sqlite" else request.getfixturevalue("postgres").new_database()
    lie = {"prompt_tokens": reported, "completion_tokens": 5, "total_tokens": 17}
    async with running_gateway(engine, store=url, keys={"ada": ("a",)}) as gateway:
        own = []
        for fields in ({}, {"store": False}, {}):
            engine.will(chunk({"content": "Hi"}) + chunk(finish="stop") + chunk(usage=lie) + DONE)
            status, response = await gateway.post(BODY | fields, **ADA)
            assert status == 200
            own.append(response["usage"])
        assert own[0]["input_tokens"] in range(1, 100)
        sums = Counts(3, 0, sum(each["input_tokens"] for each in own), 0, sum(each["output_tokens"] for each in own))
        assert await used(gateway) == {("ada", "mock", "http"): sums}
        # What is passed on is passed on as it is.
        engine.will(json.dumps({"id": "1", "object": "chat.completion", "choices": [], "usage": lie}).encode())
        assert (await gateway.post(CHAT, "/v1/chat/completions", **ADA))[1]["usage"] == lie
        more = min(max(0, reported), MOST_TOKENS)
        assert (await used(gateway))["ada", "mock", "passed"] == Counts(1, 0, more, 0, 5)


async def test_the_rest_of_a_report_counts_if_a_detail_is_no_count(engine: MockEngine) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": -1}, "completion_tokens_details": {"reasoning_tokens": 10**30}}
    engine.will(chunk({"content": "Hi"}) + chunk(finish="stop") + chunk(usage=USAGE | details | {"total_tokens": -1}) + DONE)
    async with running_gateway(engine) as gateway:
        response = await gateway.create()
        assert (response["usage"]["input_tokens"], response["usage"]["total_tokens"]) == (12, 17)
        assert await used(gateway) == {("", "mock", "http"): Counts(1, 0, 12, 0, 5, 0)}


async def test_a_background_response_is_counted_when_it_ends(engine: MockEngine) -> None:
    script, go_on = held_back("Hi")
    engine.will(script)
    async with running_gateway(engine) as gateway:
        background = Background(gateway)
        running = await background.create()
        await background.seen(running["id"], "in_progress")
        assert await used(gateway) == {}
        go_on.set()
        ended = await background.ended(running["id"])
        assert await used(gateway) == {("", "mock", "background"): Counts(1, 0, 12, 0, 5)}
        assert ended["usage"]["input_tokens"] == 12


async def test_what_a_client_has_got_is_estimated_if_it_leaves(engine: MockEngine) -> None:
    script, go_on = held_back("Hi")
    engine.will(script)
    async with running_gateway(engine) as gateway:
        streaming = await gateway.client.post(gateway.url + "/v1/responses", json=BODY | {"stream": True})
        await streaming.content.readuntil(b"output_text.delta")
        streaming.close()
        await engine.cancelled.wait()
        while not (seen := await used(gateway)):
            pass
        go_on.set()
    (counts,) = seen.values()
    assert (counts.requests, counts.failures, counts.output_tokens) == (1, 0, 1)
    assert counts.input_tokens > 5


async def test_a_store_that_was_away_counts_each_request_once(engine: MockEngine) -> None:
    store, hands = interposed(MemoryStore())
    accounts, accounts_hands = interposed(store.store.accounts)
    hands.store.accounts = accounts

    async def written_and_unanswered(record: Any) -> None:
        await hands.store.put(record)
        raise StoreUnavailable

    async def added_and_unanswered(entries: Any) -> None:
        await accounts_hands.store.add_usage(entries)
        raise StoreUnavailable

    async with running_gateway(engine, shares=store) as gateway:
        hands.instead["put"] = written_and_unanswered
        engine.otherwise = lambda body: text("Hi")
        assert (await gateway.post(BODY))[0] == 503
        await gateway.create(store=False)
        accounts_hands.instead["add_usage"] = added_and_unanswered
        await gateway.gateway.ledger.try_to_flush()
        accounts_hands.instead.clear()
        counts = (await used(gateway))["", "mock", "http"]
    assert counts == Counts(2, 0, 24, 0, 10)


async def test_nothing_is_kept_if_the_settings_say_so_and_the_metrics_still_count(engine: MockEngine) -> None:
    async with running_gateway(engine, usage=UsageSettings(enabled=False)) as gateway:
        engine.will(SAID, SAID)
        await gateway.create()
        await gateway.create(store=False)
        assert await used(gateway) == {}
        assert (await scrape(gateway)).value("antiphon_output_tokens_total", model="mock", key="none") == 10
