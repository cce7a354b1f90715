"""An engine whose model reads the tools that it is offered, as a model does that was trained to call them.

It knows nothing of the questions that it is asked: it calls a tool if the user's message names something that the tool's
description says a value of, with that value. Without such a tool it answers in words.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from support.engine import DONE, OWN_FIELDS, Body, MockEngine, chunk
from support.known_engines import counted, prompt_of

# "The gate code is 4711-b."
STATEMENT = re.compile(r"[Tt]he ([a-z ]+?) is ([\w-]+)")

Call = dict[str, Any]


def call_of(body: Body) -> Call | None:
    """The call that the model makes."""
    asked = str(body["messages"][-1]["content"])
    if body["messages"][-1]["role"] != "user" or body.get("tool_choice") == "none":
        return None
    for tool in body.get("tools", ()):
        function = tool["function"]
        for what, value in STATEMENT.findall(function.get("description", "")):
            if what in asked:
                arguments = dict.fromkeys(function["parameters"].get("required", ()), value)
                return {"name": function["name"], "arguments": msgspec.json.encode(arguments).decode()}
    return None


# ---- how engines send a call, and what they count --------------------------------------------------------------------


def in_pieces(call: Call) -> list[Call]:
    half = len(call["arguments"]) // 2
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": call["name"], "arguments": ""}}
    pieces = (call["arguments"][:half], call["arguments"][half:])
    return [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]


def with_first_bytes(call: Call) -> list[Call]:
    """llama.cpp: the name comes with the beginning of the arguments."""
    first = {"index": 0, "id": "a" * 32, "type": "function", "function": {**call, "arguments": call["arguments"][:1]}}
    return [first, {"index": 0, "function": {"arguments": call["arguments"][1:]}}]


def whole(call: Call) -> list[Call]:
    return [{"index": 0, "id": "call_1", "type": "function", "function": call}]


def without_id(call: Call) -> list[Call]:
    return [{"index": 0, "type": "function", "function": call}]


def without_first_arguments(call: Call) -> list[Call]:
    """vLLM: the chunk with the name has no arguments."""
    named = {"index": 0, "id": "chatcmpl-tool-1", "type": "function", "function": {"name": call["name"]}}
    return [named, {"index": 0, "function": {"arguments": call["arguments"]}}]


Form = Callable[[Call], list[Call]]
Count = Callable[[Body], dict[str, int] | None]


def counts_messages(body: Body) -> dict[str, int]:
    """Like a proxy that estimates: the text of messages, and nothing else."""
    return counted(" ".join(str(message["content"]) for message in body["messages"]))


def counts_prompt(body: Body) -> dict[str, int]:
    return counted(prompt_of(body, tools=True))


def counts_nothing(body: Body) -> dict[str, int]:
    return counted("the same for every prompt")


def reports_nothing(body: Body) -> None:
    return None


@dataclass(frozen=True)
class Shape:
    """How one kind of engine is found, and how it sends calls."""

    owned_by: str = "mock"
    form: Form = in_pieces
    paths: dict[str, Any] = field(default_factory=dict)

    def engine(self, count: Count, *, shows_tools: bool = True) -> MockEngine:
        """`shows_tools`: whether its template has them. Its model does not see them otherwise."""
        engine = MockEngine(owned_by=self.owned_by, own_fields=OWN_FIELDS.get(self.owned_by, ()), paths=self.paths)

        def answers(body: Body) -> bytes:
            call = call_of(body) if shows_tools else None
            deltas: list[Body] = [{"content": "Hello there, and a good day to you."}]
            if call is not None:
                deltas = [{"tool_calls": [piece]} for piece in self.form(call)]
            usage = count(body)
            chunks = [chunk({"role": "assistant", "content": None}), *map(chunk, deltas)]
            chunks.append(chunk(finish="stop" if call is None else "tool_calls"))
            return b"".join([*chunks, *([chunk(usage=usage)] if usage is not None else []), DONE])

        engine.otherwise = answers
        return engine


def _ollama(**show: Any) -> dict[str, Any]:
    return {"/api/version": {"version": "0.15.2"}, "/api/show": show}


SHAPES: dict[str, Shape] = {
    "unknown": Shape(),
    "unknown, whole calls": Shape(form=whole),
    "unknown, calls without ids": Shape(form=without_id),
    "llama.cpp that shows no prompts": Shape("llamacpp", with_first_bytes),
    "vLLM that shows no prompts": Shape("vllm", without_first_arguments),
    "LMDeploy": Shape("lmdeploy", without_id),
    "SGLang": Shape("sglang"),
    "SGLang behind another name": Shape("someone", in_pieces, {"/get_server_info": {"tp_size": 1}}),
    "LM Studio": Shape("organization_owner", in_pieces),
    "Ollama": Shape("library", whole, _ollama(capabilities=["completion", "tools"])),
    "Ollama that reports nothing": Shape("library", whole, _ollama()),
}
