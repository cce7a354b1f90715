"""/v1/batches with the openai SDK: worked through, listed, cancelled, expired; what is wrong with them, and whose they are."""

import asyncio
import errno
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
import pytest_asyncio
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from support import batches
from support.batches import jsonl, line, sdk
from support.engine import MockEngine, Refusal, Writer, text
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import Clock
from support.ways_in import Doors, until

from antiphon.app.options import Intervals
from antiphon.settings.tables import BatchSettings
from antiphon.store import Store, open_store

KEYS: Any = {"ada": ("key-of-ada",), "bob": ("key-of-bob",)}
QUICK = Intervals(batch_step=0.02)


@pytest_asyncio.fixture
async def stored(engine: MockEngine, url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=url) as gateway:
        yield gateway


def ids_of(lines: list[dict[str, Any]]) -> list[str]:
    return sorted(each["custom_id"] for each in lines)


# ---- the whole of it -------------------------------------------------------------------------------------------------


async def test_each_line_is_answered_once(stored: GatewayUnderTest, engine: MockEngine) -> None:
    engine.otherwise = lambda body: text(f"to {body['messages'][0]['content']}")
    names = [f"q{number}" for number in range(30)]
    async with sdk(stored) as client:
        file = await client.files.create(file=("in.jsonl", jsonl([line(name) for name in names])), purpose="batch")
        made = await client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/responses",
            completion_window="24h",
            metadata={"night": "1"},
            output_expires_after={"anchor": "created_at", "seconds": 7200},
        )
        assert (made.object, made.status, made.completion_window) == ("batch", "validating", "24h")
        assert (made.input_file_id, made.endpoint, made.metadata) == (file.id, "/v1/responses", {"night": "1"})
        assert made.expires_at == made.created_at + 86_400
        batch = await batches.ended(client, made.id)
        assert (batch.status, batch.model, batch.errors, batch.error_file_id) == ("completed", "mock", None, None)
        assert batch.request_counts is not None
        assert batch.request_counts.to_dict() == {"total": 30, "completed": 30, "failed": 0}
        assert batch.usage is not None
        assert (batch.usage.input_tokens, batch.usage.output_tokens, batch.usage.total_tokens) == (360, 150, 510)
        assert None not in (batch.in_progress_at, batch.finalizing_at, batch.completed_at)
        out = await batches.outputs(client, batch)
        assert ids_of(out) == sorted(names)
        for each in out:
            assert (each["response"]["status_code"], each["error"]) == (200, None)
            assert each["id"].startswith("batch_req_")
            answer = Response.model_validate(each["response"]["body"], strict=True)
            assert answer.output_text == f"to {each['custom_id']}"
        assert batch.output_file_id is not None
        output = await client.files.retrieve(batch.output_file_id)
        assert (output.purpose, output.filename) == ("batch_output", f"{batch.id}_output.jsonl")
        assert output.expires_at == output.created_at + 7200
        assert [each.id async for each in client.batches.list()] == [batch.id]


async def test_batches_are_listed_page_by_page(stored: GatewayUnderTest) -> None:
    async with sdk(stored) as client:
        made = [(await batches.run(client, [line("only")])).id for _ in range(3)]
        first = await client.batches.list(limit=2)
        assert ([each.id for each in first.data], first.has_more) == ([made[2], made[1]], True)
        rest = await client.batches.list(after=made[1], limit=2)
        assert ([each.id for each in rest.data], rest.has_more) == ([made[0]], False)


