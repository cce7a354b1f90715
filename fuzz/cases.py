"""The cases: bodies of requests, and bodies of engines' answers. A seed and a number make the same case again."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import structs
from transcripts.transcript import Transcript, recorded

from antiphon.core.protocols.chat.read import READ
from antiphon.core.protocols.chat.ways import choose_way
from antiphon.errors import UNREADABLE
from fuzz.generated import generate
from fuzz.mutations import HOSTILE_GRAMMARS, HOSTILE_SCHEMAS, mutated_bytes, mutated_json, mutated_stream

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
# Of the requests, this part is generated from the schemas. The others are mutations of recorded ones.
GENERATED = 0.3
# Of the mutations, this part is one of bytes.
OF_BYTES = 0.2
# And this part has a definition that is made to be hard.
HOSTILE = 0.05
LONGEST_LIST = 6
RESPONSES = "/v1/responses"
# Other routes that take a body, each with its share of the requests.
OTHER_PATHS = {"/v1/responses/input_tokens": 0.04, "/v1/responses/compact": 0.04, "/v1/conversations": 0.02}
BY_WEBSOCKET = 0.1
# Requests of Anthropic's API, and chat completions, each with its share.
MESSAGES, COUNTED = "/v1/messages", "/v1/messages/count_tokens"
OF_MESSAGES = 0.1
CHAT = "/v1/chat/completions"
OF_CHAT = 0.1


class Case(msgspec.Struct, frozen=True):
    """A request, and what the engine answers to it; None: it answers as it should."""

    request: bytes
    engine: bytes | None = None
    # A WebSocket takes no other path.
    websocket: bool = False
    path: str = RESPONSES

    @property
    def kind(self) -> str:
        return "request" if self.engine is None else "stream"


@cache
def recorded_requests() -> list[Any]:
    """The small ones and the shapes of large ones: what is long in them is only more of the same."""
    codex = [msgspec.json.decode(path.read_bytes()) for path in sorted((GOLDEN / "codex_requests").glob("*.json"))]
    sessions = [request for folder in recorded() for request in Transcript.read(folder).requests]
    return [*codex, *sessions]


@cache
def recorded_streams() -> list[bytes]:
    return [path.read_bytes() for path in sorted((GOLDEN / "streams").glob("*.sse"))]


def request_cases(count: int, seed: int) -> Iterator[Case]:
    chance = Random(seed)
    for body in generate(round(count * GENERATED), seed):
        yield _sent(body, chance)
    for _ in range(count - round(count * GENERATED)):
        yield _of_another_protocol(chance) or _sent(_mutated_request(chance), chance)


def _of_another_protocol(chance: Random) -> Case | None:
    which = chance.random()
    if which < OF_MESSAGES:
        return _sent_message(chance)
    return _sent_chat(chance) if which < OF_MESSAGES + OF_CHAT else None


def _sent(body: bytes, chance: Random) -> Case:
    """By one of the ways to send it."""
    if chance.random() < BY_WEBSOCKET:
        return Case(body, websocket=True)
    paths = {RESPONSES: 1 - sum(OTHER_PATHS.values()), **OTHER_PATHS}
    return Case(body, path=chance.choices(list(paths), list(paths.values()))[0])


def _mutated_request(chance: Random) -> bytes:
    request = _shortened(chance.choice(recorded_requests()), chance)
    if chance.random() < HOSTILE:
        request |= _hostile_definition(chance)
    if chance.random() < OF_BYTES:
        other = msgspec.json.encode(chance.choice(recorded_requests()))
        return mutated_bytes(msgspec.json.encode(request), chance, other)
    return msgspec.json.encode(mutated_json({**request, "model": "mock"}, chance))


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
MESSAGE_REQUESTS: tuple[dict[str, Any], ...] = (
    {"max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}], "system": "Be brief.", "stream": True},
    {
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]},
            {"role": "system", "content": "Agents: none"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "it"}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "red"}]},
        ],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": '{"session_id": "s"}'},
        "stream": True,
    },
    {
        "max_tokens": 100,
        "messages": [
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Rome"}},
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "https://a.example"}]},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}}],
            },
        ],
        "tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305", "name": "web_search"}],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stop_sequences": ["END"],
    },
)


def _sent_message(chance: Random) -> Case:
    request = {"model": "mock", **chance.choice(MESSAGE_REQUESTS)}
    data = msgspec.json.encode(request)
    is_of_bytes = chance.random() < OF_BYTES
    body = mutated_bytes(data, chance, data) if is_of_bytes else msgspec.json.encode(mutated_json(request, chance))
    return Case(body, path=chance.choice((MESSAGES, MESSAGES, MESSAGES, COUNTED)))


WEATHER = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
LOOKED = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
CHAT_REQUESTS: tuple[dict[str, Any], ...] = (
    {"messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER], "stream": True},
    {
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
            {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [LOOKED]},
            {"role": "tool", "tool_call_id": "call_1", "content": "red"},
        ],
        "tools": [WEATHER, {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 100,
        "logprobs": True,
        "top_logprobs": 2,
    },
    {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "name": "ada"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": True}},
        "stop": ["END"],
        "reasoning_effort": "low",
    },
)


def _sent_chat(chance: Random) -> Case:
    request = {"model": "mock", **chance.choice(CHAT_REQUESTS)}
    data = msgspec.json.encode(request)
    while True:
        is_of_bytes = chance.random() < OF_BYTES
        body = mutated_bytes(data, chance, data) if is_of_bytes else msgspec.json.encode(mutated_json(request, chance))
        if not _is_for_the_engine(body):
            return Case(body, path=CHAT)


def _is_for_the_engine(body: bytes) -> bool:
    """What is passed on, and fields that only engines have: whether that is valid is the engine's to say."""
    try:
        request = msgspec.json.decode(body)
    except UNREADABLE:
        return False
    return isinstance(request, dict) and (choose_way(request).passes or not request.keys() <= READ)


