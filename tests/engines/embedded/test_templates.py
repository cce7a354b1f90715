"""Our chat template, as llama.cpp itself renders it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded.gguf_header import GgufHeader, read_header
from antiphon.engines.embedded.weights import template_for

Message = dict[str, Any]
Ask = Callable[..., Awaitable[Any]]

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'The "weather" of a city',
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SYSTEM: Message = {"role": "system", "content": "Be brief."}
USER: Message = {"role": "user", "content": "Weather in Paris and Rome?"}


def call(id: str, arguments: str) -> Message:
    return {"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


CALLS: Message = {
    "role": "assistant",
    "content": "Let me see.",
    "reasoning_content": "a secret thought",
    "tool_calls": [call("1", '{"city": "Paris"}'), call("2", '{"city": "Rome"}')],
}
RESULTS: list[Message] = [
    {"role": "tool", "tool_call_id": "1", "content": "sun"},
    {"role": "tool", "tool_call_id": "2", "content": "rain"},
]
ANSWER: Message = {"role": "assistant", "content": "Sun and rain."}
HISTORY = [SYSTEM, USER, CALLS, *RESULTS, ANSWER, {"role": "user", "content": "And Bonn?"}]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with running_llamacpp(model, template=template_for(read_header(model))) as url:
        yield url


@pytest_asyncio.fixture
async def ask(url: str) -> AsyncIterator[Ask]:
    async with aiohttp.ClientSession() as client:

        async def post(path: str, **body: Any) -> Any:
            async with client.post(url + path, json=body) as answer:
                assert answer.status == 200, await answer.text()
                return await answer.json()

        yield post


async def rendered(ask: Ask, messages: list[Message], tools: list[Any] | None = None) -> str:
    prompt: str = (await ask("/apply-template", messages=messages, **({"tools": tools} if tools else {})))["prompt"]
    return prompt


async def test_without_tools_it_is_plain_chatml(ask: Ask) -> None:
    assert await rendered(ask, [USER]) == "<|im_start|>user\nWeather in Paris and Rome?<|im_end|>\n<|im_start|>assistant\n"
    assert (await rendered(ask, [SYSTEM, USER])).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")


@pytest.mark.parametrize("system", [[SYSTEM], []])
async def test_tools_are_shown_in_the_one_system_message(ask: Ask, system: list[Message]) -> None:
    prompt = await rendered(ask, [*system, USER], [TOOL, TOOL])
    head, _, rest = prompt.partition("<|im_end|>\n")
    assert head.startswith("<|im_start|>system\nBe brief.\n\n#" if system else "<|im_start|>system\n#")
    tools = head.partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()
    assert len(tools) == 2
    assert r'"description": "The \"weather\" of a city"' in tools[0]
    assert rest.startswith("<|im_start|>user\n")


async def test_calls_and_their_results_are_one_turn_each(ask: Ask) -> None:
    prompt = await rendered(ask, HISTORY, [TOOL])
    assert prompt.partition("Rome?<|im_end|>\n")[2] == (
        "<|im_start|>assistant\nLet me see.\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n"
        "<tool_response>\nsun\n</tool_response>\n<tool_response>\nrain\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nSun and rain.<|im_end|>\n"
        "<|im_start|>user\nAnd Bonn?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


async def test_a_longer_history_only_appends(ask: Ask) -> None:
    whole = await rendered(ask, HISTORY, [TOOL])
    # Each ends after the results of all calls, as every request does.
    for length in (2, 5, 7):
        assert whole.startswith(await rendered(ask, HISTORY[:length], [TOOL]))


async def test_a_call_without_text_starts_where_the_model_starts(ask: Ask) -> None:
    silent = {**CALLS, "content": ""}
    started = await rendered(ask, [USER], [TOOL])
    assert (await rendered(ask, [USER, silent, *RESULTS], [TOOL])).startswith(started + "<tool_call>\n")


async def test_llamacpp_parses_calls_in_our_format(ask: Ask) -> None:
    (end,) = (await ask("/tokenize", content="</tool_call>", parse_special=True))["tokens"]
    started = {"role": "assistant", "content": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'}
    answer = await ask("/v1/chat/completions", messages=[USER, started], tools=[TOOL], max_tokens=1, logit_bias=[[end, 1000]])
    (made,) = answer["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] == "get_weather"
    assert made["function"]["arguments"].replace(" ", "") == '{"city":"Paris"}'


@pytest.mark.parametrize(
    ("template", "tokens", "ours"),
    [
        ("<|im_start|>{{ messages }}", (), True),
        ("{{ messages }}", ("<|im_start|>",), True),
        (None, ("<|im_start|>",), True),
        ("<|im_start|>{{ tools }}", ("<|im_start|>",), False),
        ("{{ messages }}", ("[INST]",), False),
        (None, (), False),
    ],
)
def test_our_template_is_for_chatml_models_without_tools(template: str | None, tokens: tuple[str, ...], ours: bool) -> None:
    chosen = template_for(GgufHeader(chat_template=template, context=None, tokens=frozenset(tokens)))
    assert (chosen is not None) is ours
