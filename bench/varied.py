"""Varied requests that require something: a call, a certain call, one of certain calls, an answer that follows a schema.

Each is there twice, as a client of the Responses API would send it and as it would be sent to the engine itself, so that what
comes back can be counted side by side.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Body = dict[str, Any]
Kind = Literal["required", "named", "allowed_tools", "json_schema"]
KINDS: tuple[Kind, ...] = ("required", "named", "allowed_tools", "json_schema")

WORDS = "city name colour count price title author size unit mode level target path query limit tag note date".split()
VERBS = "get set find send open close book read list move".split()
QUESTIONS = (
    "Say hello.",
    "What is the weather in Paris?",
    "Write a haiku about the sea.",
    "Book a table for two at eight.",
    "2 + 2?",
    "Tell me about yourself, at length.",
    "¿Qué hora es en Madrid?",
    "Please open the file named notes.txt and look for the word 'hedgehog'.",
)
# Asked directly, an engine that makes a call makes it soon; what else it says need not be waited for.
MOST_TOKENS_OF_WORDS = 64


@dataclass(frozen=True, slots=True)
class Case:
    kind: Kind
    responses: Body
    chat: Body
    # What may be called, with the schema of its arguments; or the schema of the answer.
    callable: dict[str, Body]
    schema: Body | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A model by its name, and how many tokens it is given for an answer."""

    model: str
    tokens: int = 1024


def varied(kind: Kind, subject: Subject, count: int, seed: int = 0) -> Iterator[Case]:
    """The same requests for the same seed; every other one is streamed."""
    chance = random.Random(f"{kind} {seed}")
    for number in range(count):
        yield _answer_case(chance, subject, number) if kind == "json_schema" else _call_case(kind, chance, subject, number)


def _answer_case(chance: random.Random, subject: Subject, number: int) -> Case:
    schema = _object(chance, depth=2)
    wanted = {"name": "answer", "schema": schema, "strict": True}
    question = chance.choice(QUESTIONS)
    sampling = _sampling(chance, number)
    responses = {"text": {"format": {"type": "json_schema", **wanted}}}
    chat = {"response_format": {"type": "json_schema", "json_schema": wanted}}
    return Case("json_schema", *_bodies(subject, question, number, sampling, responses, chat), {}, schema)


def _call_case(kind: Kind, chance: random.Random, subject: Subject, number: int) -> Case:
    names = chance.sample([f"{verb}_{word}" for verb in VERBS for word in WORDS], chance.randint(1, 3))
    parameters = {name: _object(chance, depth=2) for name in names}
    strict = chance.random() < 0.5
    flat: list[Body] = [
        {
            "type": "function",
            "name": name,
            "description": name.replace("_", " "),
            "parameters": schema,
            "strict": strict,
        }
        for name, schema in parameters.items()
    ]
    nested = [{"type": "function", "function": {key: tool[key] for key in tool.keys() - {"type"}}} for tool in flat]
    some = chance.sample(names, max(1, len(names) // 2))
    functions = [{"type": "function", "name": name} for name in some]
    choices: dict[str, tuple[Any, Any, list[str]]] = {
        "required": ("required", "required", names),
        "named": (functions[0], {"type": "function", "function": {"name": some[0]}}, some[:1]),
        "allowed_tools": ({"type": "allowed_tools", "mode": "required", "tools": functions}, "required", some),
    }
    choice, chat_choice, callable_names = choices[kind]
    # Chat Completions has no such choice: what its clients do is to send these tools only.
    shown = [tool for tool, name in zip(nested, names, strict=True) if kind != "allowed_tools" or name in some]
    bodies = _bodies(
        subject,
        chance.choice(QUESTIONS),
        number,
        _sampling(chance, number),
        {"tools": flat, "tool_choice": choice},
        {"tools": shown, "tool_choice": chat_choice},
    )
    return Case(kind, *bodies, {name: parameters[name] for name in callable_names})


def _sampling(chance: random.Random, number: int) -> Body:
    return {"temperature": chance.choice([0.8, 1.0, 1.2]), "seed": number}


def _bodies(subject: Subject, question: str, number: int, sampling: Body, responses: Body, chat: Body) -> tuple[Body, Body]:
    shared = {"model": subject.model, "stream": number % 2 == 0, **sampling}
    ours = {**shared, "input": question, "max_output_tokens": subject.tokens, **responses}
    most = MOST_TOKENS_OF_WORDS if "tools" in chat else subject.tokens
    theirs = {**shared, "messages": [{"role": "user", "content": question}], "max_tokens": most, **chat}
    return ours, theirs


# ---- schemas ---------------------------------------------------------------------------------------------------------


def _object(chance: random.Random, depth: int) -> Body:
    names = chance.sample(WORDS, chance.randint(1, 3))
    properties = {name: _value(chance, depth) for name in names}
    schema: Body = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    if depth == 2 and chance.random() < 0.2:
        schema["$defs"] = {"inner": _object(chance, 1)}
        schema["properties"] = {**properties, names[0]: {"$ref": "#/$defs/inner"}}
    return schema


def _value(chance: random.Random, depth: int) -> Body:
    kinds: list[Callable[[], Body]] = [
        # With an end: a weak model may ramble in a string without one until its tokens run out, and its call is cut off then.
        lambda: {"type": "string", "maxLength": chance.choice([5, 20, 40])},
        lambda: {"type": "string", "minLength": 1, "maxLength": 12},
        lambda: {"type": "integer"},
        lambda: {"type": "integer", "minimum": 0, "maximum": chance.choice([9, 100, 5000])},
        lambda: {"type": "number"},
        lambda: {"type": "boolean"},
        lambda: {"enum": chance.sample(WORDS, 3)},
        lambda: {"anyOf": [{"type": "string", "maxLength": 20}, {"type": "null"}]},
        lambda: {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    ]
    if depth > 0:
        kinds += [
            lambda: {"type": "array", "items": _value(chance, 0), "maxItems": chance.choice([2, 4])},
            lambda: _object(chance, depth - 1),
        ]
    return chance.choice(kinds)()
