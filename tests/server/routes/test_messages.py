"""POST /v1/messages and what belongs to it, as Anthropic's clients use them."""

import asyncio

import aiohttp
import msgspec
import pytest
from support.engine import MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, standing_before
from support.messages import HI, VERSION, Body, body, check_events, create, fold, parse, stream

LOOK = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
THINKS = {"thinking": {"type": "adaptive"}}


# ---- answers ---------------------------------------------------------------------------------------------------------


async def test_a_message_is_answered_whole(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hel", "lo"))
    message = await create(gateway, system="Be brief.")
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "mock")
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (12, 5)
    assert message["id"].startswith("msg_")
    assert gateway.headers["request-id"] == gateway.headers["x-request-id"]
    assert engine.last["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert engine.last["max_tokens"] == 100


async def test_a_message_is_streamed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hel", "lo"))
    events = await stream(gateway)
    deltas = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == ["Hel", "lo"]
    assert fold(events)["content"] == [{"type": "text", "text": "Hello"}]
    assert events[-2]["usage"] == {
        "input_tokens": 12,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 0},
    }


@pytest.mark.parametrize("kind", ["llamacpp", "vllm"])
async def test_a_stop_sequence_ends_the_text_on_every_engine_and_is_named(kind: str) -> None:
    async def write_on(write: Writer) -> None:
        await write(chunk({"content": "one ST"}) + chunk({"content": "OP two"}))
        # It would go on for as long as somebody listens.
        await asyncio.Event().wait()

    async with standing_before(kind, write_on, write_on, text("No end.")) as (gateway, engine):
        message = await create(gateway, stop_sequences=["STOP", "never"])
        assert message["content"] == [{"type": "text", "text": "one "}]
        assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "STOP")
        assert message["usage"]["output_tokens"] > 0, "estimated: the engine had no time to count"
        events = await stream(gateway, stop_sequences=["STOP"])
        assert events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "STOP"}
        assert fold(events)["content"] == message["content"]
        assert "stop" not in engine.last
        message = await create(gateway, stop_sequences=["STOP"])
        assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)


async def test_an_empty_stop_sequence_is_refused(gateway: GatewayUnderTest) -> None:
    status, error = await gateway.post(body(stop_sequences=["END", " "]), "/v1/messages", headers=VERSION)
    assert status == 400
    assert "`stop_sequences[1]`" in error["error"]["message"]


async def test_calls_are_blocks_and_go_on_after_their_results(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(
        answer(chunk({"content": "Let me look."}), call("look", '{"at": "it"}', id="a"), finish="tool_calls"),
        text("It is red."),
    )
    first = fold(await stream(gateway, tools=[LOOK]))
    assert first["stop_reason"] == "tool_use"
    assert first["content"] == [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "it"}},
    ]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "red"}]}
    history = [*HI, {"role": "assistant", "content": first["content"]}, result]
    second = await create(gateway, history, tools=[LOOK])
    assert second["content"] == [{"type": "text", "text": "It is red."}]
    asked, called, given = engine.last["messages"]
    assert (asked["content"], called["content"], given) == (
        "Hi",
        "Let me look.",
        {"role": "tool", "tool_call_id": "a", "content": "red"},
    )
    assert called["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":"it"}'}


async def test_a_call_that_is_written_as_text_is_a_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text('<tool_call>{"name": "look", "arguments": {"at": "it"}}</tool_call>'))
    message = await create(gateway, tools=[LOOK])
    assert [block["type"] for block in message["content"]] == ["tool_use"]
    assert message["stop_reason"] == "tool_use"


async def test_a_thought_is_signed_and_restored_when_it_comes_back() -> None:
    first = answer(chunk({"reasoning": "Hm."}), call("look", "{}", id="a"), finish="tool_calls")
    async with standing_before("vllm", first, text("Done."), seal_key="0" * 64) as (gateway, engine):
        message = fold(await stream(gateway, tools=[LOOK], **THINKS))
        thinking, used = message["content"]
        assert (thinking["type"], thinking["thinking"], used["type"]) == ("thinking", "Hm.", "tool_use")
        # The seal has the thought, whatever the client makes of its text.
        blocks = [{**thinking, "thinking": ""}, used]
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "red"}]}
        await create(gateway, [*HI, {"role": "assistant", "content": blocks}, result], tools=[LOOK], **THINKS)
        assert engine.last["messages"][1]["reasoning"] == "Hm."


async def test_a_client_that_wants_no_thoughts_gets_none(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*[answer(chunk({"reasoning_content": "Hm."}), chunk({"content": "Hello"}))] * 2)
    assert (await create(gateway))["content"] == [{"type": "text", "text": "Hello"}]
    assert fold(await stream(gateway))["content"] == [{"type": "text", "text": "Hello"}]
    assert "reasoning_effort" not in engine.last


