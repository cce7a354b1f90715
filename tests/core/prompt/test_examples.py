"""The worked examples in front of a small model's conversation."""

import json
import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec.structs import replace
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.easy_tools import CLAUDE
from support.engine import objection
from support.items import user

from antiphon.core.events.deltas import TextDelta
from antiphon.core.hosted.file_search import FileSearch
from antiphon.core.hosted.search_results import FileResult, FileSearchData, results_to_text
from antiphon.core.hosted.web_search import WebSearch
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import LLAMACPP, PLAIN
from antiphon.core.knowledge.help import FULL_HELP, NO_HELP, Help
from antiphon.core.prompt.convert import ChatInputs, Conversion, ToolInputs, request_to_chat
from antiphon.core.prompt.examples import LEAST_WINDOW, ExampleTurns
from antiphon.core.prompt.truncation import tokens_by_length
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.core.toolbox.examples import AGENT, FUNCTIONS, SEARCHES, Example

Item = dict[str, Any]
CODEX = [EXEC_COMMAND, APPLY_PATCH]
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
SEARCH, WEB = {"type": "file_search", "vector_store_ids": ["vs_1"]}, {"type": "web_search"}
HOSTED: Any = {"file_search": FileSearch().define, "web_search": WebSearch().define}
SETS = [AGENT, FUNCTIONS, SEARCHES]
SET_NAMES = ["agent", "functions", "searches"]


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
    known = ToolInputs({**DEFINITIONS, **HOSTED})
    return request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m", help=help, window=window, tools=known))


def messages(conversion: Conversion) -> list[Item]:
    shown: list[Item] = msgspec.json.decode(msgspec.json.encode(conversion.chat.messages))
    return shown


def asked(conversion: Conversion) -> list[str]:
    return [str(message["content"]) for message in messages(conversion) if message["role"] == "user"]


@pytest.mark.parametrize(
    ("tools", "examples"),
    [
        (CODEX, AGENT),
        ([TOOL], FUNCTIONS),
        ([SEARCH], SEARCHES),
        ([WEB], SEARCHES),
        ([SEARCH, WEB], SEARCHES),
        ([SEARCH, TOOL], FUNCTIONS),
        ([*CODEX, WEB], AGENT),
        (CLAUDE, AGENT),
        ([*CLAUDE, WEB], AGENT),
        (CLAUDE[1:], FUNCTIONS),
    ],
    ids=[
        *("agent", "functions", "files", "web", "files and web", "files and a function", "agent and web"),
        *("claude", "claude and web", "claude without Bash"),
    ],
)
def test_the_examples_fit_the_tools_and_come_before_what_the_user_says(tools: list[Any], examples: tuple[Example, ...]) -> None:
    conversion = converted([user("Hi")], tools, instructions="Be brief.")
    assert messages(conversion)[0] == {"role": "system", "content": "Be brief."}
    assert asked(conversion) == [*(example.asks for example in examples), "Hi"]
    body = msgspec.json.decode(msgspec.json.encode(conversion.chat))
    assert objection(body, own_fields={**LLAMACPP.extra, **LLAMACPP.constrained_extra}) is None


@pytest.mark.parametrize("tools", [CODEX, CLAUDE], ids=["codex", "claude"])
def test_the_calls_of_the_examples_for_agents_follow_the_schemas_of_the_functions(tools: list[Any]) -> None:
    functions = {tool.function.name: tool.function.parameters for tool in converted([user("Hi")], tools).chat.tools or ()}
    for example in AGENT:
        for name, arguments, _ in (call for step in example.steps for call in step.calls):
            jsonschema_rs.validate(functions[name] or {}, arguments)


@pytest.mark.parametrize(("tool", "examples"), [(TOOL, FUNCTIONS), (SEARCH, SEARCHES)], ids=["function", "search"])
@pytest.mark.parametrize("parallel", [True, False])
def test_each_example_ends_with_an_answer_in_words_in_the_form_that_it_has_to_have(
    parallel: bool, tool: Item, examples: tuple[Example, ...]
) -> None:
    conversion = converted([user("Hi")], [tool], parallel_tool_calls=parallel)
    finder, written = (
        conversion.finder(),
        [str(each["content"]) for each in messages(conversion) if each["role"] == "assistant"],
    )
    said = [example.says for example in examples]
    assert finder is not None
    assert [text.startswith("[") for text in written if text] == [parallel] * len(said)
    deltas = [delta for text in written if text for delta in (*finder.receive(text), *finder.release())]
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == said


@pytest.mark.parametrize(
    ("tools", "name"),
    [([SEARCH], "file_search"), ([WEB], "web_search"), ([SEARCH, WEB], "file_search"), ([WEB, SEARCH], "web_search")],
    ids=["files", "web", "files first", "web first"],
)
def test_the_examples_of_searches_call_the_first_one_that_is_offered(tools: list[Any], name: str) -> None:
    conversion = converted([user("Hi")], tools)
    functions = {tool.function.name: tool.function.parameters for tool in conversion.chat.tools or ()}
    made = [call["function"] for message in messages(conversion) for call in message.get("tool_calls") or ()]
    assert [call["name"] for call in made] == [name] * 3
    for call in made:
        jsonschema_rs.validate(functions[name] or {}, json.loads(call["arguments"]))
        assert "lighthouse" in call["arguments"]


def test_what_a_search_of_an_example_finds_looks_as_it_does_in_a_conversation() -> None:
    results = [result for example in SEARCHES for step in example.steps for *_, result in step.calls]
    for result in results:
        passages = [passage.split("\n", 1) for passage in result.split("\n\n")]
        number = int(passages[0][0].split("]")[0].removeprefix("["))
        names = [heading.split("] ")[1] for heading, _ in passages]
        found = [FileResult("", name, text) for name, (_, text) in zip(names, passages, strict=True)]
        assert results_to_text(FileSearchData(found), number).startswith(f"{result}\n\n")


def test_an_example_of_a_search_cites_a_passage_that_has_the_answer_or_says_that_none_has_it() -> None:
    """By the mark at its end, in the form that citations have."""
    cited = []
    for example in SEARCHES:
        shown = "\n\n".join(result for step in example.steps for *_, result in step.calls)
        numbers = re.findall(r"^\[(\d+)\]", shown, re.MULTILINE)
        marked = re.search(r"\. \[(\d+)\]\Z", example.says)
        assert marked is None or marked[1] in numbers
        cited.append(marked is not None)
    assert True in cited
    assert False in [is_cited for is_cited, example in zip(cited, SEARCHES, strict=True) if example.steps]


@pytest.mark.parametrize("examples", SETS, ids=SET_NAMES)
def test_the_examples_are_short(examples: tuple[Example, ...]) -> None:
    """They took about 375, 340 and 435 tokens of Qwen2.5, whose template adds about 13 to each message."""
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


@pytest.mark.parametrize("tools", [CODEX, CLAUDE, [TOOL], [SEARCH]], ids=["codex", "claude", *SET_NAMES[1:]])
def test_what_precedes_a_result_stays_as_it_is_when_the_window_fills_up(tools: list[Any]) -> None:
    items = [user("Read it.")]
    before = converted(items, tools, window=16_384)
    for part in range(10):
        items += read(part)
        after = converted(items, tools, window=16_384)
        assert messages(after)[: len(messages(before))] == messages(before)
        assert (after.chat.tools, after.chat.response_format) == (before.chat.tools, before.chat.response_format)
        before = after
