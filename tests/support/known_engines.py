"""Engines as a probe meets them: each rejects, shows and answers as the real one does.

vLLM's answers are recorded streams with the request's model, names and counts stamped into them. Of the others there are no
recordings; they say what their sources say.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from antiphon.engines.probes.questions import ODD_WORDS, PUZZLE, TWO_CALLS
from support.engine import DONE, Answer, Body, MockEngine, chunk, objection

STREAMS = Path(__file__).parents[1] / "golden" / "streams"
FITTING = msgspec.json.encode({"word": ODD_WORDS[0], "number": 7}).decode()
TOKENS = [1, 2, 3]


def shape(body: Body) -> str:
    """What kind of question it is."""
    choice = body.get("tool_choice")
    asked = {
        "json": "response_format" in body,
        "named": isinstance(choice, dict),
        "strict": choice == "required" and bool(body["tools"][0]["function"].get("strict")),
        "required": choice == "required",
        "logprobs": bool(body.get("logprobs")),
        "two calls": body["messages"] == TWO_CALLS,
        "puzzle": body["messages"] == PUZZLE,
    }
    return next((name for name, is_asked in asked.items() if is_asked), "text")


def wanted_name(body: Body) -> str:
    choice = body.get("tool_choice")
    name: str = (choice if isinstance(choice, dict) else body["tools"][0])["function"]["name"]
    return name


def has_picture(body: Body) -> bool:
    return any(isinstance(message["content"], list) for message in body["messages"])


def tolerant_objection(body: Body) -> str | None:
    """The strict engine's objections, except where templates decide: developer messages, and system messages that come late."""
    kept = [
        message
        for at, message in enumerate(body["messages"])
        if message["role"] != "developer" and (message["role"] != "system" or at == 0)
    ]
    return objection({**body, "messages": kept})


# ---- prompts ---------------------------------------------------------------------------------------------------------


def prompt_of(body: Body, *, roles: str = "system user assistant", tools: bool) -> str:
    """What a template makes of a request: messages of the roles that it knows, with their thoughts; and the tools, their calls
    and results if it shows them."""
    known, members = roles.split(), ["content", "reasoning", "reasoning_content"]
    if tools:
        known, members = [*known, "tool"], [*members, "tool_calls"]
    parts = [str(message.get(member, "")) for message in body["messages"] if message["role"] in known for member in members]
    return "\n".join(parts + ([str(body.get("tools", ""))] if tools else []))


def counted(prompt: str) -> dict[str, int]:
    read = len(prompt.split())
    return {"prompt_tokens": read, "completion_tokens": 1, "total_tokens": read + 1}


# ---- recorded streams ------------------------------------------------------------------------------------------------


def restamped(name: str, body: Body, prompt: str, *, content: str | None = None, arguments: str | None = None) -> bytes:
    """A recorded stream as if it had answered this request. New content or arguments are spread over the old pieces."""
    chunks = [
        msgspec.json.decode(frame.removeprefix("data: "))
        for frame in (STREAMS / f"{name}.sse").read_text().split("\n\n")
        if frame.startswith("data: {")
    ]
    deltas = [choice["delta"] for stamped in chunks for choice in stamped["choices"]]
    for stamped in chunks:
        stamped["model"] = body["model"]
        if stamped.get("usage"):
            stamped["usage"] = counted(prompt)
    functions = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    for function in functions:
        if "name" in function:
            function["name"] = wanted_name(body)
    if content is not None:
        _spread(content, [delta for delta in deltas if delta.get("content")], "content")
    if arguments is not None:
        _spread(arguments, [function for function in functions if function.get("arguments")], "arguments")
    return b"".join(b"data: " + msgspec.json.encode(stamped) + b"\n\n" for stamped in chunks) + b"data: [DONE]\n\n"