async def test_a_cut_off_answer_says_so(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hel", finish="length"))
    assert (await create(gateway))["stop_reason"] == "max_tokens"


async def test_a_client_that_waits_gets_pings(engine: MockEngine) -> None:
    seen = asyncio.Event()

    async def slowly(write: Writer) -> None:
        await write(chunk({"content": "Slow"}))
        await seen.wait()
        await write(answer(chunk({"content": "ly."})))

    engine.will(slowly)
    async with running_gateway(engine, heartbeat=0.05) as gateway:
        data = msgspec.json.encode(body(stream=True))
        async with gateway.client.post(f"{gateway.url}/v1/messages", data=data, headers=VERSION) as answered:
            before = await answered.content.readuntil(b'"Slow"}}\n\n')
            ping = await answered.content.readuntil(b"\n\n")
            assert ping == b'event: ping\ndata: {"type":"ping"}\n\n'
            seen.set()
            events = parse(before + ping + await answered.content.read())
    check_events(events)
    assert fold(events)["content"][0]["text"] == "Slowly."


# ---- the prompt ------------------------------------------------------------------------------------------------------


async def test_where_the_cache_ends_changes_nothing_for_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """Claude Code marks the end of each turn, and has another billing header in each conversation."""
    engine.will(*[text("Hello")] * 3)
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1.a"}, {"type": "text", "text": "Be brief."}]
    other = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1.b"}, {**system[1], "cache_control": {}}]
    marked = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    await create(gateway, [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], system=system)
    first = engine.last["messages"]
    await create(gateway, [{"role": "user", "content": [marked]}], system=other)
    assert engine.last["messages"] == first
    later = [
        {"role": "user", "content": [marked]},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "So?"},
    ]
    await create(gateway, later, system=other)
    assert engine.last["messages"][: len(first)] == first


