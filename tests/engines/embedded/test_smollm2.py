"""The default model, from an empty cache to answers. The structure of the answers is asserted, never their wording."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from support.commands import ANTIPHON, environment
from support.streams import check_stream, parse

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import find_weights, template_for

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(600)]

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="session")
def url(model_cache: Path) -> Iterator[str]:
    """The URL of a running gateway that has answered its first request."""
    command = [*ANTIPHON, "serve", "--model", "smollm2", "--port", "0"]
    process = subprocess.Popen(
        command, env=environment(model_cache), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().removeprefix("Antiphon is ready at ").removesuffix("/v1\n")
        assert stream(url, input="Say hi.", max_output_tokens=8)["usage"]["output_tokens"] >= 1
        yield url
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def stream(url: str, **body: Any) -> dict[str, Any]:
    """Streams over plain HTTP, and checks every invariant of the stream."""
    request = urllib.request.Request(
        f"{url}/v1/responses", json.dumps({**body, "stream": True}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return check_stream(parse(answer.read()))


def test_only_the_model_is_cached(model_cache: Path) -> None:
    assert {path.name for path in (model_cache / "models").iterdir()} == {"smollm2.gguf", "smollm2.lock"}


async def test_the_model_is_the_expected_one(model_cache: Path) -> None:
    found = await find_weights("smollm2", model_cache / "models")
    assert found.header.context == 8192
    assert template_for(read_header(found.path)) is not None, "its own template has no tools"


def test_a_streamed_answer_over_plain_http(url: str) -> None:
    response = stream(url, model="smollm2", input="Name three colours.", max_output_tokens=32)
    assert response["model"] == "smollm2"
    assert (response["temperature"], response["top_p"], response["max_output_tokens"]) == (0.2, 0.9, 32)
    (message,) = response["output"]
    assert message["content"][0]["text"]


@pytest.mark.slow
def test_an_answer_of_any_length_ends_and_says_how_it_was_sampled(url: str) -> None:
    response = stream(url, input="Name a colour.")
    assert (response["temperature"], response["top_p"], response["max_output_tokens"]) == (0.2, 0.9, 1024)
    assert response["usage"]["output_tokens"] <= 1024


def test_a_conversation_with_a_tool_through_the_sdk(url: str) -> None:
    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        known, *_ = client.models.list()
        assert known.id == "smollm2"
        history: list[Any] = [
            {"role": "user", "content": "What is the weather in Paris?"},
            {"type": "function_call", "call_id": "1", "name": "get_weather", "arguments": '{"city": "Paris"}'},
            {"type": "function_call_output", "call_id": "1", "output": "sunny, 22 degrees"},
        ]
        with client.responses.stream(
            model="smollm2", input=history, tools=[TOOL], max_output_tokens=32, temperature=0
        ) as events:
            received = list(events)
    assert received[0].type == "response.created"
    last = received[-1]
    assert last.type in ("response.completed", "response.incomplete")
    final = last.response
    assert final.output
    assert final.usage is not None
    assert final.usage.input_tokens > 100, "the tool was shown"
    history += [{"role": "assistant", "content": final.output_text or "…"}, {"role": "user", "content": "Thanks."}]
    # The first answer may have shown that the model garbles its calls. From then on the prompt has one function more.
    stream(url, input=history, tools=[TOOL], max_output_tokens=4)
    history += [{"role": "assistant", "content": "…"}, {"role": "user", "content": "Thanks again."}]
    longer = stream(url, input=history, tools=[TOOL], max_output_tokens=4)
    assert longer["usage"]["input_tokens_details"]["cached_tokens"] > 100, "a longer history only appends"
