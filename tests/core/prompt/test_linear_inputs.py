"""The work for a request grows with its size, whatever it is made of. Operations are counted."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.exchanges import make_environment
from support.items import assistant, call_output, developer, function_call, user
from support.operations import assert_linear, count_calls

from antiphon.core.checks.gbnf import MOST_CHARACTERS, schema_to_gbnf
from antiphon.core.checks.work import CheckOutcome
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Check
from antiphon.core.knowledge.dialects import BY_NAME, PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.errors import EngineError
from antiphon.sealing import Sealer

Item = dict[str, Any]
Make = Callable[[int], Any]

NO_LIMITS = RequestLimits(**{name: 10**9 for name in RequestLimits.__struct_fields__ if name != "nesting"})
# Templates that take the least.
STRICT_TEMPLATE = replace(PLAIN, alternates=True, shows_tools=False)
# Each with the help that its models get.
ENGINES = [(PLAIN, "off"), (STRICT_TEMPLATE, "off"), (BY_NAME["llamacpp"], "full")]


def each(count: int, *make: Callable[[int], Item]) -> list[Item]:
    return list(chain.from_iterable((one(at) for one in make) for at in range(count // len(make))))


def reasoning(at: int) -> Item:
    return {"type": "reasoning", "id": f"rs_{at}", "summary": [], "content": [{"type": "reasoning_text", "text": f"t{at}"}]}


def function(at: int, **members: Any) -> Item:
    return {"type": "function", "name": f"f{at}", "parameters": {"type": "object", "properties": {f"a{at}": {}}}, **members}


def custom(at: int) -> Item:
    return {"type": "custom", "name": f"c{at}", "format": {"type": "grammar", "syntax": "lark", "definition": f"start: A{at}"}}


def schema(size: int) -> Item:
    return {"type": "object", "properties": {f"a{at}": {"type": "string"} for at in range(size)}}


SEARCH = {"type": "tool_search"}


def searched(at: int) -> Item:
    return {
        "type": "tool_search_call",
        "id": f"tsc_{at}",
        "call_id": None,
        "arguments": {"query": f"f{at}"},
        "execution": "server",
    }


def found(*tools: Item) -> Item:
    return {"type": "tool_search_output", "call_id": None, "tools": list(tools), "execution": "server"}


FIELDS: dict[str, Make] = {
    "user messages": lambda n: {"input": each(n, lambda at: user(f"m{at}"))},
    "the same user message": lambda n: {"input": [user("m")] * n},
    "developer messages": lambda n: {"input": each(n, lambda at: user("q"), lambda at: developer(f"d{at}"))},
    "turns": lambda n: {"input": each(n, lambda at: user(f"m{at}"), lambda at: assistant(f"a{at}"))},
    "text parts": lambda n: {"input": [user([{"type": "input_text", "text": f"{at}"} for at in range(n)])]},
    "images": lambda n: {"input": [user([{"type": "input_image", "image_url": f"data:,{at}"} for at in range(n)])]},
    "thoughts": lambda n: {"input": [user("q"), *each(n, reasoning)]},
    "thoughts and calls": lambda n: {
        "input": each(n, reasoning, lambda at: function_call(f"{at}"), lambda at: call_output(f"{at}"))
    },
    "the same call": lambda n: {"input": each(n, lambda at: function_call(f"{at}"), lambda at: call_output(f"{at}"))},
    "calls without an output": lambda n: {"input": [user("q"), *each(n, lambda at: function_call(f"{at}"))]},
    "outputs in another order": lambda n: {
        "input": [
            user("q"),
            *each(n, lambda at: function_call(f"{at}")),
            *each(n, lambda at: call_output(f"{n - at - 1}")),
        ]
    },
    "user messages before outputs": lambda n: {
        "input": each(n, lambda at: function_call(f"{at}"), lambda at: user("m"), lambda at: call_output(f"{at}"))
    },
    "unknown items": lambda n: {"input": [user("q"), *each(n, lambda at: {"type": f"x{at}"})]},
    "references": lambda n: {
        "input": [
            *each(n, lambda at: user("q") | {"id": f"m{at}"}),
            *each(n, lambda at: {"type": "item_reference", "id": f"m{at}"}),
        ]
    },
    "unknown fields": lambda n: {"input": "Hi", **{f"x{at}": 1 for at in range(n)}},
    "functions": lambda n: {"input": "Hi", "tools": each(n, function)},
    "strict functions": lambda n: {"input": "Hi", "tools": each(n, lambda at: function(at, strict=True))},
    "the same function": lambda n: {"input": "Hi", "tools": [function(0)] * n},
    "custom tools": lambda n: {"input": "Hi", "tools": each(n, custom)},
    "hosted tools": lambda n: {"input": "Hi", "tools": each(n, lambda at: {"type": f"hosted_{at}"})},
    "namespaces": lambda n: {
        "input": "Hi",
        "tools": each(n, lambda at: {"type": "namespace", "name": f"n{at}", "tools": [function(at)]}),
    },
    "tools in items": lambda n: {
        "input": [user("q"), *each(n, lambda at: {"type": "additional_tools", "tools": [function(at)]})]
    },
    "a choice of tools": lambda n: {
        "input": "Hi",
        "tools": each(n, function),
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": each(n, lambda at: {"type": "function", "name": f"f{at}"}),
        },
    },
    "calls of functions in a namespace": lambda n: {
        "input": [user("q"), *each(n, lambda at: function_call(f"{at}", f"f{at}"), lambda at: call_output(f"{at}"))],
        "tools": [{"type": "namespace", "name": "n", "tools": each(n, function)}],
    },
    "deferred tools": lambda n: {
        "input": "Hi",
        "tools": [SEARCH, *each(n, lambda at: function(at, defer_loading=True, strict=True, description=f"About {at}"))],
    },
    "a choice of deferred tools": lambda n: {
        "input": "Hi",
        "tools": [SEARCH, *each(n, lambda at: function(at, defer_loading=True))],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": each(n, lambda at: {"type": "function", "name": f"f{at}"}),
        },
    },
    "searches that found something": lambda n: {
        "input": [user("q"), *each(n, searched, lambda at: found(function(at, defer_loading=True)))],
        "tools": [SEARCH, *each(n, lambda at: function(at, defer_loading=True))],
    },
    "searches that found nothing": lambda n: {
        "input": [user("q"), *each(n, searched, lambda at: found())],
        "tools": [SEARCH, *each(n, lambda at: function(at, defer_loading=True))],
    },
    "a wide schema": lambda n: {"input": "Hi", "tools": [function(0, strict=True) | {"parameters": schema(n)}]},
    "a wide format": lambda n: {
        "input": "Hi",
        "text": {"format": {"type": "json_schema", "name": "a", "schema": schema(n)}},
    },
}


def begin(fields: Item, dialect: Any, help: Any) -> Callable[[], object]:
    body = msgspec.json.encode({"model": "m", **fields})

    def work() -> None:
        request, unknown = body_to_request(body, NO_LIMITS)
        environment = make_environment(sealer=Sealer(str, str), help=help)
        notices = [f"field {name} is unknown" for name in unknown]
        exchange = Exchange(request, [EngineKnowledge(dialect)], environment, notices=notices)
        while isinstance(exchange.step, Check):
            exchange.checked(CheckOutcome())
        assert exchange.chat.messages
        exchange.abort(EngineError("It is over."))

    return work


@pytest.mark.parametrize(("dialect", "help"), ENGINES, ids=["plain", "strict template", "small model"])
@pytest.mark.parametrize("make", FIELDS.values(), ids=FIELDS)
def test_the_work_for_a_request_grows_with_its_size(make: Make, dialect: Any, help: str) -> None:
    assert_linear(lambda size: begin(make(size), dialect, help), 250, count_calls)


# ---- grammars of schemas -------------------------------------------------------------------------------------------------


def diamond(levels: int) -> Item:
    """Each definition refers to the next one twice: there are 2 ** levels ways to the last."""
    twice = {
        f"d{at}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/d{at + 1}"} for side in ("a", "b")}}
        for at in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": twice | {f"d{levels}": {"type": "string"}}}


def nested(levels: int) -> Item:
    inner: Item = {"type": "string"}
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    return inner


def branches(count: int) -> Item:
    """Each has all that is beside them."""
    return {
        "type": "object",
        "properties": {f"a{at}": {"type": "string"} for at in range(20)},
        "anyOf": [{"required": [f"a{at % 20}"]} for at in range(count)],
    }


SCHEMAS: dict[str, tuple[Make, int]] = {
    "members": (schema, 200),
    "values": (lambda n: {"enum": [f"v{at}" for at in range(n)]}, 500),
    "branches": (lambda n: {"anyOf": [{"const": at} for at in range(n)]}, 500),
    "branches with much beside them": (branches, 100),
    "references in a diamond": (diamond, 30),
    "levels": (nested, 100),
    "references in a chain": (
        lambda n: {"$ref": "#/$defs/0", "$defs": {str(at): {"items": {"$ref": f"#/$defs/{at + 1}"}} for at in range(n)}},
        200,
    ),
    "items before others": (lambda n: {"prefixItems": [{"const": at} for at in range(n)]}, 500),
    "ranges": (lambda n: {"anyOf": [{"type": "integer", "minimum": -at * 7, "maximum": 10**9 + at} for at in range(n)]}, 200),
}


@pytest.mark.parametrize(("make", "size"), SCHEMAS.values(), ids=SCHEMAS)
def test_the_work_for_the_grammar_of_a_schema_grows_with_its_size(make: Make, size: int) -> None:
    assert_linear(lambda size: lambda: schema_to_gbnf(make(size)), size, count_calls)


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"anyOf": [{**schema(500), "required": [f"a{at}"]} for at in range(200)]},
        lambda: branches(5000),
        lambda: {"allOf": [schema(500)] * 200},
    ],
    ids=["wide branches", "a branch for each member", "the same schema many times"],
)
def test_the_grammar_of_a_schema_that_repeats_itself_stays_short(make: Callable[[], Item]) -> None:
    assert len(schema_to_gbnf(make())) < 2 * MOST_CHARACTERS