async def test_lines_of_chat_and_of_embeddings_are_answered_as_the_requests_would_be(
    stored: GatewayUnderTest, engine: MockEngine
) -> None:
    vectors = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "mock"}
    engine.paths["/v1/embeddings"] = msgspec.json.format(
        msgspec.json.encode(vectors | {"usage": {"prompt_tokens": 3, "total_tokens": 3}}), indent=2
    )
    chat: dict[str, Any] = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock", "choices": []}

    async def passed(write: Writer) -> None:
        await write(msgspec.json.encode(completion))

    engine.otherwise = lambda body: text("Hello") if body.get("stream") else passed
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
    async with sdk(stored) as client:
        engine.will(text('{"a":1}'))
        read = await batches.run(
            client, [line("c", chat | {"response_format": schema}, "/v1/chat/completions")], "/v1/chat/completions"
        )
        passes = await batches.run(client, [line("p", chat, "/v1/chat/completions")], "/v1/chat/completions")
        of_vectors = [line("e", {"model": "mock", "input": "Hi"}, "/v1/embeddings")]
        embedded = await batches.run(client, of_vectors, "/v1/embeddings")
        [answered] = await batches.outputs(client, read)
        made = ChatCompletion.model_validate(answered["response"]["body"], strict=True)
        assert made.choices[0].message.content == '{"a":1}'
        [answered] = await batches.outputs(client, passes)
        assert answered["response"]["body"] == completion
        [answered] = await batches.outputs(client, embedded)
        assert CreateEmbeddingResponse.model_validate(answered["response"]["body"]).data[0].embedding == [0.5]
        assert embedded.usage is not None
        assert embedded.usage.input_tokens == 3
        # What no database can count is as if nothing was reported.
        engine.paths["/v1/embeddings"] = msgspec.json.encode(vectors | {"usage": {"prompt_tokens": 10**30}})
        lied = await batches.run(client, of_vectors, "/v1/embeddings")
        assert (lied.status, lied.usage and lied.usage.input_tokens) == ("completed", 0)


async def test_what_has_no_effect_is_a_notice_of_the_line(engine: MockEngine) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
    messages = [{"role": "user", "content": "Hi", "name": "ada"}]

    async def passed(write: Writer) -> None:
        await write(b'{"choices":[]}')

    async with running_gateway(engine) as gateway, sdk(gateway) as client:
        [answered] = await batches.outputs(client, await batches.run(client, [line("a") | {"priority": 5, "tags": []}]))
        assert answered["response"]["antiphon_notices"] == [
            "field priority is unknown and was left out",
            "field tags is unknown and was left out",
        ]
        [answered] = await batches.outputs(client, await batches.run(client, [line("b")]))
        assert "antiphon_notices" not in answered["response"]
        # Those of a response are in its body, those of a chat completion beside it.
        [answered] = await batches.outputs(
            client, await batches.run(client, [line("c", {"model": "mock", "input": "Hi", "color": 1})])
        )
        assert "color" in answered["response"]["body"]["antiphon_notices"][0]
        assert "antiphon_notices" not in answered["response"]
        engine.will(text("{}"))
        chat = [line("d", {"model": "mock", "messages": messages, "response_format": schema}, "/v1/chat/completions")]
        [answered] = await batches.outputs(client, await batches.run(client, chat, "/v1/chat/completions"))
        assert any("(`name` of a message)" in notice for notice in answered["response"]["antiphon_notices"])
        # And those of a request that was passed through.
        chat = [line("e", {"model": "another", "messages": [{"role": "user", "content": "Hi"}]}, "/v1/chat/completions")]
        engine.will(passed)
        [answered] = await batches.outputs(client, await batches.run(client, chat, "/v1/chat/completions"))
        assert answered["response"]["body"] == {"choices": []}
        assert any("another" in notice for notice in answered["response"]["antiphon_notices"])


# ---- what is wrong ---------------------------------------------------------------------------------------------------


