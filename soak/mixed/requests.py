"""The requests: one or more for every route, valid ones, and hostile ones that are made of them."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
from aiohttp.hdrs import METH_GET, METH_POST

from antiphon.server.routes.table import API_ROUTES, ROUTES
from fuzz.cases import CHAT_REQUESTS, MESSAGE_REQUESTS, QUESTIONS
from fuzz.mutations import HOSTILE_GRAMMARS, mutated_bytes, mutated_json

# Of all requests: those that ask for a response, and those that are hostile. The first ones are hostile more often: they are
# large, so that whatever a gateway keeps of requests is soon as large as it may be.
RESPONSES = 0.4
HOSTILE, HOSTILE_AT_FIRST = 0.1, 0.5
# How many ids of each kind are remembered, and used in later requests.
MOST_IDS = 50
RESPONSE, SOCKET, UPLOAD = "/v1/responses", "socket", "upload"
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
PNG = "data:image/png;base64,iVBORw0KGgo="
LARK = {"type": "grammar", "syntax": "lark", "definition": 'start: "yes" | "no"'}
# Without the tools that never answer, or that end the server.
ANSWERING = ["echo", "huge", "tool_error", "structured", "mixed", "not_a_result"]
MCP = {"type": "mcp", "server_label": "m", "server_url": "{mcp}", "allowed_tools": ANSWERING}
# What is asked for, beside the questions of the fuzzer: one entry for each tool, and for each way to ask.
QUESTIONS_WITH_TOOLS: Sequence[Mapping[str, Any]] = (
    {},
    {"stream": True},
    {"background": True},
    {"background": True, "store": False},
    {"store": False, "stream": True, "include": ["reasoning.encrypted_content"]},
    {"truncation": "auto", "stream": True},
    {"tools": [FUNCTION], "stream": True},
    {"tools": [{"type": "custom", "name": "say", "format": LARK}]},
    {"tools": [{"type": "namespace", "name": "n", "description": "N.", "tools": [FUNCTION]}]},
    {"tools": [{"type": "tool_search"}, {**FUNCTION, "defer_loading": True}], "stream": True},
    {"tools": [{"type": "local_shell"}]},
    {"tools": [{"type": "shell", "environment": {"type": "local"}}], "stream": True},
    {"tools": [{"type": "apply_patch"}], "stream": True},
    {"tools": [{"type": "web_search"}], "stream": True, "include": ["web_search_call.action.sources"]},
    {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}], "stream": True},
    {"tools": [{**MCP, "require_approval": "never"}], "stream": True},
    {"tools": [MCP]},
    {"tools": [{"type": "file_search", "vector_store_ids": ["{vector_store}"]}], "stream": True},
    {"tools": [{"type": "image_generation"}]},
    {"previous_response_id": "{response}"},
    {"conversation": "{conversation}"},
    {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PNG}]}]},
    {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "{file}"}]}]},
)
# The bodies of the other routes. Those that are not here take none, or take one that may be empty.
MESSAGE = {"type": "message", "role": "user", "content": "Hi"}
BODIES: Mapping[str, Mapping[str, Any]] = {
    "/v1/responses/compact": {"model": "mock", "input": [MESSAGE]},
    "/v1/responses/input_tokens": {"model": "mock", "input": "Hi"},
    "/v1/conversations": {"items": [MESSAGE], "metadata": {"a": "b"}},
    "/v1/conversations/{id}": {"metadata": {"a": "c"}},
    "/v1/conversations/{id}/items": {"items": [MESSAGE, MESSAGE]},
    "/v1/containers": {"name": "c"},
    "/v1/vector_stores": {"name": "v", "file_ids": ["{file}"]},
    "/v1/vector_stores/{id}": {"name": "w"},
    "/v1/vector_stores/{id}/search": {"query": "Rome"},
    "/v1/vector_stores/{id}/files": {"file_id": "{file}"},
    "/v1/vector_stores/{id}/files/{file_id}": {"attributes": {"a": 1}},
    "/v1/vector_stores/{id}/file_batches": {"file_ids": ["{file}"]},
    "/v1/messages/count_tokens": {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"model": "mock", "prompt": "Hi"},
    "/v1/embeddings": {"model": "mock", "input": "Hi"},
}
HI = {"messages": [{"role": "user", "content": "Hi"}]}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
# The bodies of routes of other protocols: one entry for each way to ask.
ASKED: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "/v1/chat/completions": (HI, {**HI, "stream": True}, *CHAT_REQUESTS, {**HI, "web_search_options": {}, "stream": True}),
    "/v1/messages": (*MESSAGE_REQUESTS, {**HI, "max_tokens": 100, "tools": [CODE], "stream": True}),
}
UPLOADS = frozenset({"/v1/files", "/v1/containers/{id}/files"})
# Live streams never end by themselves.
LEFT_OUT = frozenset({"/inspector/live"})
_SLASH = re.compile(r"\{slash:[^}]*\}")
_PREFIX = re.compile(r"^(/openai)?(/deployments/[^/]+)?(/v1)?(?=/)")
_ID = re.compile(r"\{([^}:]*)[^}]*\}")
# What an id in a path is an id of, by the first word of the path or by its own name.
KINDS = {
    "responses": "response",
    "conversations": "conversation",
    "containers": "container",
    "files": "file",
    "vector_stores": "vector_store",
    "models": "model",
}
NAMED = {"deployment": "model", "item_id": "item", "file_id": "file", "batch_id": "batch", "name": "page", "number": "number"}


def usual_path(path: str) -> str:
    """Of a route that has several."""
    return path if path.startswith("/inspector") else "/v1" + _PREFIX.sub("", _SLASH.sub("", path)).rstrip("/")


def _own_routes() -> list[Any]:
    """Those that OpenAI does not have."""
    return [route for route in ROUTES if route.path.startswith("/inspector") and route.path not in LEFT_OUT]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    # None: it has none. An upload has a form around it; a socket sends it as a message.
    body: bytes | None = None
    way: str = "http"
    # The client leaves without reading the answer.
    leaves: bool = False


@dataclass
class Ids:
    """The ids of what was made, by kind."""

    known: dict[str, deque[str]] = field(default_factory=dict)

    def add(self, made: Mapping[str, Any]) -> None:
        id, kind = made.get("id"), str(made.get("object", "")).removeprefix("vector_store.")
        if made.get("deleted"):
            self._forget(id)
        elif isinstance(id, str):
            kind = "batch" if kind == "file_batch" else "item" if kind == "message" else kind
            self.known.setdefault(kind, deque(maxlen=MOST_IDS)).append(id)

    def _forget(self, id: Any) -> None:
        for known in self.known.values():
            if id in known:
                known.remove(id)

    def one(self, kind: str, chance: Random) -> str:
        return chance.choice(known) if (known := self.known.get(kind)) else f"{kind}_none"


class Requests:
    """All chance comes from one seed, and from what the gateway answers."""

    def __init__(self, seed: int, mcp: str) -> None:
        self._chance = Random(seed)
        # The share of hostile ones.
        self.hostile = HOSTILE
        self._mcp = mcp
        self.ids = Ids({"model": deque(["mock"]), "number": deque(["1", "2"]), "page": deque(["app.js"])})
        self._routes = [(route.method, route.path) for route in (*API_ROUTES, *_own_routes())]
        # First each route once, under each of its paths: chance may leave one out.
        self._due = [(route.method, route.path) for route in ROUTES if route.path not in LEFT_OUT]

    def next(self) -> Request:
        chance = self._chance
        made = self._response() if not self._due and chance.random() < RESPONSES else self._of_route()
        return self._hostile(made) if chance.random() < self.hostile else made

    def _response(self) -> Request:
        chance = self._chance
        question = {"model": "mock", "input": "Hi", **chance.choice((*QUESTIONS, *QUESTIONS_WITH_TOOLS))}
        body = self._filled(question)
        if chance.random() < 0.2:
            return Request(METH_GET, RESPONSE, body, SOCKET)
        return Request(METH_POST, RESPONSE, body, leaves=chance.random() < 0.05)

    def _of_route(self) -> Request:
        method, path = self._due.pop() if self._due else self._chance.choice(self._routes)
        plain = usual_path(path)
        if plain == RESPONSE:
            return self._response()
        body = None if method != METH_POST else self._filled(self._body(plain))
        way = UPLOAD if method == METH_POST and plain in UPLOADS else "http"
        return Request(method, self._with_ids(path), body, way)

    def _body(self, path: str) -> Mapping[str, Any]:
        if path in ASKED:
            return {"model": "mock", **self._chance.choice(ASKED[path])}
        return BODIES.get(path, {})

    def _with_ids(self, path: str) -> str:
        kind = KINDS.get(usual_path(path).split("/")[2], "number") if path.count("/") > 1 else "number"
        return _ID.sub(lambda found: self.ids.one(NAMED.get(found[1], kind), self._chance), _SLASH.sub("", path))

    def _filled(self, body: Mapping[str, Any]) -> bytes:
        text = msgspec.json.encode(body).decode().replace("{mcp}", self._mcp)
        for kind in KINDS.values():
            text = text.replace("{" + kind + "}", self.ids.one(kind, self._chance))
        return text.encode()

    # ---- hostile ones ------------------------------------------------------------------------------------------------

    def _hostile(self, made: Request) -> Request:
        if made.body is None:
            return replace(made, path=made.path + self._chance.choice(("/" + "x" * 3000, "?limit=-1", "?after=%00", "/../..")))
        return replace(made, body=self._chance.choice(list(self._hostile_bodies(made.body))))

    def _hostile_bodies(self, body: bytes) -> Iterator[bytes]:
        chance = self._chance
        value = msgspec.json.decode(body)
        yield msgspec.json.encode(mutated_json(value, chance))
        yield mutated_bytes(body, chance, body)
        yield msgspec.json.encode({**value, "input": [MESSAGE] * 2000, "items": [MESSAGE] * 2000})
        yield msgspec.json.encode({**value, "metadata": {f"k{at}": "v" * 500 for at in range(200)}})
        yield b'{"input":' + b"[" * 5000 + b"]" * 5000 + b"}"
        yield msgspec.json.encode({**value, "input": "x" * 1_000_000})
        syntax, definition = chance.choice(HOSTILE_GRAMMARS)
        grammar = {"type": "grammar", "syntax": syntax, "definition": definition}
        yield msgspec.json.encode({**value, "tools": [{"type": "custom", "name": "x", "format": grammar}]})
