"""Anthropic's packages for Python and Node, `anthropic` and `@anthropic-ai/sdk`: both play the same scenarios here."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from support.bad_mcp_server import BadMcpServer
from support.client_conversations import GREETING, RESULTS, THOUGHT, TWO_CALLS, messages, result, user
from support.clients import Player
from support.engine import Body, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.kernels import ScriptedKernels, interpreting, prints
from support.pdfs import make_pdf
from support.search_services import SearchServices, searching

pytestmark = pytest.mark.parametrize("client", ["anthropic", "anthropic_node"], indirect=True)

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(make_pdf("Once.", "Twice.")).decode()}
PARIS = answer(call("weather", '{"city": "Paris"}'), finish="tool_calls")
# It asks for less patience than the gateway would.
LOADING = Refusal(503, {"error": {"message": "loading"}}, {"Retry-After": "0.1"})


# ---- messages --------------------------------------------------------------------------------------------------------


async def test_a_message_has_all_members(client: Player, gateway: GatewayUnderTest) -> None:
    created, streamed = await client.play("whole", gateway)
    assert created.pop("id").startswith("msg_")
    usage = created.pop("usage")
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (12, 5, 0)
    assert created == {
        "type": "message",
        "role": "assistant",
        "model": "mock",
        "content": [{"type": "text", "text": "Hello world"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }
    assert streamed["usage"] == usage
    assert {name: streamed[name] for name in created} == created


async def test_the_events_of_a_stream_arrive_in_order(client: Player, gateway: GatewayUnderTest) -> None:
    began, *blocks, ended, stopped = await client.play("events", gateway)
    assert began["type"] == "message_start"
    assert began["message"]["content"] == []
    assert blocks == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " world"}},
        {"type": "content_block_stop", "index": 0},
    ]
    assert ended["type"] == "message_delta"
    assert ended["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert ended["usage"]["output_tokens"] == 5
    assert stopped == {"type": "message_stop"}


async def test_the_helpers_of_a_stream_gather_thoughts_and_text(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(GREETING)
    seen = await client.play("helpers", gateway)
    assert seen == [["thinking", THOUGHT], ["text", "Hello, "], ["text", "Hello, Ada."]]


async def test_the_helpers_of_a_stream_gather_the_input_of_each_call(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS)
    thought, *inputs = await client.play("helpers", gateway)
    assert thought == ["thinking", THOUGHT]
    whole = [input for kind, input in inputs if kind == "input_json" and input]
    assert whole == [{"city": "Paris"}, {"city": "Rome"}]


async def test_the_input_of_a_call_that_is_no_json_does_not_end_the_stream(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(call("weather", '{"city": Paris}'), finish="tool_calls"))
    seen = await client.play("helpers", gateway)
    assert seen[-1] == ["input_json", {"city": None, "invalid_json": "Paris}"}]


async def test_a_client_that_leaves_stops_the_engine(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"content": "Hel"}))
        await asyncio.Event().wait()

    engine.will(endless)
    assert await client.play("left", gateway) == "Hel"
    await engine.cancelled.wait()


async def test_the_options_of_a_request_reach_the_engine(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("options", gateway) == "Hello world"
    # The text is cut at a stop sequence here.
    assert "stop" not in engine.last
    expected = {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 1024,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
    }
    assert {name: engine.last[name] for name in expected} == expected
    assert engine.last["tools"][0]["function"]["parameters"]["required"] == ["city"]


async def test_cached_tokens_are_counted_apart(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}
    cached = chunk({"content": "Hi"}) + chunk(finish="stop") + chunk(usage=usage)
    engine.will(cached, cached)
    assert await client.play("cached", gateway) == [[4, 8, 5], [4, 8, 5]]


# ---- thoughts --------------------------------------------------------------------------------------------------------


async def test_a_budget_of_tokens_asks_for_thoughts(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("budget", gateway) == [["thinking", THOUGHT], ["text", "Hello, Ada."]]
    assert engine.last["reasoning_effort"] == "medium"


async def test_the_text_of_thoughts_can_be_left_out(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING, GREETING)
    blocks = [["thinking", ""], ["text", "Hello, Ada."]]
    assert await client.play("hidden", gateway) == [blocks, blocks]


async def test_thoughts_that_nobody_asked_for_are_not_shown(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(GREETING, GREETING)
    blocks = [["text", "Hello, Ada."]]
    assert await client.play("unasked", gateway) == [blocks, blocks]


# ---- calls -----------------------------------------------------------------------------------------------------------


async def test_the_runner_tells_the_model_that_a_tool_failed(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS, text("Unknown."))
    assert await client.play("failing", gateway) == "Unknown."
    assert messages(engine.last)[-2:] == [
        result("Error: Paris is unknown.", id="call_1"),
        result("Error: Rome is unknown.", id="call_2"),
    ]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
async def test_a_call_can_be_demanded(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, choice: dict[str, str]
) -> None:
    engine.will(PARIS)
    assert await client.play("chosen", gateway, choice=choice) == [["tool_use", "weather", {"city": "Paris"}]]
    assert engine.last["tool_choice"] == "required"


async def test_calls_can_be_forbidden(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("chosen", gateway, choice={"type": "none"}) == [["text", None, None]]
    assert "tools" not in engine.last


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"content": "sunny"}, [result("sunny", id="call_1")]),
        ({}, [result("", id="call_1")]),
        ({"content": "Paris is unknown.", "is_error": True}, [result("Error: Paris is unknown.", id="call_1")]),
        ({"content": "ValueError: Paris", "is_error": True}, [result("ValueError: Paris", id="call_1")]),
        ({"is_error": True}, [result("Error", id="call_1")]),
        (
            {"content": [{"type": "text", "text": "A map:"}, {"type": "image", "source": PNG}]},
            [result("A map:", id="call_1"), {"role": "user", "content": [SHOWN]}],
        ),
        (
            {"content": [{"type": "image", "source": PNG}], "is_error": True},
            [result("Error", id="call_1"), {"role": "user", "content": [SHOWN]}],
        ),
    ],
    ids=["text", "nothing", "error", "error_that_says_so", "error_without_text", "image", "error_with_an_image"],
)
async def test_the_result_of_a_call_reaches_the_engine(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, given: dict[str, Any], expected: list[Body]
) -> None:
    assert await client.play("answered", gateway, result=given) == "Hello world"
    assert messages(engine.last)[2:] == expected


async def test_tools_that_anthropic_defines_have_their_schemas(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(call("bash", '{"command": "ls"}'), finish="tool_calls"))
    assert await client.play("builtin", gateway) == [["bash", {"command": "ls"}]]
    properties = {
        tool["function"]["name"]: list(tool["function"]["parameters"]["properties"])[:2] for tool in engine.last["tools"]
    }
    assert properties == {
        "bash": ["command", "restart"],
        "str_replace_based_edit_tool": ["command", "path"],
        "memory": ["command", "path"],
    }


# ---- turns -----------------------------------------------------------------------------------------------------------


async def test_a_system_message_stays_in_its_place(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("told", gateway) == "Hello world"
    assert messages(engine.last)[2:] == [user("What is my name?"), user("<system_message>\nBe brief.\n</system_message>")]


async def test_a_thread_that_is_not_kept_is_sent_again_without_asking_the_engine(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS, PARIS, text("Sunny."))
    assert await client.play("runner", gateway) == "Sunny."
    assert len(engine.requests) == 3
    assert messages(engine.last)[2:4] == RESULTS


# ---- images and documents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "shown"),
    [(PNG, SHOWN), ({"type": "url", "url": "https://example.com/a.png"}, {"url": "https://example.com/a.png"})],
    ids=["base64", "url"],
)
async def test_an_image_is_passed_on(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, source: dict[str, str], shown: dict[str, Any]
) -> None:
    assert await client.play("image", gateway, source=source) == "Hello world"
    image = shown if "type" in shown else {"type": "image_url", "image_url": shown}
    assert engine.last["messages"] == [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]


PAGES = "[page 1]\nOnce.\n\n[page 2]\nTwice."


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"source": PDF, "title": "A tale.pdf"}, f'<file name="A tale.pdf">\n{PAGES}\n</file>'),
        ({"source": {"type": "text", "media_type": "text/plain", "data": "Once."}, "title": "A tale"}, "A tale\nOnce."),
        ({"source": {"type": "content", "content": [{"type": "text", "text": "Once."}]}}, "Once."),
        ({"source": {"type": "content", "content": "Once."}, "context": "It is old."}, "It is old.\nOnce."),
    ],
    ids=["pdf", "text", "content", "context"],
)
async def test_a_document_is_read(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, block: dict[str, Any], said: str
) -> None:
    assert await client.play("document", gateway, block=block) == "Hello world"
    assert messages(engine.last) == [user(f"{said}\nWhat does it say?")]


# ---- what the server runs and keeps ----------------------------------------------------------------------------------


async def test_a_search_of_the_gateway_is_shown_and_sent_back(client: Player, engine: MockEngine) -> None:
    search = answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls")
    engine.will(search, text("It is Rome [1]."), search, text("It is Rome [1]."), text("Since 1871."))
    async with SearchServices() as services, searching(engine, services) as gateway:
        whole, streamed = await client.play("searched", gateway)
    assert whole == streamed
    assert whole["types"] == ["server_tool_use", "web_search_tool_result", "text"]
    assert (whole["query"], whole["searches"]) == ("capital of Italy", 1)
    assert whole["cited"] == [whole["found"]]
    shown = [message["content"] for message in messages(engine.last) if message["role"] == "tool"]
    assert len(shown) == 1
    assert whole["found"] in shown[0]


async def test_the_tools_of_an_mcp_server_are_called(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("bad__echo", '{"a": 1}'), finish="tool_calls"), text("Done."))
    async with BadMcpServer() as server:
        seen = await client.play("connected", gateway, server=f"{server.url}/mcp")
    assert seen == ["bad", "echo", {"a": 1}, '{"a": 1}', "Done."]
    assert server.tools.called == ["echo"]


async def test_documents_are_cited(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    said = answer(chunk({"content": "Twice [2], and once [1]."}), finish="stop")
    engine.will(said, said)
    document = {"type": "document", "source": PDF, "title": "A tale", "citations": {"enabled": True}}
    whole, streamed = await client.play("cited", gateway, documents=[document])
    assert whole == streamed
    assert [(text, cited[0]["cited_text"], cited[0]["start_page_number"]) for text, cited in whole] == [
        ("Twice,", "Twice.", 2),
        (" and once.", "Once.", 1),
    ]


async def test_what_code_has_written_is_downloaded(client: Player, engine: MockEngine, tmp_path: Path) -> None:
    run = answer(call("python", '{"code": "plot()"}'), finish="tool_calls")
    engine.will(run, text("There."), run, text("Again."))
    kernels = ScriptedKernels({"plot()": prints("drawn", table__csv="a,b")})
    async with interpreting(engine, kernels, tmp_path) as gateway:
        seen = await client.play("ran", gateway)
    assert seen == {"printed": "drawn", "files": [["table.csv", "a,b"]], "expires": True, "same": True}


async def test_a_summary_is_sent_back(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("They talked about tea."), text("A drink."), text("Yes."))
    talk = [user("Tea?"), {"role": "assistant", "content": "tea " * 1500}, user("Coffee?")]
    blocks = await client.play("compacted", gateway, messages=talk)
    assert blocks == [["compaction", "They talked about tea."], ["text", "A drink."]]
    assert [message["content"] for message in messages(engine.last)[1:]] == ["Coffee?", "A drink.", "And milk?"]
    assert messages(engine.last)[0]["content"].endswith("They talked about tea.")


async def test_models_are_listed(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.lists("mock", "other")
    assert await client.play("models", gateway) == [["mock", "other"], "mock"]


async def test_files_are_kept_and_read(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("files", gateway) == {
        "uploaded": ["tale.txt", 5, "text/plain"],
        "listed": True,
        "said": "Hello world",
        "content": "Once.",
        "deleted": True,
        "left": ["other.txt"],
    }
    assert messages(engine.last) == [user('<file name="tale.txt">\nOnce.\n</file>')]


async def test_a_batch_is_worked_through(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("batches", gateway) == {
        "started": ["in_progress", 3],
        "counts": {"processing": 0, "succeeded": 3, "errored": 0, "canceled": 0, "expired": 0},
        "results": dict.fromkeys(("r0", "r1", "r2"), "Hello world"),
        "cancelled": True,
        "listed": True,
        "deleted": True,
    }


# ---- tokens, ids and errors ------------------------------------------------------------------------------------------


async def test_tokens_are_counted(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("count", gateway) == [{"input_tokens": 12}] * 2
    assert [each["max_tokens"] for each in engine.requests] == [1, 1]
    assert engine.last["tools"][0]["function"]["name"] == "weather"


async def test_answers_streams_and_errors_have_the_id_of_their_request(client: Player, gateway: GatewayUnderTest) -> None:
    ids = await client.play("ids", gateway)
    assert all(id.startswith("req_") for id in ids)
    assert len(set(ids)) == 3
    assert ids[2] == ids[3]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"content": [{"type": "image", "source": {"type": "base64"}}]}, "`messages[0].content[0].source.data`"),
        ({"content": [{"type": "picture"}]}, "`messages[0].content[0].type`"),
        ({"max_tokens": -1}, "`max_tokens`"),
        ({"thinking": {"type": "sometimes"}}, "`thinking.type`"),
        ({"tools": [{"name": "weather", "input_schema": []}]}, "`tools[0].input_schema`"),
        ({"tool_choice": {"type": "tool"}}, "`tool_choice.name`"),
        ({"output_config": {"format": {"type": "xml"}}}, "`output_config.format`"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "xml"}}}}, "`output_config.format.schema`"),
        ({"content": [{"type": "document", "source": {**PDF, "data": "AAAA"}}]}, "`messages[0].content[0].source.data`"),
        ({"messages": []}, "`messages`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_error_names_its_field(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, request_: dict[str, Any], named: str, stream: bool
) -> None:
    *error, message = await client.play("refused", gateway, **request_, stream=stream)
    assert error == ["BadRequestError", 400, "invalid_request_error"]
    assert named in message
    assert engine.requests == []


async def test_a_wrong_key_is_an_error(client: Player, engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("right",)) as gateway:
        *error, message = await client.play("refused", gateway)
    assert error == ["AuthenticationError", 401, "authentication_error"]
    assert "key" in message
    assert engine.requests == []


async def test_a_model_that_is_not_there_is_an_error(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.lists("mock", "other")
    *error, message = await client.play("refused", gateway, model="unknown")
    assert error == ["NotFoundError", 404, "not_found_error"]
    assert "unknown" in message
    assert engine.requests == []


async def test_a_name_of_anthropics_stands_for_a_model_that_is_there(client: Player, engine: MockEngine) -> None:
    engine.lists("mock", "other")
    async with running_gateway(engine, model_names={"claude-opus-5": "other"}, default_model="mock") as gateway:
        assert await client.play("named", gateway, model="claude-opus-5") == ["Hello world", "other"]
        assert await client.play("named", gateway, model="claude-haiku-4-5-20251001") == ["Hello world", "mock"]
    assert [request["model"] for request in engine.requests] == ["other", "mock"]


async def test_a_path_that_is_not_there_is_an_error(client: Player, gateway: GatewayUnderTest) -> None:
    *error, message = await client.play("misplaced", gateway)
    assert error == ["NotFoundError", 404, "not_found_error"]
    assert "POST /v1/messages" in message


async def test_a_prompt_that_is_too_long_is_an_error_in_anthropics_words(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    problem = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."
    engine.will(Refusal(400, {"error": {"message": problem, "type": "BadRequestError", "code": 400}}))
    *error, message = await client.play("refused", gateway)
    assert error == ["BadRequestError", 400, "invalid_request_error"]
    assert message == "prompt is too long: 5000 tokens > 4096 maximum"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_not_ready_is_overloaded(client: Player, engine: MockEngine, stream: bool) -> None:
    engine.will(LOADING)
    async with running_gateway(engine, retries=0) as gateway:
        *error, message = await client.play("refused", gateway, stream=stream)
    assert error == ["OverloadedError", 529, "overloaded_error"]
    assert "loading" in message


async def test_the_client_asks_an_engine_that_was_not_ready_again(client: Player, engine: MockEngine) -> None:
    engine.will(LOADING)
    async with running_gateway(engine, retries=0) as gateway:
        assert await client.play("retried", gateway) == "Hello world"
    assert len(engine.requests) == 2


async def test_too_many_requests_are_an_error(client: Player, engine: MockEngine) -> None:
    async with running_gateway(engine, key_requests_per_minute=1) as gateway:
        await client.play("text", gateway)
        *error, _ = await client.play("refused", gateway)
    assert error == ["RateLimitError", 429, "rate_limit_error"]
