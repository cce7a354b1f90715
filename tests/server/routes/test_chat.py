"""Chat Completions through the gateway: what engines do badly is done here, and all the rest is passed on as it came."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import openai
import pydantic
import pytest
from support.chat import CALL, CITY, USER, WEATHER
from support.completions import chunks_of, finish_of, joined
from support.engine import OWN_FIELDS, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, standing_before, started

from antiphon.app.parts import make_protocols
from antiphon.core.protocols.chat.messages import NAMES
from antiphon.core.protocols.chat.protocol import ChatProtocol
from antiphon.engines.embedded.process import EngineProcess, ModelOptions
from antiphon.server.paths import ProtocolPaths
from antiphon.settings.settings import Settings
from bench.processes import free_port

pytestmark = [pytest.mark.usefixtures("both_transports"), pytest.mark.timeout(60)]

PATH = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "mock", "messages": [USER]}
PARIS = '{"city": "Paris"}'
WRITTEN = f'<tool_call>\n{{"name": "get_weather", "arguments": {PARIS}}}\n</tool_call>'
SCHEMA = {"type": "json_schema", "json_schema": {"name": "place", "schema": CITY, "strict": True}}
CHECKED = "the answer was read and checked here, and not passed through: the request has "


async def whole(gateway: GatewayUnderTest, **fields: Any) -> dict[str, Any]:
    """The one choice of an answer."""
    status, completion = await gateway.post({**BODY, **fields}, path=PATH)
    assert status == 200, completion
    assert completion["object"] == "chat.completion"
    assert completion["id"].startswith("chatcmpl-")
    (choice,) = completion["choices"]
    found: dict[str, Any] = choice
    return found


async def streamed(gateway: GatewayUnderTest, **fields: Any) -> list[dict[str, Any]]:
    async with gateway.client.post(gateway.url + PATH, json={**BODY, "stream": True, **fields}) as answered:
        gateway.notice = answered.headers.get("antiphon-notice", "")
        raw = await answered.read()
        assert (answered.status, answered.content_type) == (200, "text/event-stream"), raw
    return chunks_of(raw)


def called(message: dict[str, Any]) -> list[tuple[str, Any]]:
    calls = [each["function"] for each in message.get("tool_calls", [])]
    return [(each["name"], msgspec.json.decode(each["arguments"])) for each in calls]


# ---- what is done here -----------------------------------------------------------------------------------------------


async def test_a_call_that_was_written_as_text_is_a_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text(WRITTEN[:20], WRITTEN[20:]), text(WRITTEN))
    choice = await whole(gateway, tools=[WEATHER])
    assert called(choice["message"]) == [("get_weather", {"city": "Paris"})]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert gateway.notice == CHECKED + "tools"
    chunks = await streamed(gateway, tools=[WEATHER])
    assert called(joined(chunks)) == [("get_weather", {"city": "Paris"})]
    assert finish_of(chunks) == ["tool_calls"]
    assert gateway.notice == CHECKED + "tools"


async def test_a_required_call_is_made_by_an_engine_that_ignores_the_choice(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(text("Hello!"), answer(call("get_weather", PARIS)))
    choice = await whole(gateway, tools=[WEATHER], tool_choice="required")
    assert called(choice["message"]) == [("get_weather", {"city": "Paris"})]
    assert len(engine.requests) == 2


async def test_a_required_call_that_is_never_made_is_an_error(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.otherwise = lambda body: text("Hello!")
    status, failed = await gateway.post({**BODY, "tools": [WEATHER], "tool_choice": "required"}, path=PATH)
    assert status == 502
    assert failed["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "get_weather"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_weather"}}]},
        },
    ],
    ids=["named", "allowed"],
)
async def test_a_choice_is_enforced_by_a_constraint(choice: Any) -> None:
    other = {"type": "function", "function": {"name": "send_mail", "parameters": CITY}}
    made = text(f'{{"name": "get_weather", "arguments": {PARIS}}}')
    async with standing_before("llamacpp", made) as (gateway, engine):
        chosen = await whole(gateway, tools=[WEATHER, other], tool_choice=choice)
        assert called(chosen["message"]) == [("get_weather", {"city": "Paris"})]
        schema = engine.last["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["name"] == {"const": "get_weather"}


async def test_a_schema_is_kept(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text(f"Here you are:\n```json\n{PARIS}\n```"), text("Paris, of course."), text(PARIS))
    choice = await whole(gateway, response_format=SCHEMA)
    assert msgspec.json.decode(choice["message"]["content"]) == {"city": "Paris"}
    assert gateway.notice.startswith(CHECKED + "response_format")
    chunks = await streamed(gateway, response_format=SCHEMA)
    assert msgspec.json.decode(joined(chunks)["content"]) == {"city": "Paris"}
    assert len(engine.requests) == 3


async def test_a_schema_that_is_not_kept_is_an_error_also_in_a_stream(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.otherwise = lambda body: text("Paris, of course.")
    status, failed = await gateway.post({**BODY, "response_format": SCHEMA}, path=PATH)
    assert (status, failed["error"]["type"]) == (502, "server_error")
    *_, last = await streamed(gateway, response_format=SCHEMA)
    assert last["error"]["message"] == failed["error"]["message"]


async def test_a_schema_that_is_none_is_named_as_it_was_sent(gateway: GatewayUnderTest) -> None:
    wrong = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "nothing"}}}
    status, failed = await gateway.post({**BODY, "response_format": wrong}, path=PATH)
    assert (status, failed["error"]["param"]) == (400, "response_format.json_schema.schema")
    assert "text.format" not in failed["error"]["message"]


async def test_a_tool_is_called_and_its_result_comes_back() -> None:
    made = answer(chunk({"reasoning_content": "Hm."}), call("get_weather", PARIS))
    async with standing_before("llamacpp", made, text("Sunny.")) as (gateway, engine):
        first = (await whole(gateway, tools=[WEATHER]))["message"]
        assert first["reasoning_content"] == "Hm."
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "21 degrees"}
        second = await whole(gateway, tools=[WEATHER], messages=[USER, first, result])
        assert second["message"]["content"] == "Sunny."
        said = engine.last["messages"]
    assert [each["role"] for each in said] == ["user", "assistant", "tool"]
    assert said[1]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": PARIS}
    assert (said[1]["reasoning_content"], said[2]["content"]) == ("Hm.", "21 degrees")


async def test_what_templates_demand_is_met(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """The engine of the tests rejects a late system message, and calls without a result."""
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "system", "content": "Now answer."},
        USER,
    ]
    await whole(gateway, messages=messages)
    assert engine.last["messages"][0] == {"role": "system", "content": "Be brief."}
    assert gateway.notice.startswith(CHECKED + "calls in its messages")


async def test_the_usage_is_the_last_chunk_if_it_is_asked_for(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    *_, last = await streamed(gateway, tools=[WEATHER], stream_options={"include_usage": True})
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 17)
    *_, last = await streamed(gateway, tools=[WEATHER])
    assert "usage" not in last


async def test_a_client_that_waits_gets_comments(engine: MockEngine) -> None:
    seen = asyncio.Event()

    async def slowly(write: Writer) -> None:
        await write(chunk({"content": "Slow"}))
        await seen.wait()
        await write(answer(chunk({"content": "ly."})))

    engine.will(slowly)
    body = {**BODY, "stream": True, "tools": [WEATHER]}
    async with (
        running_gateway(engine, heartbeat=0.05) as gateway,
        gateway.client.post(gateway.url + PATH, json=body) as answered,
    ):
        raw = await answered.content.readuntil(b"\n: still here")
        seen.set()
        raw += await answered.content.read()
    assert joined(chunks_of(raw))["content"] == "Slowly."


async def test_an_error_of_the_engine_is_one_of_openais(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for streams in (False, True):
        engine.will(Refusal(400, {"error": {"message": "No."}}))
        status, failed = await gateway.post({**BODY, "tools": [WEATHER], "stream": streams}, path=PATH)
        assert (status, "No." in failed["error"]["message"]) == (400, True)
        assert failed["error"].keys() == {"message", "type", "param", "code"}


async def test_a_wrong_field_is_named(gateway: GatewayUnderTest) -> None:
    status, failed = await gateway.post({**BODY, "tools": [WEATHER], "temperature": "hot"}, path=PATH)
    assert (status, failed["error"]["param"], failed["error"]["code"]) == (400, "temperature", "invalid_type")
    status, failed = await gateway.post({**BODY, "tools": [{"type": "function", "function": {}}]}, path=PATH)
    assert (status, failed["error"]["param"]) == (400, "tools[0].function.name")
    file = {"role": "user", "content": [{"type": "file", "file": {"file_data": "no base64!"}}]}
    status, failed = await gateway.post({**BODY, "tools": [WEATHER], "messages": [USER, file]}, path=PATH)
    assert (status, failed["error"]["param"]) == (400, "messages[1].content[0].file.file_data")
    assert "`messages[1].content[0].file.file_data`" in failed["error"]["message"]


async def test_the_fields_of_an_engine_reach_it() -> None:
    fields = {"top_k": 40, "min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}, "cache_prompt": None}
    async with standing_before("llamacpp", text("Hi")) as (gateway, engine):
        engine.objects_to = lambda body: None
        await whole(gateway, tools=[WEATHER], **fields)
        sent = engine.last
        assert (sent["top_k"], sent["min_p"], sent["chat_template_kwargs"]) == (40, 0.1, {"enable_thinking": False})
        assert not {"extras", "engine_fields", "cache_prompt"} & sent.keys()
        async with gateway.client.get(f"{gateway.url}/inspector/requests/1") as shown:
            asks = msgspec.json.decode(await shown.read())["asks"]
        assert (asks[0]["chat"]["top_k"], "extras" in asks[0]["chat"]) == (40, False)


async def test_a_client_of_the_responses_api_cannot_send_fields_to_the_engine(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    await gateway.create("Hi", engine_fields={"top_k": 40})
    assert "top_k" not in engine.last
    assert "field engine_fields is unknown" in gateway.notice


async def test_nothing_is_stored(gateway: GatewayUnderTest) -> None:
    choice = await gateway.post({**BODY, "tools": [WEATHER], "store": True}, path=PATH)
    id = choice[1]["id"].removeprefix("chatcmpl-")
    assert "store has no effect" in gateway.notice
    assert (await gateway.get(f"/v1/responses/resp_{id}"))[0] == 404


async def test_what_is_left_out_is_in_the_notice(gateway: GatewayUnderTest) -> None:
    await whole(gateway, tools=[WEATHER], messages=[USER | {"name": "ada"}])
    assert NAMES in gateway.notice


@pytest.mark.parametrize("fields", [{"stream": True}, {"stream": True, "tools": [WEATHER]}], ids=["plain", "with tools"])
async def test_a_deployment_is_the_model_of_a_request_that_names_none(engine: MockEngine, fields: dict[str, Any]) -> None:
    engine.lists("first", "second")
    path = "/openai/deployments/second/chat/completions"
    async with (
        running_gateway(engine) as gateway,
        gateway.client.post(gateway.url + path, json={"messages": [USER], **fields}) as answered,
    ):
        assert joined(chunks_of(await answered.read()))["content"] == "Hello world"
    assert engine.last["model"] == "second"


class Place(pydantic.BaseModel):
    city: str


async def test_the_sdk_reads_all_of_it(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    messages: Any = [{"role": "user", "content": "Where?"}]
    tools: Any = [openai.pydantic_function_tool(Place, name="get_weather")]
    engine.will(text(WRITTEN), text(PARIS), Refusal(400, {"error": {"message": "No."}}))
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="any", max_retries=0) as sdk:
        chat = sdk.chat.completions
        async with chat.stream(model="mock", messages=messages, tools=tools) as stream:
            completion = await stream.get_final_completion()
        (made,) = completion.choices[0].message.tool_calls or []
        assert (made.function.name, made.function.parsed_arguments) == ("get_weather", Place(city="Paris"))
        parsed = await chat.parse(model="mock", messages=messages, response_format=Place)
        assert parsed.choices[0].message.parsed == Place(city="Paris")
        with pytest.raises(openai.BadRequestError, match=r"No\."):
            await chat.create(model="mock", messages=messages, tools=tools)


# ---- no more than what is asked for ----------------------------------------------------------------------------------


class StandIn(EngineProcess):
    """The process of the embedded SmolLM2, whose engine is a mock."""

    def __init__(self, url: str) -> None:
        super().__init__("smollm2", ModelOptions(Path()))
        self._url = url

    @property
    def url(self) -> str:
        return self._url


@asynccontextmanager
async def small_model(**settings: Any) -> AsyncIterator[tuple[GatewayUnderTest, MockEngine]]:
    props = {"/props": {"default_generation_settings": {"n_ctx": 8192}}}
    mock = MockEngine(own_fields=OWN_FIELDS["llamacpp"], paths=props)
    mock.lists("smollm2")
    async with started(mock), running_gateway(embedded=StandIn(mock.url), help="full", **settings) as gateway:
        yield gateway, mock


async def test_a_small_model_gets_neither_help_nor_a_sampling_of_its_own() -> None:
    async with small_model() as (gateway, engine):
        engine.will(text(PARIS), text("Hi"))
        await whole(gateway, model="smollm2", response_format={"type": "json_object"})
        assert not {"temperature", "top_p", "max_completion_tokens", "max_tokens"} & engine.last.keys()
        await whole(gateway, model="smollm2", tools=[WEATHER])
        assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["get_weather"]
        assert not {"response_format", "grammar", "temperature"} & engine.last.keys()


async def test_a_setting_gives_it_both() -> None:
    async with small_model(chat_help=True) as (gateway, engine):
        engine.will(text(f'{{"name": "get_weather", "arguments": {PARIS}}}'))
        message = (await whole(gateway, model="smollm2", tools=[WEATHER]))["message"]
        assert called(message) == [("get_weather", {"city": "Paris"})]
        assert {"response_format", "temperature"} <= engine.last.keys()


# ---- what is passed on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"top_k": 40},
        {"n": 2, "tools": [WEATHER]},
        {"logit_bias": {"1": 1}, "response_format": SCHEMA},
        {"messages": [USER, {"role": "assistant", "content": "It is"}], "tools": [WEATHER]},
    ],
    ids=["plain", "fields of the engine", "several answers", "a bias", "a prefilled answer"],
)
async def test_what_is_passed_on_is_so_byte_for_byte(gateway: GatewayUnderTest, engine: MockEngine, fields: Any) -> None:
    engine.objects_to = lambda body: None
    engine.will(text("one", "two"))
    body = {"stream": True, **BODY, **fields}
    async with gateway.client.post(gateway.url + PATH, json=body) as answered:
        assert await answered.read() == text("one", "two")
        notice = answered.headers.get("antiphon-notice", "")
    assert engine.last == body
    helped = "tools" in fields or "response_format" in fields
    assert notice.startswith("the answer was passed through, and not checked here") == helped


PASSING_KEY = {"keys": {"ada": ("any",)}, "chat_pass_keys": ("ada",)}


@pytest.mark.parametrize(
    "settings", [{"chat": "pass"}, {"chat_pass_models": ("mock",)}, PASSING_KEY], ids=["all", "a model", "a key"]
)
async def test_the_settings_pass_all_on(engine: MockEngine, settings: dict[str, Any]) -> None:
    engine.will(text(WRITTEN))
    body = {**BODY, "stream": True, "tools": [WEATHER], "tool_choice": "required", "top_k": 1}
    engine.objects_to = lambda body: None
    async with (
        running_gateway(engine, **settings) as gateway,
        gateway.client.post(gateway.url + PATH, json=body, headers={"Authorization": "Bearer any"}) as answered,
    ):
        assert await answered.read() == text(WRITTEN)
        assert "antiphon-notice" not in answered.headers
        assert answered.headers["antiphon-way"] == "pass"
    assert engine.last == body


def test_a_program_may_have_its_own_protocol_there() -> None:
    class Own(ChatProtocol):
        name = "own"

    own = Own()
    assert make_protocols(Settings(), [own])[-1] is own
    assert [type(each) for each in make_protocols(Settings(), [])].count(ChatProtocol) == 1
    ProtocolPaths(make_protocols(Settings(), [own]))


async def test_another_model_is_not_passed_on(engine: MockEngine) -> None:
    engine.will(text(WRITTEN))
    async with running_gateway(engine, chat_pass_models=("other",)) as gateway:
        assert called((await whole(gateway, tools=[WEATHER]))["message"])


@pytest.mark.parametrize("settings", [{"chat": "reliable"}, {"chat": "pass"}], ids=["reliable", "pass"])
@pytest.mark.parametrize("fields", [{}, {"tools": [WEATHER]}], ids=["plain", "with tools"])
async def test_each_way_counts_as_one_request(engine: MockEngine, settings: dict[str, Any], fields: dict[str, Any]) -> None:
    async with (
        running_gateway(engine, key_requests_per_minute=5, **settings) as gateway,
        gateway.client.post(gateway.url + PATH, json={**BODY, "stream": True, **fields}) as answered,
    ):
        await answered.read()
        assert answered.headers["x-ratelimit-remaining-requests"] == "4"


# ---- the way ---------------------------------------------------------------------------------------------------------

PREFILLED = [USER, {"role": "assistant", "content": "It is"}]
# A request → the way it goes, and the status of the answer.
WAYS: dict[str, tuple[Any, str, int]] = {
    "plain": (BODY, "pass", 200),
    "tools": ({**BODY, "tools": [WEATHER]}, "reliable", 200),
    "tools, and what only an engine can do": ({**BODY, "messages": PREFILLED, "tools": [WEATHER]}, "pass", 200),
    "what the engine refuses": ({**BODY, "temperature": "hot", "messages": []}, "pass", 400),
    "a wrong field": ({**BODY, "tools": [WEATHER], "temperature": "hot"}, "reliable", 400),
    "no JSON": (b"{", "reliable", 400),
}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", WAYS)
async def test_every_answer_says_which_way_its_request_went(
    gateway: GatewayUnderTest, engine: MockEngine, case: str, streams: bool
) -> None:
    body, way, status = WAYS[case]
    data = body if isinstance(body, bytes) else msgspec.json.encode({**body, "stream": streams})
    async with gateway.client.post(gateway.url + PATH, data=data) as answered:
        assert (answered.status, answered.headers["antiphon-way"]) == (status, way), await answered.text()


@pytest.mark.parametrize(("fields", "way"), [({}, "pass"), ({"tools": [WEATHER]}, "reliable")])
async def test_so_does_the_error_where_no_engine_answers(fields: Any, way: str) -> None:
    async with running_gateway(f"http://127.0.0.1:{free_port()}", retries=0) as gateway:
        status, _ = await gateway.post({**BODY, **fields}, path=PATH)
    assert (status, gateway.headers["antiphon-way"]) == (503, way)


async def test_other_routes_have_one_way(gateway: GatewayUnderTest) -> None:
    await gateway.create("Hi")
    assert "antiphon-way" not in gateway.headers
    await gateway.post({"model": "mock", "input": "Hi"}, path="/v1/embeddings")
    assert gateway.headers["antiphon-way"] == "pass"
