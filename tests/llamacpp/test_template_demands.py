"""The demanding templates do demand it: llama.cpp rejects what breaks the demand, or does not show it."""

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.battery_templates import DEMANDING
from support.llamacpp import running_llamacpp
from support.parser_templates import WITH_PARSERS

Body = dict[str, Any]

USER: Body = {"role": "user", "content": "Hello."}
ANSWER: Body = {"role": "assistant", "content": "Hello!"}
FUNCTION: Body = {"name": "water_bed", "parameters": {"type": "object", "properties": {"bed": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
FORMAT: Body = {
    "type": "json_schema",
    "json_schema": {
        "name": "plant",
        "schema": {"type": "object", "properties": {"plant": {"enum": ["bean"]}}, "required": ["plant"]},
    },
}


def calls(*ids: str, **members: Any) -> Body:
    made = [{"id": id, "type": "function", "function": {"name": "water_bed", "arguments": '{"bed": "beans"}'}} for id in ids]
    return {"role": "assistant", "content": "", "tool_calls": made, **members}


def result(id: str) -> Body:
    return {"role": "tool", "tool_call_id": id, "content": "Done."}


ONE, TWO = "abcdefgh1", "abcdefgh2"
ROUND = [USER, calls(ONE), result(ONE)]

REJECTED: list[tuple[str, Body, str]] = [
    ("ids of nine letters", {"messages": [USER, calls("call_1"), result("call_1")]}, "length 9"),
    ("ids of nine letters", {"messages": [USER, calls("call_0001"), result("call_0001")]}, "length 9"),
    ("one call", {"messages": [USER, calls(ONE, TWO), result(ONE), result(TWO)]}, "single tool-calls"),
    ("alternation", {"messages": [*ROUND, USER]}, "must alternate"),
    ("alternation", {"messages": [ANSWER, USER]}, "must alternate"),
    ("bare alternation", {"messages": [USER, USER]}, "must alternate"),
    ("a user", {"messages": ROUND[1:]}, "No user query"),
    ("own efforts", {"messages": [USER], "reasoning_effort": "minimal"}, "should be no_think/low/high"),
    ("no empty message", {"messages": [USER, {**ANSWER, "content": ""}, USER]}, "must have a string"),
    ("like Mistral's", {"messages": [*ROUND, USER]}, "must alternate"),
    ("like Llama's", {"messages": [{"role": "system", "content": "Hello."}], "tools": TOOLS}, "no first user message"),
    ("like Llama's", {"messages": [USER, calls(ONE, TWO), result(ONE), result(TWO)]}, "single tool-calls"),
    ("like Qwen's", {"messages": [USER, ANSWER, {"role": "system", "content": "Hello."}]}, "at the beginning"),
]
# What is sent, and a word of it that the template leaves out.
HIDDEN: list[tuple[str, Body, str]] = [
    ("no tools", {"messages": [USER], "tools": TOOLS}, "water_bed"),
    ("no tools", {"messages": ROUND}, "beans"),
    ("thoughts never shown", {"messages": [USER, calls(ONE, reasoning_content="Dry."), result(ONE)]}, "Dry."),
    ("thoughts never shown", {"messages": [USER, calls(ONE, content="<think>Dry.</think>"), result(ONE)]}, "Dry."),
    ("thoughts in tags", {"messages": [USER, calls(ONE, reasoning_content="Dry."), result(ONE)]}, "Dry."),
    ("thoughts in the tool loop", {"messages": [USER, {**ANSWER, "reasoning_content": "Dry."}, USER]}, "Dry."),
    ("thoughts in the tool loop", {"messages": [USER, {**ANSWER, "content": "<think>Dry.</think>Hi."}, USER]}, "Dry."),
    ("text or calls", {"messages": [USER, calls(ONE, content="Now."), result(ONE)]}, "Now."),
    ("like gpt-oss's", {"messages": [USER, calls(ONE, content="Now."), result(ONE)]}, "Now."),
]
# What llama.cpp's own parsers make of a request: its status, and what must not be the answer.
PARSED: list[tuple[str, Body, int, str]] = [
    ("like DeepSeek's", {"response_format": FORMAT, "tools": TOOLS, "reasoning_effort": "none"}, 500, ""),
    ("like Kimi's", {"response_format": FORMAT}, 200, '"plant"'),
    ("like GigaChat's", {"response_format": FORMAT}, 200, '"plant"'),
    ("like gpt-oss's", {}, 500, ""),
    ("like Functionary's", {}, 500, ""),
    ("like Command R's", {}, 500, ""),
    ("like Command R's", {"reasoning_format": "none"}, 200, "error"),
]


def post(url: str, path: str, body: Body) -> tuple[int, str]:
    headers = {"Content-Type": "application/json", "Connection": "close"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, msgspec.json.encode(body), headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def prompt(answer: str) -> str:
    rendered: str = msgspec.json.decode(answer)["prompt"]
    return rendered


@pytest.mark.parametrize(("template", "body", "words"), REJECTED)
def test_what_breaks_a_demand_is_rejected(tiny_model: Path, template: str, body: Body, words: str) -> None:
    with running_llamacpp(tiny_model, template=DEMANDING[template].text) as url:
        status, answer = post(url, "/apply-template", body)
        no_demand, _ = post(url, "/apply-template", {"messages": [USER], "tools": TOOLS})
    assert status == 400
    assert words in answer
    assert no_demand == 200


@pytest.mark.parametrize(("template", "body", "word"), HIDDEN)
def test_what_a_template_does_not_show_is_not_in_the_prompt(tiny_model: Path, template: str, body: Body, word: str) -> None:
    text = (DEMANDING | WITH_PARSERS)[template].text
    with running_llamacpp(tiny_model, template=text) as url:
        status, answer = post(url, "/apply-template", body)
    assert status == 200
    assert "Hello." in prompt(answer)
    assert word not in prompt(answer)


@pytest.mark.parametrize(("template", "body", "status", "unlike"), PARSED)
def test_llamacpp_has_a_parser_of_its_own(tiny_model: Path, template: str, body: Body, status: int, unlike: str) -> None:
    """Random weights write it neither of themselves, nor because they have to."""
    request = {"messages": [USER], "max_completion_tokens": 64, "seed": 1, **body}
    with running_llamacpp(tiny_model, template=WITH_PARSERS[template].text) as url:
        found, answer = post(url, "/v1/chat/completions", request)
    assert found == status, answer
    assert not unlike or unlike not in answer
