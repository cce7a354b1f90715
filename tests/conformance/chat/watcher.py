"""What tests put on the wire of Chat Completions. What is emitted is validated by the types of the openai SDK.

Answers that are passed through are the engine's: they are not looked at.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from aiohttp import web
from conformance.chat.paths import members, paths
from conformance.recorder import RECORDER, Body, Recorder, Watcher, object_in, objects_in
from pydantic import BaseModel, ValidationError

from antiphon.core.protocols.chat.protocol import CHAT

CREATE = "POST /chat/completions"
_PATH = re.compile(r"(/openai)?(/deployments/[^/]+)?(/v1)?/chat/completions/?")
# Deltas of one text, or of one call, differ in it only.
_DELTA = re.compile(rb'"delta":\{"(?:content|reasoning_content|tool_calls":\[\{"index":\d+,"\w+":\{"\w+)":"')
# Whatever an engine adds to a completion, and to its choice.
OWN, OWN_OF_CHOICE = "(of the engine)", "choices.(of the engine)"
# Below these, nothing is the engine's own.
OURS = ("choices.message.", "choices.delta.", "choices.logprobs.content.", "usage.")
ERROR = {"message", "type", "param", "code"}


class ChatWatcher(Watcher):
    protocol = CHAT

    def __init__(self, recorder: Recorder = RECORDER) -> None:
        super().__init__(recorder)
        self._last = b""

    # ---- what clients send -------------------------------------------------------------------------------------------

    def to_route(self, method: str, path: str) -> str | None:
        return CREATE if method == "POST" and _PATH.fullmatch(path) else None

    def request(self, route: str, request: web.Request, body: bytes) -> None:
        for kind, name in request_to_seen(object_in(body)):
            self.saw(kind, name)

    # ---- what they get -----------------------------------------------------------------------------------------------

    def answer(self, route: str, status: int, body: bytes) -> None:
        value = msgspec.json.decode(body)
        if status != 200:
            self._error(value)
            return
        self._emitted("completion", body, value)

    def frames(self, data: bytes) -> None:
        for frame in filter(None, data.split(b"\n\n")):
            # What is around a delta is the same in all of one text.
            around, delta, _ = frame.partition(found[0] if (found := _DELTA.search(frame)) is not None else b"\0")
            if delta and around + delta == self._last:
                continue
            self._last = around + delta
            encoded = frame.removeprefix(b"data: ")
            value = msgspec.json.decode(encoded)
            if "error" in value:
                self._error(value)
            else:
                self._emitted("chunk", encoded, value)

    def _emitted(self, kind: str, encoded: bytes, value: Body) -> None:
        for choice in value["choices"]:
            if choice["finish_reason"] is not None:
                self.saw("finish reason", choice["finish_reason"])
        for path in members(_without_empty(value)):
            self.saw(kind, _named(kind, path))
        self.recorder.check(encoded, lambda: violations(kind, value))

    def _error(self, value: Any) -> None:
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict) or error.keys() != ERROR:
            self.recorder.violations.append(f"no error of OpenAI's: {value}")


def _without_empty(value: Any) -> Any:
    """What has no value has no members."""
    if isinstance(value, dict):
        return {name: _without_empty(each) for name, each in value.items() if each is not None and each != []}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _named(kind: str, path: str) -> str:
    if path in _known()[kind] or path.startswith(OURS):
        return path
    return OWN_OF_CHOICE if path.startswith("choices.") else OWN


@cache
def _known() -> dict[str, set[str]]:
    from conformance.chat.sdk import names

    return names()


def request_to_seen(request: Body) -> Iterator[tuple[str, str]]:
    """Kinds and names."""
    for name, value in request.items():
        yield from (("request field", path) for path in paths(name, value) if value is not None)
    for message in objects_in(request.get("messages")):
        yield from (("message", f"{message.get('role')}.{name}") for name, each in message.items() if each is not None)
        yield from (("content part", path) for part in objects_in(message.get("content")) for path in members(part))
        yield from (("call", path) for call in objects_in(message.get("tool_calls")) for path in members(call))
    yield from (("tool", path) for tool in objects_in(request.get("tools")) for path in members(tool))
    choice, format = request.get("tool_choice"), request.get("response_format")
    if choice is not None:
        yield "tool choice", str(choice.get("type")) if isinstance(choice, dict) else str(choice)
    if isinstance(format, dict):
        yield "response format", str(format.get("type"))
        yield from (("response format", path) for path in members(format) if path != "type")


# ---- validation ------------------------------------------------------------------------------------------------------


@cache
def _types() -> dict[str, type[BaseModel]]:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    return {"completion": ChatCompletion, "chunk": ChatCompletionChunk}


def violations(kind: str, value: Body) -> Iterator[str]:
    """What the type of the SDK does not allow, but for the differences that are meant."""
    try:
        _types()[kind].model_validate(value, strict=True)
    except ValidationError as wrong:
        for error in wrong.errors():
            where = ".".join(str(each) for each in error["loc"] if not isinstance(each, int))
            if (kind, where) not in DEVIATIONS:
                yield f"{kind} {where}: {error['msg']}"


# Where the type of the SDK is wrong → why.
DEVIATIONS = {
    (
        "chunk",
        "choices.delta.tool_calls.type",
    ): "The SDK has calls of custom tools in whole answers only. They are streamed, too.",
}