def _spread(text: str, places: list[dict[str, Any]], member: str) -> None:
    size = -(-len(text) // len(places))
    for at, place in enumerate(places):
        place[member] = text[at * size : (at + 1) * size]


# ---- the engines -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    owned_by: str
    refuses: Callable[[Body], str | None]
    answers: Callable[[Body], Answer]
    paths: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    def engine(self) -> MockEngine:
        engine = MockEngine(owned_by=self.owned_by, paths=self.paths)
        engine._models["data"][0].update(self.model)
        engine.objects_to = self.refuses
        engine.otherwise = self.answers
        return engine


NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
NOT_MULTIMODAL = "mock is not a multimodal model"
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


def _vllm_refuses(body: Body) -> str | None:
    return NOT_MULTIMODAL if has_picture(body) else tolerant_objection(body)


def _vllm_answers(body: Body) -> bytes:
    """With a Hermes template, and parsers for calls and for reasoning."""
    prompt = prompt_of(body, tools=True)
    recorded: dict[str, tuple[str, dict[str, str]]] = {
        "json": ("jsonschema", {"content": FITTING}),
        "named": ("toolcall_named", {}),
        "required": ("toolcall_required", {}),
        # Arguments follow the schema only with `strict: true`.
        "strict": ("toolcall_required", {"arguments": FITTING}),
        "logprobs": ("logprobs", {}),
        "two calls": ("toolcall_parallel", {}),
        "puzzle": ("reasoning", {}),
        "text": ("text" if body.get("max_completion_tokens") != 1 else "maxtokens", {}),
    }
    name, stamps = recorded[shape(body)]
    return restamped(f"vllm_chat_{name}_stream", body, prompt, **stamps)


def _bare_vllm_refuses(body: Body) -> str | None:
    """Without flags, and with a template like Gemma 2's: no system role, and turns that alternate."""
    roles = [message["role"] for message in body["messages"]]
    if body.get("tool_choice") == "auto":
        return NO_PARSER
    if "system" in roles:
        return "System role not supported"
    if "developer" in roles or any(one == other for one, other in pairwise(roles)):
        return ALTERNATE
    return _vllm_refuses(body)


def _bare_vllm_answers(body: Body) -> bytes:
    if shape(body) == "puzzle":
        return restamped("vllm_chat_text_stream", body, "", content="<think>\nSeventeen, and more.\n</think>\n\n42.")
    return _vllm_answers(body)


def _told(*pieces: bytes, shown: str) -> bytes:
    """A whole answer, its usage counted from what the template shows."""
    return b"".join([chunk({"role": "assistant"}), *pieces, chunk(finish="stop"), chunk(usage=counted(shown)), DONE])


def _ollama_call(name: str, at: int) -> bytes:
    """Whole arguments in one chunk; parallel calls all carry index 0."""
    function = {"name": name, "arguments": FITTING}
    return chunk({"tool_calls": [{"index": 0, "id": f"call_{at}", "type": "function", "function": function}]})


def _ollama_answers(body: Body) -> bytes:
    """tool_choice and logprobs are ignored, a schema is kept, and a role that the template does not know is dropped."""
    said = {
        "json": [chunk({"content": FITTING})],
        "two calls": [_ollama_call(tool["function"]["name"], at) for at, tool in enumerate(body.get("tools", ()))],
        "puzzle": [chunk({"reasoning": "Seventeen, and more."}), chunk({"content": "42."})],
    }
    pieces = said.get(shape(body), [chunk({"content": "Hello"}), chunk({"content": " there, and a good day to you."})])
    return _told(*pieces, shown=prompt_of(body, tools=True))


def _ollama(capabilities: list[str], refuses: Callable[[Body], str | None]) -> Kind:
    show = {"capabilities": capabilities, "model_info": {"qwen3.context_length": 40960}}
    paths = {"/api/version": {"version": "0.15.2"}, "/api/show": lambda body: show if body["model"] == "mock" else {}}
    return Kind("library", refuses, _ollama_answers, paths)


def _ollama_refuses(body: Body) -> str | None:
    if has_picture(body):
        return "this model is missing data required for image input"
    # Unknown fields are passed over; max_tokens is the only limit that is read.
    assert "max_completion_tokens" not in body
    return tolerant_objection(body)


def _toolless_ollama_refuses(body: Body) -> str | None:
    return "library/mock does not support tools" if body.get("tools") else _ollama_refuses(body)


def _lmdeploy_refuses(body: Body) -> str | None:
    if body.get("tools") and body.get("tool_choice") != "none":
        return "Please launch the api_server with --tool-call-parser if you want to use tool."
    if body.get("logprobs"):
        return "logprobs requested but not enabled logprobs_mode in engine configuration."
    return NOT_MULTIMODAL if has_picture(body) else tolerant_objection(body)


def _lmdeploy_answers(body: Body) -> bytes:
    """Tools that may not be called are not shown either."""
    pieces = [chunk({"content": FITTING if shape(body) == "json" else "Hello."}, usage=None)]
    return _told(*pieces, shown=prompt_of(body, tools=False))


KINDS: dict[str, Kind] = {
    "vllm": Kind(
        "vllm", _vllm_refuses, _vllm_answers, {"/tokenize": lambda body: {"tokens": TOKENS}}, {"max_model_len": 32768}
    ),
    "vllm without flags": Kind("vllm", _bare_vllm_refuses, _bare_vllm_answers, {}, {"max_model_len": 2048}),
    "ollama": _ollama(["completion", "tools", "thinking"], _ollama_refuses),
    "ollama without tools": _ollama(["completion"], _toolless_ollama_refuses),
    "lmdeploy without a tool parser": Kind(
        "lmdeploy", _lmdeploy_refuses, _lmdeploy_answers, {"/v1/encode": lambda body: {"input_ids": TOKENS}}
    ),
}