async def test_a_line_that_cannot_be_run_is_an_entry_of_the_error_file_and_the_others_are_run(
    stored: GatewayUnderTest,
) -> None:
    lines: list[dict[str, Any] | bytes] = [
        line("good"),
        b"{broken",
        b'{"custom_id":"\xff","method":"POST","url":"/v1/responses","body":{}}',
        line("good"),
        line("url", url="/v1/embeddings"),
        line("get") | {"method": "GET"},
        {"method": "POST", "url": "/v1/responses", "body": {}},
        line("streams", {"model": "mock", "input": "Hi", "stream": True}),
        line("no body") | {"body": []},
        b"",
        line("also good"),
        line("wrong", {"model": "mock", "input": 5}),
    ]
    async with sdk(stored) as client:
        batch = await batches.run(client, lines)
        assert batch.status == "completed"
        assert batch.request_counts is not None
        assert batch.request_counts.to_dict() == {"total": 11, "completed": 2, "failed": 9}
        assert ids_of(await batches.outputs(client, batch)) == ["also good", "good"]
        failed = await batches.errors(client, batch)
        said = {each["error"]["line"]: (each["custom_id"], each["error"]["code"]) for each in failed if each["error"]}
        assert said == {
            2: (None, "invalid_json_line"),
            3: (None, "invalid_json_line"),
            4: ("good", "duplicate_custom_id"),
            5: ("url", "mismatched_endpoint"),
            6: ("get", "invalid_value"),
            7: (None, "missing_required_parameter"),
            8: ("streams", "invalid_value"),
            9: ("no body", "invalid_type"),
        }
        assert batch.errors is not None
        assert batch.errors.data is not None
        assert {each.line: each.code for each in batch.errors.data} == {number: code for number, (_, code) in said.items()}
        # What the API refuses, it answers.
        [refused] = [each for each in failed if each["error"] is None]
        assert (refused["custom_id"], refused["response"]["status_code"]) == ("wrong", 400)
        assert refused["response"]["body"]["error"]["param"] == "input"


async def test_a_batch_fails_if_no_line_of_it_can_be_run(gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        broken = await batches.run(client, [b"no", b"json"])
        assert (broken.status, broken.output_file_id) == ("failed", None)
        assert [each["error"]["line"] for each in await batches.errors(client, broken)] == [1, 2]
        empty = await batches.run(client, [b"", b""])
        assert empty.status == "failed"
        assert empty.errors is not None
        assert empty.errors.data is not None
        assert [each.code for each in empty.errors.data] == ["empty_file"]


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"input_file_id": "file-none"}, "input_file_id"),
        ({"endpoint": "/v1/audio"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 5}}, "output_expires_after.seconds"),
    ],
)
async def test_a_field_that_is_wrong_is_named(changed: dict[str, Any], param: str, gateway: GatewayUnderTest) -> None:
    async with sdk(gateway) as client:
        file = await client.files.create(file=("in.jsonl", jsonl([line("a")])), purpose="batch")
        given: Any = {"input_file_id": file.id, "endpoint": "/v1/responses", "completion_window": "24h"}
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.batches.create(**given | changed)
        assert wrong.value.param == param


async def test_limits_count_for_files_lines_and_batches(engine: MockEngine) -> None:
    chosen = BatchSettings(max_bytes=1000, max_lines=3, per_key=1)
    async with running_gateway(engine, batches=chosen, max_body_bytes=400) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.APIStatusError) as large:
            await batches.begin(client, [line("a" * 1000)])
        assert (large.value.status_code, large.value.code) == (413, "file_too_large")
        other = await client.files.create(file=("in.jsonl", b"{}"), purpose="user_data")
        with pytest.raises(openai.BadRequestError, match="purpose batch") as purpose:
            await client.batches.create(input_file_id=other.id, endpoint="/v1/responses", completion_window="24h")
        assert purpose.value.code == "invalid_purpose"
        many = await batches.run(client, [line(str(number)) for number in range(4)])
        assert many.errors is not None
        assert many.errors.data is not None
        assert (many.status, many.errors.data[0].code) == ("failed", "too_many_lines")
        long = await batches.run(client, [line("short"), line("l" * 400)])
        [entry] = await batches.errors(client, long)
        assert (entry["error"]["code"], entry["error"]["line"]) == ("line_too_long", 2)
        doors = Doors(engine)
        first = await batches.begin(client, [line("a")])
        with pytest.raises(openai.RateLimitError) as full:
            await batches.begin(client, [line("b")])
        assert full.value.code == "too_many_batches"
        doors.open()
        assert (await batches.ended(client, first.id)).status == "completed"