def _hostile_definition(chance: Random) -> dict[str, Any]:
    """A grammar or a schema that is hard on those who check answers by it."""
    if chance.random() < 0.5:
        syntax, definition = chance.choice(HOSTILE_GRAMMARS)
        return {
            "tools": [
                {"type": "custom", "name": "x", "format": {"type": "grammar", "syntax": syntax, "definition": definition}}
            ]
        }
    schema = {"type": "object", "properties": {"input": chance.choice(HOSTILE_SCHEMAS)}}
    if chance.random() < 0.5:
        return {"tools": [{"type": "function", "name": "x", "parameters": schema, "strict": True}]}
    return {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}}


def _shortened(request: dict[str, Any], chance: Random) -> dict[str, Any]:
    """A few entries of its lists, in their order."""
    return {
        name: value
        if not isinstance(value, list)
        else [value[at] for at in sorted(chance.sample(range(len(value)), min(len(value), LONGEST_LIST)))]
        for name, value in request.items()
    }


# How a broken stream is asked for: what the request requires decides how much of the answer is buffered and checked.
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z ]+"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"stream": True},
    {"stream": True},
    {},
    {"stream": True, "reasoning": {"summary": "auto"}, "include": ["message.output_text.logprobs"]},
    {"stream": True, "tools": [LOOK, {**LOOK, "name": "get_weather"}]},
    {"tools": [{**LOOK, "strict": True}], "tool_choice": "required"},
    {"stream": True, "tools": [PATCH, LOOK]},
    {"stream": True, "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}}},
    {"stream": True, "background": True},
)


def stream_cases(count: int, seed: int) -> Iterator[Case]:
    chance = Random(seed)
    for _ in range(count):
        streams = recorded_streams()
        body = mutated_stream(chance.choice(streams), chance, chance.choice(streams))
        if chance.random() < OF_MESSAGES:
            message = {"model": "mock", **chance.choice(MESSAGE_REQUESTS)}
            yield Case(msgspec.json.encode(message), body, path=MESSAGES)
            continue
        if chance.random() < OF_CHAT:
            yield Case(msgspec.json.encode({"model": "mock", **chance.choice(CHAT_REQUESTS)}), body, path=CHAT)
            continue
        question = {"model": "mock", "input": "Hi", **chance.choice(QUESTIONS)}
        yield Case(msgspec.json.encode(question), body, websocket=chance.random() < BY_WEBSOCKET)


def smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them, the smallest first."""
    data = case.request if case.engine is None else case.engine
    for less in (*_smaller_json(data), *_smaller_bytes(data)):
        if len(less) < len(data):
            yield structs.replace(case, request=less) if case.engine is None else structs.replace(case, engine=less)


def _smaller_json(data: bytes) -> Iterator[bytes]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return
    if isinstance(value, dict):
        for name in value:
            yield msgspec.json.encode({key: each for key, each in value.items() if key != name})
            if isinstance(value[name], list):
                yield from (msgspec.json.encode({**value, name: rest}) for rest in _without_one(value[name]))


def _without_one(entries: Sequence[Any]) -> Iterator[list[Any]]:
    for at in range(len(entries)):
        yield [*entries[:at], *entries[at + 1 :]]


def _smaller_bytes(data: bytes) -> Iterator[bytes]:
    frames = data.split(b"\n\n")
    if len(frames) > 1:
        yield from (b"\n\n".join(rest) for rest in _without_one(frames))
    for size in (len(data) // 2, len(data) // 8):
        if size:
            yield from (data[:at] + data[at + size :] for at in range(0, len(data), size))
