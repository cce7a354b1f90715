"""The worked examples in front of a small model's conversation."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec.structs import replace
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.engine import objection
from support.items import user

from antiphon.core.events.deltas import TextDelta
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import LLAMACPP, PLAIN
from antiphon.core.knowledge.help import FULL_HELP, NO_HELP, Help
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.prompt.examples import LEAST_WINDOW, ExampleTurns
from antiphon.core.prompt.truncation import tokens_by_length
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.examples import AGENT, FUNCTIONS, Example

Item = dict[str, Any]
CODEX = [EXEC_COMMAND, APPLY_PATCH]
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def converted(
    items: list[Item],
    tools: list[Any],
    *,
    help: Help = FULL_HELP,
    dialect: Dialect = LLAMACPP,
    window: int | None = None,
    **fields: Any,
) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": items, "tools": tools, **fields}))
    return request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m", help=help, window=window))


def messages(conversion: Conversion) -> list[Item]:
    shown: list[Item] = msgspec.json.decode(msgspec.json.encode(conversion.chat.messages))
    return shown


def asked(conversion: Conversion) -> list[str]:
    return [str(message["content"]) for message in messages(conversion) if message["role"] == "user"]


@pytest.mark.parametrize(("tools", "examples"), [(CODEX, AGENT), ([TOOL], FUNCTIONS)], ids=["agent", "functions"])
def test_the_examples_fit_the_tools_and_come_before_what_the_user_says(tools: list[Any], examples: tuple[Example, ...]) -> None:
    conversion = converted([user("Hi")], tools, instructions="Be brief.")
    assert messages(conversion)[0] == {"role": "system", "content": "Be brief."}
    assert asked(conversion) == [*(example.asks for example in examples), "Hi"]
    body = msgspec.json.decode(msgspec.json.encode(conversion.chat))
    assert objection(body, own_fields={**LLAMACPP.extra, **LLAMACPP.constrained_extra}) is None


def test_the_calls_of_the_examples_for_agents_follow_the_schemas_of_the_functions() -> None:
    functions = {tool.function.name: tool.function.parameters for tool in converted([user("Hi")], CODEX).chat.tools or ()}
    for example in AGENT:
        for name, arguments, _ in (call for step in example.steps for call in step.calls):
            jsonschema_rs.validate(functions[name] or {}, arguments)


@pytest.mark.parametrize("parallel", [True, False])
def test_each_example_ends_with_an_answer_in_words_in_the_form_that_it_has_to_have(parallel: bool) -> None:
    conversion = converted([user("Hi")], [TOOL], parallel_tool_calls=parallel)
    finder, written = (
        conversion.finder(),
        [str(each["content"]) for each in messages(conversion) if each["role"] == "assistant"],
    )
    said = [example.says for example in FUNCTIONS]
    assert finder is not None
    assert [text.startswith("[") for text in written if text] == [parallel] * len(said)
    deltas = [delta for text in written if text for delta in (*finder.receive(text), *finder.release())]
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == said


@pytest.mark.parametrize("examples", [AGENT, FUNCTIONS], ids=["agent", "functions"])
def test_the_examples_are_short(examples: tuple[Example, ...]) -> None:
    """They took about 375 and 340 tokens of Qwen2.5, whose template adds about 13 to each message."""
    shown = list(ExampleTurns(examples, "say").messages())
    written = [call.function for message in shown for call in message.tool_calls or ()]
    texts = [str(message.content) for message in shown] + [call.name + call.arguments for call in written]
    assert sum(map(tokens_by_length, texts)) + 13 * len(shown) <= 400


@pytest.mark.parametrize(
    "options",
    [
        {"help": NO_HELP},
        {"help": replace(FULL_HELP, constrains_answers=False)},
        {"window": LEAST_WINDOW - 1},
        {"tool_choice": "none"},
        {"tool_choice": "required"},
        {"text": {"format": {"type": "json_object"}}},
        {"dialect": PLAIN},
    ],
    ids=["no help", "not constrained", "a small window", "no tools", "a required call", "a format", "an engine"],
)
def test_there_are_none_where_the_answer_is_not_a_call_or_words(options: Any) -> None:
    assert asked(converted([user("Hi")], [TOOL], **options)) == ["Hi"]


def read(part: int) -> list[Item]:
    """About 3,000 tokens."""
    call = {"name": "exec_command", "arguments": json.dumps({"cmd": f"cat part_{part}"})}
    output = f"line of part {part}\n" * 700
    return [
        {"type": "function_call", "call_id": f"c{part}", **call},
        {"type": "function_call_output", "call_id": f"c{part}", "output": output},
    ]


@pytest.mark.parametrize("tools", [CODEX, [TOOL]], ids=["agent", "functions"])
def test_what_precedes_a_result_stays_as_it_is_when_the_window_fills_up(tools: list[Any]) -> None:
    items = [user("Read it.")]
    before = converted(items, tools, window=16_384)
    for part in range(10):
        items += read(part)
        after = converted(items, tools, window=16_384)
        assert messages(after)[: len(messages(before))] == messages(before)
        assert (after.chat.tools, after.chat.response_format) == (before.chat.tools, before.chat.response_format)
        before = after
