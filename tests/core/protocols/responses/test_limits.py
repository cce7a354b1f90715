"""What is larger than a limit is a 400 that names the field, the limit and the value; what is not is read as ever."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.protocols.responses.fields import (
    DEEPEST_GROUP,
    DEFAULT_LIMITS,
    LONGEST_PATTERN,
    MOST_LITERALS,
    RequestLimits,
)
from antiphon.core.protocols.responses.read import body_to_request, body_to_struct
from antiphon.errors import InvalidRequest
from antiphon.wire.responses import CreateResponse

SMALL = RequestLimits(
    input_items=3, tools=3, nesting=16, schema_bytes=60, grammar_bytes=40, image_bytes=30, name_length=64
)  # fmt: skip


def read(limits: RequestLimits = SMALL, **fields: Any) -> CreateResponse:
    return body_to_request(msgspec.json.encode({"input": "Hi", **fields}), limits)[0]


def rejected(limits: RequestLimits = SMALL, **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        read(limits, **fields)
    return raised.value


def function(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **members}


def custom(definition: str, syntax: str = "lark") -> dict[str, Any]:
    return {"type": "custom", "name": "t", "format": {"type": "grammar", "syntax": syntax, "definition": definition}}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def image(size: int) -> dict[str, Any]:
    return {"type": "input_image", "image_url": "data:image/png;base64," + "A" * (size * 4 // 3)}


Fields = dict[str, Any]
SCHEMA = {"type": "object", "description": "x" * 100}
ELSEWHERE = {"type": "input_image", "image_url": "https://" + "x" * 99}
USER = {"role": "user", "content": "q"}

# The fields of a request, the path that is wrong, and the words about it.
TOO_LARGE: dict[str, tuple[Fields, str, str]] = {
    "items": ({"input": [USER] * 4}, "input", "it has 4 items, and at most 3 items are allowed (`max_input_items`)"),
    "tools": ({"tools": [function(f"f{at}") for at in range(4)]}, "tools", "it has 4 tools, and at most 3 tools are allowed"),
    "tools in a namespace": (
        {"tools": [{"type": "namespace", "name": "n", "tools": [function(f"f{at}") for at in range(3)]}]},
        "tools",
        "it has 4 tools",
    ),
    "tools in items": (
        {"tools": [function()], "input": [{"type": "additional_tools", "tools": [function("g")] * 3}, USER]},
        "tools",
        "it has 4 tools",
    ),
    "the schema of a tool": (
        {"tools": [function(parameters=SCHEMA)]},
        "tools[0].parameters",
        "it has 134 bytes, and at most 60 bytes are allowed (`max_schema_bytes`)",
    ),
    "the schema of a tool as chat completions have it": (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
        "tools[0].function.parameters",
        "134 bytes",
    ),
    "the schema of a tool in an item": (
        {"input": [{"type": "tool_search_output", "call_id": "c", "tools": [function(parameters=SCHEMA)]}, USER]},
        "input[0].tools[0].parameters",
        "134 bytes",
    ),
    "the schema of an answer": (
        {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
        "text.format.schema",
        "134 bytes",
    ),
    "a grammar": ({"tools": [custom("x" * 41)]}, "tools[0].format.definition", "41 bytes, and at most 40 bytes are allowed"),
    "an image": (
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "?"}, image(33)]}]},
        "input[0].content[1].image_url",
        "it has 33 bytes, and at most 30 bytes are allowed (`max_image_bytes`)",
    ),
    "an image in an output": (
        {"input": [USER, {"type": "function_call_output", "call_id": "c", "output": [image(33)]}]},
        "input[1].output[0].image_url",
        "33 bytes",
    ),
    "the name of a tool": ({"tools": [function("f" * 65)]}, "tools[0].name", "it has 65 characters"),
    "the name of a namespace": ({"tools": [{"type": "namespace", "name": "n" * 65, "tools": []}]}, "tools[0].name", "65"),
    "the name of a call": (
        {"input": [USER, {"type": "function_call", "call_id": "c", "name": "f" * 65, "arguments": "{}"}]},
        "input[1].name",
        "65 characters",
    ),
    "the name of a model": ({"model": "m" * 65}, "model", "at most 64 characters are allowed (`max_name_length`)"),
    "nesting": ({"client_metadata": {"a": nested(15)}}, "client_metadata", "At most 16 levels are allowed (`max_nesting`)"),
    "nesting of an item": ({"input": [USER, {"type": "x", "a": nested(14)}]}, "input[1]", "At most 16 levels"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "words"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_is_too_large_is_named_with_the_limit_and_the_value(fields: Fields, param: str, words: str) -> None:
    error = rejected(**fields)
    assert (error.param, error.status) == (param, 400)
    assert words in error.message


AT_THE_LIMIT: dict[str, Fields] = {
    "items": {"input": [USER] * 3},
    "tools": {"tools": [function(f"f{at}") for at in range(3)]},
    "a grammar": {"tools": [custom("x" * 40)]},
    "an image": {"input": [{"role": "user", "content": [image(30)]}]},
    "an image that is not in the request": {"input": [{"role": "user", "content": [ELSEWHERE]}]},
    "the name of a tool": {"tools": [function("f" * 64)]},
    "nesting": {"client_metadata": {"a": nested(14)}},
    "nesting of an item": {"input": [USER, {"type": "x", "a": nested(13)}]},
}  # fmt: skip


@pytest.mark.parametrize("fields", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
def test_what_is_just_not_too_large_is_read(fields: Fields) -> None:
    assert read(**fields).input


def test_the_default_limits_leave_room_for_a_long_conversation_with_many_tools() -> None:
    tools = [function(f"f{at}", parameters={"type": "object", "description": "x" * 2000}) for at in range(500)]
    assert len(read(DEFAULT_LIMITS, input=[USER] * 10_000, tools=tools).tools or ()) == 500


# ---- nesting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [200, 990, 5_000, 300_000])
def test_json_that_is_nested_too_deeply_is_refused_and_never_a_recursion_error(levels: int) -> None:
    body = b'{"input": ' + b"[" * levels + b"]" * levels + b"}"
    for read_body in (body_to_request, lambda body: body_to_struct(body, CreateResponse)):
        with pytest.raises(InvalidRequest):
            read_body(body)


def test_a_schema_as_deep_as_the_largest_limit_goes_through_every_walk() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(75):
        schema = {"type": "object", "properties": {"a": schema}}
    body = {"input": "Hi", "tools": [function(parameters=schema, strict=True)]}
    request, _ = body_to_request(msgspec.json.encode(body), RequestLimits(nesting=160))
    for dialect in (PLAIN, replace(PLAIN, constraint_member="grammar")):
        assert request_to_chat(ChatInputs(request, [{"role": "user", "content": "Hi"}], dialect, "m")).chat.tools


# ---- grammars ----------------------------------------------------------------------------------------------------------

WIDE: dict[str, tuple[Callable[[int], str], int]] = {
    "literals": (lambda count: "start: " + " | ".join(f'"{at}"' for at in range(count)), MOST_LITERALS),
    "patterns": (lambda count: "start: " + " | ".join(f"/{at}/" for at in range(count)), MOST_LITERALS),
    "groups inside one another": (lambda count: "start: " + "(" * count + '"a"' + ")" * count, DEEPEST_GROUP),
    "optional groups": (lambda count: "start: " + '["a" ' * count + "]" * count, DEEPEST_GROUP),
}


@pytest.mark.parametrize(("make", "most"), WIDE.values(), ids=WIDE)
def test_a_grammar_that_takes_too_long_to_compile_is_refused(make: Callable[[int], str], most: int) -> None:
    read(DEFAULT_LIMITS, tools=[custom(make(most))])
    error = rejected(DEFAULT_LIMITS, tools=[custom(make(most + 1))])
    assert error.param == "tools[0].format.definition"
    assert f"it has {most + 1} " in error.message


def test_brackets_and_quotes_in_strings_patterns_and_comments_do_not_count() -> None:
    lines = [
        'start: "((((((((((((((" /[(\\/(((((((((((((((]/ // ((((((((((((((((',
        "# [[[[[[[[[[[[[[[[[[[[[[",
        'A: "\\"((((((((((((("',
    ]
    assert read(DEFAULT_LIMITS, tools=[custom("\n".join(lines))]).tools


def test_a_pattern_that_is_too_long_is_refused() -> None:
    read(DEFAULT_LIMITS, tools=[custom("a" * LONGEST_PATTERN, "regex")])
    assert "8193 characters" in rejected(DEFAULT_LIMITS, tools=[custom("a" * (LONGEST_PATTERN + 1), "regex")]).message


@pytest.mark.parametrize(
    "written", ["secret.WORD", ".secret.WORD", "..common.WORD", "secret (A, B)", "python.NAME", "common.x.Y"]
)
def test_a_grammar_imports_nothing_but_common(written: str) -> None:
    error = rejected(DEFAULT_LIMITS, tools=[custom(f"start: WORD\n  %import {written}")])
    assert (error.param, error.code) == ("tools[0].format.definition", "invalid_grammar")
    assert f"`%import {written.partition(' ')[0]}` is not allowed" in error.message


@pytest.mark.parametrize("written", ["common.WORD", "common (WORD, INT)", "common.WORD -> NAME", "  common.WORD"])
def test_a_grammar_may_import_common(written: str) -> None:
    assert read(DEFAULT_LIMITS, tools=[custom(f'start: WORD "%import secret.A" // %import secret.A\n%import {written}')]).tools


def test_a_grammar_with_many_quotes_in_one_line_is_read_once() -> None:
    """Each of them may begin a string that is never closed."""
    assert read(DEFAULT_LIMITS, tools=[custom('"\\' * 30_000)]).tools
