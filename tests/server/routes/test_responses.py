"""POST /v1/responses over a real socket, in front of a strict engine."""

import asyncio
import gc
import weakref

import pytest
from support.engine import CUT, DONE, USAGE, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.engine_connections import is_paused as gateway_has_paused
from support.engine_connections import kept_connections
from support.gateway import GatewayUnderTest, running_gateway
from support.streams import check_stream, parse

pytestmark = pytest.mark.usefixtures("both_transports")


async def test_a_string_is_a_user_message_and_the_text_comes_back(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create("Hi", instructions="Be kind.")
    assert engine.last["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert response["status"] == "completed"
    assert response["output_text"] == "Hello world"
    part = {"type": "output_text", "text": "Hello world", "annotations": [], "logprobs": []}
    assert response["output"][0]["content"] == [part]
    assert response["usage"]["total_tokens"] == 17
    assert response["id"].startswith("resp_")
    assert response["output"][0]["id"].startswith("msg_")


async def test_streaming_and_not_streaming_give_the_same_response(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    stream = answer(chunk({"reasoning_content": "hm"}), chunk({"content": "Yes"}), call("f", '{"a": 1}'))
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    engine.will(stream, stream)
    streamed = (await gateway.stream(tools=tools))[-1]["response"]
    whole = await gateway.create(tools=tools)
    assert engine.requests[0] == engine.requests[1]

    def plain(response: dict[str, object]) -> object:
        items = response["output"]
        assert isinstance(items, list)
        return [{key: value for key, value in item.items() if key != "id"} for item in items]

    assert plain(streamed) == plain(whole)
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "function_call"]


async def test_the_engine_gets_only_fields_that_it_knows(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.create(
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=50,
        metadata={"a": "b"},
        store=True,
        service_tier="auto",
        safety_identifier="u1",
        prompt_cache_key="k",
        truncation="disabled",
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "high", "summary": "auto"},
        text={"verbosity": "low"},
        client_metadata={"x": "y"},
        seed=7,
        stop=["END"],
        user="someone",
        presence_penalty=0.1,
        frequency_penalty=0.2,
    )
    sent = {key: value for key, value in engine.last.items() if key != "messages"}
    assert sent == {
        "model": "mock",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 50,
        "reasoning_effort": "high",
        "seed": 7,
        "stop": ["END"],
        "user": "someone",
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_what_was_left_out_is_named_in_the_notice(gateway: GatewayUnderTest) -> None:
    await gateway.stream(tools=[{"type": "web_search"}], reasoning={"effort": "xhigh"}, frobnicate=1)
    assert "tool web_search was left out" in gateway.notice
    assert "reasoning effort xhigh was sent as high" in gateway.notice
    assert "field frobnicate is unknown" in gateway.notice


async def test_an_ordinary_request_has_no_notice(gateway: GatewayUnderTest) -> None:
    await gateway.create()
    assert gateway.notice == ""


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
async def test_a_cut_answer_is_incomplete(gateway: GatewayUnderTest, engine: MockEngine, finish: str, reason: str) -> None:
    engine.will(text("Once upon", finish=finish))
    events = await gateway.stream()
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    assert response["incomplete_details"] == {"reason": reason}
    assert response["output"][-1]["status"] == "incomplete"


async def test_without_parallel_calls_there_is_at_most_one_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("f", "{}", id="a"), call("f", "{}", id="b", index=1), finish="tool_calls"))
    response = await gateway.create(tools=[{"type": "function", "name": "f"}], parallel_tool_calls=False)
    assert engine.last["parallel_tool_calls"] is False
    assert [item["call_id"] for item in response["output"]] == ["a"]


async def test_the_names_of_the_reasoning_events_are_a_setting(engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning": "hm"}), chunk({"content": "Yes"})))
    async with running_gateway(engine, reasoning_events="reasoning") as gateway:
        kinds = [event["type"] for event in await gateway.stream()]
    assert "response.reasoning.delta" in kinds
    assert "response.reasoning.done" in kinds
    assert "response.reasoning_text.delta" not in kinds


async def test_requested_padding_hides_the_length_of_a_token(gateway: GatewayUnderTest) -> None:
    events = await gateway.stream(stream_options={"include_obfuscation": True})
    deltas = [event for event in events if event["type"].endswith(".delta")]
    assert {(len(event["delta"]) + len(event["obfuscation"])) % 16 for event in deltas} == {0}
    plain = await gateway.stream()
    assert not any("obfuscation" in event for event in plain)


async def test_logprobs_come_with_the_text(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": [{"token": "Hi", "logprob": -0.5}]}
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": {"content": [token]}, "finish_reason": None}
    engine.will(b"".join([chunk(choices=[choice]), chunk(finish="stop"), USAGE, DONE]))
    response = await gateway.create(top_logprobs=1, include=["message.output_text.logprobs"])
    assert engine.last["logprobs"] is True
    assert engine.last["top_logprobs"] == 1
    assert response["output"][0]["content"][0]["logprobs"] == [
        {
            "token": "Hi",
            "logprob": -0.5,
            "bytes": [72, 105],
            "top_logprobs": [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105]}],
        }
    ]


async def test_usage_that_the_engine_does_not_report_is_estimated_with_a_notice(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    silent = b"".join([chunk({"content": "four" * 10}), chunk(finish="stop"), DONE])
    engine.will(silent, silent)
    response = await gateway.create("x" * 400)
    assert response["usage"]["output_tokens"] == 10
    assert response["usage"]["input_tokens"] >= 100
    assert gateway.notice.count("usage is estimated") == 1
    await gateway.stream()
    assert gateway.notice.count("usage is estimated") == 1
    await gateway.create()
    assert gateway.notice == "", "an engine that reports usage after all is believed"


async def test_usage_is_counted_by_the_engines_tokenizer_if_it_has_one() -> None:
    tokenize = {"/tokenize": lambda body: {"tokens": body["content"].split()}}
    engine = MockEngine(owned_by="llamacpp", own_fields=["reasoning_format"], paths=tokenize)
    await engine.start()
    engine.will(b"".join([chunk({"content": "one two three"}), chunk(finish="stop"), DONE]))
    async with running_gateway(engine) as gateway:
        response = await gateway.create("a b c d")
    await engine.stop()
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (4, 3)


async def test_stream_options_are_left_out_for_an_engine_that_rejects_them(engine: MockEngine) -> None:
    objects_to = engine.objects_to
    engine.objects_to = lambda body: "unknown field: stream_options" if "stream_options" in body else objects_to(body)
    async with running_gateway(engine, retries=0) as gateway:
        await gateway.stream()
        assert "stream_options" not in engine.last
        await gateway.create()
    assert ["stream_options" in body for body in engine.requests] == [True, False, False]


async def test_a_whole_answer_in_place_of_a_stream_is_read_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    engine.will(Refusal(200, whole))
    response = await gateway.create()
    assert response["output_text"] == "Hi"


async def test_a_client_gets_heartbeats_while_its_engine_has_not_begun(engine: MockEngine) -> None:
    heard = asyncio.Event()

    async def silent(write: Writer) -> None:
        await heard.wait()
        await write(text("at last"))

    engine.will(silent)
    async with running_gateway(engine, heartbeat=0.02) as gateway:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            raw = b""
            while raw.count(b"event: response.in_progress") < 4:
                raw += await answered.content.readany()
            heard.set()
            raw += await answered.content.read()
    events = parse(raw)
    assert check_stream(events)["status"] == "completed"


async def test_a_client_that_disconnects_ends_the_engines_work(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"content": "and"}))
        await asyncio.Event().wait()

    engine.will(endless)
    body = {"model": "mock", "input": "Hi", "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        await answered.content.readuntil(b"output_text.delta")
    async with asyncio.timeout(10):
        assert await engine.cancelled.wait()


async def test_a_client_that_disconnects_before_the_first_byte_ends_the_engines_work_too(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async def endless(write: Writer) -> None:
        await asyncio.Event().wait()

    for stream in (True, False):
        engine.asked.clear()
        engine.cancelled.clear()
        engine.will(endless)
        body = {"model": "mock", "input": "Hi", "stream": stream}
        posting = asyncio.create_task(gateway.client.post(gateway.url + "/v1/responses", json=body))
        await engine.asked.wait()
        posting.cancel()
        async with asyncio.timeout(10):
            assert await engine.cancelled.wait()


async def test_a_slow_client_pauses_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    written, most, is_paused = 0, 5000, asyncio.Event()
    piece = chunk({"content": "x" * 12_000})

    async def torrent(write: Writer) -> None:
        nonlocal written
        # What follows the pause need not be long.
        while written < most and not is_paused.is_set():
            await write(piece)
            written += 1
        await write(piece + chunk(finish="stop") + USAGE + DONE)
        written += 1

    engine.will(torrent)
    body = {"model": "mock", "input": "Hi", "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        # Nothing is read here: once every buffer on the way is full, the gateway stops reading from its engine.
        async with asyncio.timeout(60):
            while not gateway_has_paused(gateway.gateway.pool.engines[0]):  # noqa: ASYNC110
                await asyncio.sleep(0)
        is_paused.set()
        before = written
        assert 0 < before < most
        raw = await answered.content.read()
    assert written > before
    response = check_stream(parse(raw))
    assert response["status"] == "completed"
    assert len(response["output"][0]["content"][0]["text"]) == written * 12_000


async def test_an_engine_that_is_faster_than_the_gateway_is_read_to_its_end(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async def ahead(write: Writer) -> None:
        for _ in range(100):
            await write(chunk({"content": "word "}) * 20)
        await write(chunk(finish="stop") + USAGE + DONE)

    for _ in range(3):
        engine.will(ahead)
        response = (await gateway.stream())[-1]["response"]
        assert response["output"][0]["content"][0]["text"] == "word " * 2000


async def test_an_idle_connection_to_an_engine_keeps_nothing_of_its_last_response(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await go_on.wait()
        await write(chunk({"content": " two"}) + chunk(finish="stop") + USAGE + DONE)

    engine.will(slow)
    gc.disable()
    try:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            await answered.content.readuntil(b"response.output_text.delta")
            (turn,) = [weakref.ref(turn) for turn in gateway.gateway.in_flight.runs]
            go_on.set()
            await answered.read()
        await gateway.gateway.in_flight.drain(30)
        assert turn() is None
    finally:
        gc.enable()
    assert kept_connections(gateway.gateway.pool.engines[0]) == 1


async def test_shutting_down_lets_a_stream_finish(engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await go_on.wait()
        await write(chunk({"content": " two"}) + chunk(finish="stop") + USAGE + DONE)

    engine.will(slow)
    running = running_gateway(engine, shutdown_timeout=30)
    gateway = await running.__aenter__()
    body = {"model": "mock", "input": "Hi", "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        raw = await answered.content.readuntil(b"output_text.delta")
        stopping = asyncio.create_task(running.__aexit__(None, None, None))
        await asyncio.sleep(0)
        go_on.set()
        raw += await answered.content.read()
        await stopping
    assert check_stream(parse(raw))["output"][0]["content"][0]["text"] == "one two"


async def test_shutting_down_answers_a_request_whose_engine_has_not_begun(engine: MockEngine) -> None:
    async def silent(write: Writer) -> None:
        await asyncio.Event().wait()

    engine.will(silent)
    running = running_gateway(engine, shutdown_timeout=0.1)
    gateway = await running.__aenter__()
    posting = asyncio.create_task(gateway.post({"input": "Hi", "stream": True}))
    await engine.asked.wait()
    stopping = asyncio.create_task(running.__aexit__(None, None, None))
    status, body = await posting
    await stopping
    assert status == 503
    assert "shutting down" in body["error"]["message"]


async def test_shutting_down_ends_a_stream_that_takes_too_long_with_a_terminal_event(engine: MockEngine) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await asyncio.Event().wait()

    engine.will(endless)
    running = running_gateway(engine, shutdown_timeout=0.1)
    gateway = await running.__aenter__()
    body = {"model": "mock", "input": "Hi", "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        raw = await answered.content.readuntil(b"output_text.delta")
        stopping = asyncio.create_task(running.__aexit__(None, None, None))
        raw += await answered.content.read()
        await stopping
    response = check_stream(parse(raw))
    assert response["status"] == "failed"
    assert "shutting down" in response["error"]["message"]


async def test_a_cut_connection_fails_the_stream_once_and_closes_what_is_open(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    seen = asyncio.Event()

    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await seen.wait()
        await write(CUT)

    engine.will(cut)
    body = {"model": "mock", "input": "Hi", "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        raw = await answered.content.readuntil(b"output_text.delta")
        seen.set()
        raw += await answered.content.read()
    events = parse(raw)
    check_stream(events)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"
    assert events[-1]["response"]["error"]["code"] == "server_error"