async def test_a_disk_that_is_full_puts_the_output_off_and_nothing_is_lost(
    engine: MockEngine, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors, is_full = Doors(engine), [True]
    sync = os.fsync

    def full(descriptor: int) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    async with (
        open_store(f"sqlite:{tmp_path / 'responses.db'}", clock) as store,
        running_gateway(engine, shares=store, intervals=QUICK) as gateway,
        sdk(gateway) as client,
    ):
        made = await batches.begin(client, [line("a"), line("b")])
        await until(lambda: doors.waiting == 2)
        monkeypatch.setattr(os, "fsync", full)
        doors.open(2)
        waiting = await batches.in_state(client, made.id, {"finalizing"})
        while waiting.errors is None:
            waiting = await client.batches.retrieve(made.id)
        assert waiting.errors.data is not None
        assert "No space left on device" in (waiting.errors.data[0].message or "")
        is_full.clear()
        clock.forward(11)
        batch = await batches.ended(client, made.id)
        assert batch.status == "completed"
        assert ids_of(await batches.outputs(client, batch)) == ["a", "b"]
    assert len(engine.requests) == 2


# ---- engines that fail, and people ----------------------------------------------------------------------------------


async def test_a_line_is_tried_again_when_its_engine_could_not_answer_it(engine: MockEngine, clock: Clock) -> None:
    engine.will(Refusal(503, {"error": {"message": "busy"}}), Refusal(400, {"error": {"message": "never", "code": 400}}))
    async with (
        open_store("memory:", clock) as store,
        running_gateway(engine, shares=store, retries=0, intervals=QUICK) as gateway,
        sdk(gateway) as client,
    ):
        made = await batches.begin(client, [line("again"), line("never")])
        await until(lambda: len(engine.requests) == 2)
        assert (await client.batches.retrieve(made.id)).status == "in_progress"
        clock.forward(2)
        batch = await batches.ended(client, made.id)
        assert len(engine.requests) == 3
        [out], [failed] = await batches.outputs(client, batch), await batches.errors(client, batch)
        assert failed["response"]["body"]["error"]["message"].endswith("never")
        assert sorted([out["custom_id"], failed["custom_id"]]) == ["again", "never"]


async def test_no_line_is_begun_while_people_use_the_engine(engine: MockEngine) -> None:
    doors = Doors(engine)
    async with (
        running_gateway(engine, batches=BatchSettings(engine_places=2), intervals=QUICK) as gateway,
        sdk(gateway) as client,
    ):
        people = [asyncio.create_task(gateway.create("person")) for _ in range(2)]
        await until(lambda: doors.waiting == 2)
        made = await batches.begin(client, [line(str(number)) for number in range(6)])
        await batches.in_state(client, made.id, {"in_progress"})
        doors.open()
        # One has gone, and one line has come.
        await until(lambda: len(engine.requests) == 3)
        assert doors.waiting == 2
        # A person who comes now waits for nobody here.
        people.append(asyncio.create_task(gateway.create("person")))
        await until(lambda: doors.waiting == 3)
        doors.open(2)
        doors.open(100)
        await asyncio.gather(*people)
        assert (await batches.ended(client, made.id)).status == "completed"
        asked = Counter(request["messages"][0]["content"] == "person" for request in engine.requests)
        assert asked == {True: 3, False: 6}
        assert doors.most == 3


async def test_the_limits_of_a_key_count_for_its_lines(engine: MockEngine) -> None:
    doors = Doors(engine)
    limits: dict[str, Any] = {"keys": KEYS, "key_responses": 1, "key_requests_per_minute": 6}
    async with (
        running_gateway(engine, intervals=QUICK, **limits) as gateway,
        sdk(gateway, "key-of-ada") as client,
    ):
        made = await batches.begin(client, [line(str(number)) for number in range(6)])
        doors.open(100)
        # Half of a minute is for people.
        await until(lambda: len(engine.requests) == 3)
        assert doors.most == 1
        headers = {"Authorization": "Bearer key-of-ada"}
        for _ in range(3):
            status, _ = await gateway.post({"model": "mock", "input": "person"}, headers=headers)
            assert status == 200
        assert (await client.batches.retrieve(made.id)).status == "in_progress"
        assert (await client.batches.cancel(made.id)).status == "cancelling"
        cancelled = await batches.ended(client, made.id)
        assert cancelled.request_counts is not None
        assert cancelled.request_counts.completed == 3


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_a_cancelled_batch_keeps_what_was_done_and_names_what_was_not(
    stored: GatewayUnderTest, engine: MockEngine
) -> None:
    doors = Doors(engine)
    async with sdk(stored) as client:
        made = await batches.begin(client, [line(str(number)) for number in range(20)])
        await until(lambda: doors.waiting == 4)
        cancelling = await client.batches.cancel(made.id)
        assert cancelling.status == "cancelling"
        assert cancelling.cancelling_at is not None
        doors.open(100)
        batch = await batches.ended(client, made.id)
        assert (batch.status, len(engine.requests)) == ("cancelled", 4)
        assert batch.cancelled_at is not None
        done, rest = await batches.outputs(client, batch), await batches.errors(client, batch)
        assert ids_of(done + rest) == sorted(str(number) for number in range(20))
        assert len(done) == 4
        assert {each["error"]["code"] for each in rest} == {"batch_cancelled"}
        # It has ended.
        assert (await client.batches.cancel(made.id)).status == "cancelled"


async def test_a_batch_expires_after_a_day(engine: MockEngine, store: Store, clock: Clock) -> None:
    doors = Doors(engine)
    async with running_gateway(engine, shares=store, intervals=QUICK) as gateway, sdk(gateway) as client:
        made = await batches.begin(client, [line(str(number)) for number in range(6)])
        await until(lambda: doors.waiting == 4)
        clock.forward(86_401)
        doors.open(100)
        batch = await batches.ended(client, made.id)
        assert batch.status == "expired"
        rest = await batches.errors(client, batch)
        assert {each["error"]["code"] for each in rest} == {"batch_expired"}
        assert ids_of(await batches.outputs(client, batch) + rest) == sorted(str(number) for number in range(6))


async def test_a_batch_belongs_to_the_name_of_a_key(engine: MockEngine) -> None:
    async with running_gateway(engine, keys=KEYS, admin_key=("key-of-admin",)) as gateway:
        ada, bob, admin = (sdk(gateway, f"key-of-{name}") for name in ("ada", "bob", "admin"))
        async with ada, bob, admin:
            batch = await batches.run(ada, [line("a")])
            for ask in (bob.batches.retrieve, bob.batches.cancel):
                with pytest.raises(openai.NotFoundError) as gone:
                    await ask(batch.id)
                assert gone.value.code == "batch_not_found"
            assert (await bob.batches.list()).data == []
            assert batch.output_file_id is not None
            with pytest.raises(openai.NotFoundError):
                await bob.files.content(batch.output_file_id)
            with pytest.raises(openai.BadRequestError):
                await bob.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/responses", completion_window="24h")
            assert await admin.batches.retrieve(batch.id) == batch


async def test_what_a_gateway_was_running_is_done_by_the_next_one(engine: MockEngine, tmp_path: Path) -> None:
    doors, store = Doors(engine), f"sqlite:{tmp_path / 'responses.db'}"
    async with running_gateway(engine, store=store, shutdown_timeout=0.05) as gateway, sdk(gateway) as client:
        made = await batches.begin(client, [line(str(number)) for number in range(6)])
        await until(lambda: doors.waiting == 4)
    doors.open(100)
    async with running_gateway(engine, store=store) as gateway, sdk(gateway) as client:
        batch = await batches.ended(client, made.id)
        assert ids_of(await batches.outputs(client, batch)) == sorted(str(number) for number in range(6))
        assert batch.request_counts is not None
        assert batch.request_counts.completed == 6


async def test_two_gateways_share_the_places_of_an_engine(engine: MockEngine, tmp_path: Path) -> None:
    doors, store = Doors(engine), f"sqlite:{tmp_path / 'responses.db'}"
    places = BatchSettings(engine_places=3)
    async with (
        running_gateway(engine, store=store, batches=places, intervals=QUICK) as one,
        running_gateway(engine, store=store, batches=places, intervals=QUICK, poll=0.05) as two,
        sdk(one) as client,
    ):
        made = await batches.begin(client, [line(str(number)) for number in range(12)])
        await until(lambda: doors.waiting == 3)
        for _ in range(12):
            doors.open()
            await asyncio.sleep(0.05)
        batch = await batches.ended(client, made.id)
        assert ids_of(await batches.outputs(client, batch)) == sorted(str(number) for number in range(12))
        assert doors.most == 3
        assert len(engine.requests) == 12
        # What one gateway has, the other has too.
        async with sdk(two) as other:
            assert await other.batches.retrieve(batch.id) == batch
