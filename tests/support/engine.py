"""An engine for the tests, over a real socket, as strict as a real one: it rejects what llama.cpp or vLLM would reject."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from bench.processes import free_port
from support.completions import whole_of

Body = dict[str, Any]
Writer = Callable[[bytes], Awaitable[None]]
Script = Callable[[Writer], Awaitable[None]]

# The fields of Chat Completions that every engine takes; an engine's own come on top.
KNOWN_FIELDS = set(
    "model messages tools tool_choice parallel_tool_calls response_format reasoning_effort max_tokens max_completion_tokens "
    "temperature top_p presence_penalty frequency_penalty stop seed user logprobs top_logprobs stream stream_options".split()
)
# Per kind of engine, as `/v1/models` names it.
OWN_FIELDS = {
    "llamacpp": set(
        "reasoning_format dry_multiplier dry_allowed_length dry_penalty_last_n dry_sequence_breakers grammar "
        "chat_template_kwargs return_progress top_k".split()
    ),
    "vllm": {"chat_template_kwargs", "prompt_cache_key", "top_k"},
    "lmdeploy": {"chat_template_kwargs", "prompt_cache_key", "top_k"},
    "sglang": {"chat_template_kwargs", "prompt_cache_key", "top_k"},
}
MESSAGE_FIELDS = {"role", "content", "reasoning_content", "reasoning", "tool_calls", "tool_call_id"}
PART_TYPES = {"text", "image_url", "input_audio"}


MALFORMED = (AttributeError, KeyError, TypeError, ValueError, msgspec.MsgspecError)


def objection(body: Body, *, own_fields: Iterable[str] = ()) -> str | None:
    """Why an engine would answer this body with a 400; None if it would not."""
    try:
        return _objection(body, own_fields)
    except MALFORMED as wrong:
        return f"malformed: {wrong!r}"


def _objection(body: Body, own_fields: Iterable[str]) -> str | None:
    unknown = body.keys() - KNOWN_FIELDS - set(own_fields)
    if unknown:
        return f"unknown field {sorted(unknown)}"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "'messages' must be a list that is not empty"
    if "tool_choice" in body and not body.get("tools"):
        return "When using `tool_choice`, `tools` must be set."
    if "grammar" in body and "tools" in body and body.get("tool_choice") != "none":
        return "Cannot use custom grammar constraints with tools."
    if "grammar" in body and "response_format" in body:
        return "Cannot use both json_schema and grammar"
    if "tools" in body and not body["tools"]:
        return "[] is too short - 'tools'"
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        return "top_logprobs requires logprobs to be set to true"
    for tool in body.get("tools", []):
        if not tool["function"]["name"] or not isinstance(tool["function"].get("parameters"), dict):
            return "a tool needs a name and parameters"
    return _message_objection(messages)


def _message_objection(messages: list[Body]) -> str | None:
    owed: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if message.keys() - MESSAGE_FIELDS:
            return f"messages[{at}]: unknown member {sorted(message.keys() - MESSAGE_FIELDS)}"
        if role not in ("system", "user", "assistant", "tool"):
            return f"messages[{at}]: unexpected role {role!r}"
        if role == "system" and at > 0:
            return "System message must be at the beginning."
        if role == "tool" and (not owed or message.get("tool_call_id") != owed.pop(0)):
            return f"messages[{at}]: a tool result must follow its call, in the order of the calls"
        if role != "tool" and owed:
            return f"messages[{at}]: the calls {owed} have no result"
        if role == "assistant" and at and messages[at - 1]["role"] == "assistant" and not message.get("tool_calls"):
            return "Cannot have 2 or more assistant messages in a row."
        content = message.get("content")
        if role in ("system", "tool") and not isinstance(content, str):
            return f"messages[{at}]: content must be a string"
        if isinstance(content, list) and any(part.get("type") not in PART_TYPES for part in content):
            return f"messages[{at}]: unsupported content[].type"
        if content is None:
            return f"messages[{at}]: all messages need content"
        for call in message.get("tool_calls", []):
            if not isinstance(msgspec.json.decode(call["function"]["arguments"]), dict):
                return f"messages[{at}]: arguments are not an object"
            owed.append(call["id"])
    return f"the calls {owed} have no result" if owed else None


# ---- answers ---------------------------------------------------------------------------------------------------------


def _bad_request(why: str) -> web.Response:
    return web.json_response({"error": {"message": why, "type": "BadRequestError", "code": 400}}, status=400)


@dataclass(frozen=True)
class Refusal:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


Answer = bytes | Refusal | Script

DONE = b"data: [DONE]\n\n"


def chunk(delta: Body | None = None, *, finish: str | None = None, **members: Any) -> bytes:
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": choices}
    return b"data: " + msgspec.json.encode({**body, **members}) + b"\n\n"


USAGE = chunk(usage={"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17})


def text(*pieces: str, finish: str = "stop") -> bytes:
    """A whole answer of plain text."""
    deltas = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": piece}) for piece in pieces)]
    return b"".join([*deltas, chunk(finish=finish), USAGE, DONE])


def call(name: str, arguments: str, *, id: str = "call_1", index: int = 0) -> bytes:
    """The chunks of one call, its arguments in two pieces; `answer()` makes a whole stream of such."""
    half = len(arguments) // 2
    first = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [{"index": index, "function": {"arguments": piece}} for piece in (arguments[:half], arguments[half:])]
    return b"".join(chunk({"tool_calls": [piece]}) for piece in (first, *pieces))


def answer(*chunks: bytes, finish: str = "stop") -> bytes:
    return b"".join([chunk({"role": "assistant", "content": None}), *chunks, chunk(finish=finish), USAGE, DONE])


class MockEngine:
    """Answers each chat request with the next of its answers, and remembers what it was asked."""

    def __init__(self, *, owned_by: str = "mock", own_fields: Iterable[str] = (), paths: dict[str, Any] | None = None) -> None:
        self.url = ""
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Answer] = []
        # What it says once its answers are used up.
        self.otherwise: Callable[[Body], Answer] = lambda body: text("Hello", " world")
        # What it answers in place of its list of models.
        self.list_answer: Refusal | bytes | None = None
        self.compresses = False
        self.cancelled = asyncio.Event()
        self.asked = asyncio.Event()
        self.objects_to: Callable[[Body], str | None] = lambda body: objection(body, own_fields=own_fields)
        self._owned_by = owned_by
        self._models: dict[str, Any] = {"object": "list", "data": []}
        self.lists("mock")
        # What else it answers, by path: JSON, or what a function makes of the body, bytes, a refusal; nothing before an event.
        self.paths = paths or {}
        self._runner: web.AppRunner | None = None

    @property
    def last(self) -> Body:
        return self.requests[-1]

    def will(self, *answers: Answer) -> None:
        self.answers += answers

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        """On a port that is still free if the engine stops and comes back."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(
            [
                web.get("/v1/models", self._list_models),
                web.post("/v1/chat/completions", self._chat),
                web.route("*", "/{path:.*}", self._other),
            ]
        )
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port or free_port()).start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def lists(self, *models: str) -> None:
        """The models that it serves from now on. None: it has no such route."""
        self._models["data"] = [{"id": model, "object": "model", "owned_by": self._owned_by} for model in models]

    async def _list_models(self, request: web.Request) -> web.Response:
        if isinstance(self.list_answer, Refusal):
            refusal = self.list_answer
            return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)
        if self.list_answer is not None:
            return web.Response(body=self.list_answer)
        if self._models.get("data") == []:
            return web.json_response({"error": {"message": "Not Found", "code": 404}}, status=404)
        return web.json_response(self._models)

    async def _other(self, request: web.Request) -> web.Response:
        found = self.paths.get(request.path)
        if found is None:
            return web.json_response({"error": {"message": "Not Found", "code": 404}}, status=404)
        if isinstance(found, Refusal):
            return web.json_response(found.body, status=found.status, headers=found.headers)
        if isinstance(found, bytes):
            return web.Response(body=found)
        if isinstance(found, asyncio.Event):
            await found.wait()
            return web.Response()
        return web.json_response(found(await request.json()) if callable(found) else found)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except ValueError as wrong:
            return _bad_request(str(wrong))
        if not isinstance(body, dict):
            return _bad_request("the body is not an object")
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.asked.set()
        if objected := self.objects_to(body):
            return _bad_request(objected)
        answer = self.answers.pop(0) if self.answers else self.otherwise(body)
        if isinstance(answer, Refusal):
            return web.json_response(answer.body, status=answer.status, headers=answer.headers)
        if isinstance(answer, bytes) and not body.get("stream") and answer.endswith(DONE):
            return web.json_response(whole_of(answer))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if self.compresses:
            response.enable_compression(web.ContentCoding.gzip)
        try:
            if isinstance(answer, bytes):
                await response.prepare(request)
                await response.write(answer)
            else:
                await answer(_writer(request, response))
                if not response.prepared:
                    await response.prepare(request)
        except (asyncio.CancelledError, ConnectionError):
            self.cancelled.set()
            raise
        if request.transport is not None and not request.transport.is_closing():
            await response.write_eof()
        return response


def _writer(request: web.Request, response: web.StreamResponse) -> Writer:
    """Sends the headers with the first bytes. Writing `CUT` breaks the connection off instead."""

    async def write(data: bytes) -> None:
        if data is CUT:
            assert request.transport is not None
            request.transport.abort()
            return
        if not response.prepared:
            await response.prepare(request)
        if data:
            await response.write(data)

    return write


CUT = b"cut the connection"