async def test_a_model_that_is_not_known_is_answered_by_the_only_one(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hello"))
    message = await create(gateway, model="claude-opus-4-8")
    assert (message["model"], engine.last["model"]) == ("mock", "mock")
    assert "claude-opus-4-8 is not known here" in gateway.notice


async def test_tokens_are_counted(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("H"))
    counted = {name: value for name, value in body(tools=[LOOK]).items() if name != "max_tokens"}
    status, found = await gateway.post(counted, "/v1/messages/count_tokens", headers=VERSION)
    assert (status, found) == (200, {"input_tokens": 12})


# ---- errors ----------------------------------------------------------------------------------------------------------


async def test_a_wrong_field_is_named(gateway: GatewayUnderTest) -> None:
    status, refused = await gateway.post(body(temperature=3), "/v1/messages", headers=VERSION)
    assert (status, refused["type"], refused["error"]["type"]) == (400, "error", "invalid_request_error")
    assert "`temperature`" in refused["error"]["message"]
    assert refused["request_id"] == gateway.headers["request-id"]


# A block of a user → the field that is at fault, which is known only when the prompt is made.
LATE = [
    ({"type": "image", "source": {"type": "file", "file_id": "file-none"}}, "source.file_id"),
    ({"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}}, "source.url"),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "?"}}, "source.data"),
    (
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]},
        "content[0].source.file_id",
    ),
    ({"type": "tool_result", "tool_use_id": "b", "content": "red"}, "tool_use_id"),
]


@pytest.mark.parametrize(("block", "member"), LATE, ids=[member for _, member in LATE])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_an_error_that_is_found_late_names_the_field_of_the_client(
    gateway: GatewayUnderTest, block: Body, member: str, path: str
) -> None:
    used = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    asked = body([*HI, {"role": "assistant", "content": [used]}, {"role": "user", "content": [block]}])
    for streams in (False, True):
        status, refused = await gateway.post({**asked, "stream": streams}, path, headers=VERSION)
        assert (status, refused["error"]["type"]) == (400, "invalid_request_error")
        assert f"messages[2].content[0].{member}`" in refused["error"]["message"]


@pytest.mark.parametrize("stores", [False, True])
async def test_a_message_is_stored_if_a_setting_says_so(engine: MockEngine, stores: bool) -> None:
    engine.will(text("Hello"))
    async with running_gateway(engine, store_messages=stores) as gateway:
        message = await create(gateway)
        status, response = await gateway.get(f"/v1/responses/{message['id'].replace('msg_', 'resp_')}")
        assert (status == 200, response.get("output_text")) == (stores, "Hello" if stores else None)


async def test_a_key_may_come_in_anthropics_header(engine: MockEngine) -> None:
    engine.will(text("Hello"))
    async with running_gateway(engine, api_key=("right",)) as gateway:
        status, _ = await gateway.post(body(), "/v1/messages", headers={"x-api-key": "right"})
        assert status == 200
        status, refused = await gateway.post(body(), "/v1/messages", headers={"x-api-key": "wrong"})
        assert (status, refused["error"]["type"]) == (401, "authentication_error")


@pytest.mark.parametrize("path", ["/v1/messages/batches/msgbatch_1", "/v1/nothing"])
async def test_what_is_not_there_is_said_in_anthropics_form(gateway: GatewayUnderTest, path: str) -> None:
    status, refused = await gateway.get(path, headers=VERSION)
    assert (status, refused["type"], refused["error"]["type"]) == (404, "error", "not_found_error")


@pytest.mark.parametrize("streams", [False, True])
async def test_a_prompt_that_is_too_long_is_a_400_also_for_a_stream(
    gateway: GatewayUnderTest, engine: MockEngine, streams: bool
) -> None:
    words = "This model's maximum context length is 4096 tokens. However, your prompt has 5000 tokens."
    engine.will(Refusal(400, {"error": {"message": words, "code": "context_length_exceeded"}}))
    status, refused = await gateway.post(body(stream=streams), "/v1/messages", headers=VERSION)
    assert (status, refused["error"]["type"]) == (400, "invalid_request_error")
    assert refused["error"]["message"] == "prompt is too long: 5000 tokens > 4096 maximum"


async def test_an_engine_that_is_overloaded_is_a_529(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(503, {"error": {"message": "Busy."}}, headers={"Retry-After": "7"}))
    status, refused = await gateway.post(body(), "/v1/messages", headers=VERSION)
    assert (status, refused["error"]["type"]) == (529, "overloaded_error")
    assert gateway.headers["Retry-After"] == "7"


async def test_an_error_in_mid_stream_is_an_event(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(chunk({"content": "Hel"}) + b'data: {"error": {"message": "out of memory"}}\n\n')
    events = await stream(gateway)
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["type"] == "api_error"
    assert "out of memory" in events[-1]["error"]["message"]


# ---- what else Anthropic's clients ask for ---------------------------------------------------------------------------


async def test_the_start_of_claude_code_is_answered(gateway: GatewayUnderTest) -> None:
    async with gateway.client.head(gateway.url) as answered:
        assert answered.status == 200


async def test_models_are_listed_in_the_form_of_the_client(gateway: GatewayUnderTest) -> None:
    _, listed = await gateway.get("/v1/models?limit=1000", headers=VERSION)
    (model,) = listed["data"]
    assert (model["type"], model["id"], model["display_name"]) == ("model", "mock", "mock")
    assert model["created_at"].endswith("Z")
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "mock", "mock")
    _, one = await gateway.get("/v1/models/mock", headers=VERSION)
    assert one == model
    status, refused = await gateway.get("/v1/models/other", headers=VERSION)
    assert (status, refused["type"]) == (404, "error")
    assert (await gateway.get("/v1/models"))[1]["object"] == "list"


async def test_files_are_the_same_in_both_forms(gateway: GatewayUnderTest) -> None:
    form = aiohttp.FormData()
    form.add_field("file", b"Hello", filename="a.txt", content_type="text/plain")
    async with gateway.client.post(f"{gateway.url}/v1/files", data=form, headers=VERSION) as answered:
        made = await answered.json()
    assert (made["type"], made["filename"], made["mime_type"], made["size_bytes"]) == ("file", "a.txt", "text/plain", 5)
    _, listed = await gateway.get("/v1/files?limit=20", headers=VERSION)
    assert (listed["data"], listed["has_more"]) == ([made], False)
    _, ours = await gateway.get(f"/v1/files/{made['id']}")
    assert (ours["object"], ours["bytes"], ours["purpose"]) == ("file", 5, "user_data")
    _, deleted = await gateway.get(f"/v1/files/{made['id']}", method="DELETE", headers=VERSION)
    assert deleted == {"id": made["id"], "type": "file_deleted"}


@pytest.mark.parametrize("next_page", ["page", "after_id"])
async def test_files_are_listed_page_by_page(gateway: GatewayUnderTest, next_page: str) -> None:
    for name in ("a.txt", "b.txt"):
        form = aiohttp.FormData()
        form.add_field("file", b"Hello", filename=name)
        async with gateway.client.post(f"{gateway.url}/v1/files", data=form, headers=VERSION) as answered:
            assert answered.status == 200
    _, first = await gateway.get("/v1/files?limit=1", headers=VERSION)
    assert (first["data"][0]["filename"], first["has_more"], first["next_page"]) == ("b.txt", True, first["last_id"])
    _, second = await gateway.get(f"/v1/files?limit=1&{next_page}={first['next_page']}", headers=VERSION)
    assert (second["data"][0]["filename"], second["has_more"], second["next_page"]) == ("a.txt", False, None)


async def test_the_inspector_shows_a_message_and_its_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hello"))
    await create(gateway)
    _, shown = await gateway.get("/inspector/requests/1")
    assert (shown["client"]["path"], shown["client"]["body"]["messages"]) == ("/v1/messages", HI)
