"""The names that the anthropic SDK knows, read from its types: of fields, blocks, tools, events, errors and routes."""

import re
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

import anthropic
import httpx2
from anthropic.types import beta
from anthropic.types import message_create_params as create
from anthropic.types.beta import message_create_params as beta_create
from anthropic.types.beta import messages as batches
from anthropic.types.shared.error_type import ErrorType
from conformance.sdk import literals, routes_of, types_of, variants
from pydantic import BaseModel

# Members of every block and every tool that say what it is, or where Anthropic's servers keep a cache.
COMMON = frozenset({"type", "cache_control"})
# `web_search_20250305`: tools have the same members in most versions.
VERSION = re.compile(r"_\d{8}$")
CREATE = "POST /messages"
# Of every request: they are request fields.
HEADERS = frozenset({"betas", "workspace_id", "user_profile_id"})
# At the address that a batch has.
RESULTS_ROUTE = "GET /messages/batches/{id}/results"
# Methods that make no request of their own.
NOT_ROUTES = frozenset({"stream", "parse", "tool_runner", "thread", "results"})


@cache
def names() -> dict[str, set[str]]:
    """Kind → the names of its things, as the manifest has them."""
    fields = _fields()
    return {
        "request field": set(fields),
        "member": set(_members_of_fields(fields)),
        "context edit": {_type_of(edit) for edit in _edits(fields)},
        "input block": set(_blocks(fields)),
        "block member": {f"{kind}.{name}" for kind, block in _blocks(fields).items() for name in _own(block)},
        "source": {f"{kind} {name}" for kind in ("image", "document") for name in _sources(fields, kind)},
        "tool": {kind for tool in _tools(fields) for kind in _types(tool)},
        "tool member": {f"{_base(tool)}.{name}" for tool in _tools(fields) for name in _own(tool) - {"name"}},
        "tool choice": set(types_of(fields["tool_choice"])),
        "answer block": set(types_of(beta.BetaContentBlock)),
        "event": {*types_of(beta.BetaRawMessageStreamEvent), "ping", "error"},
        "delta": set(types_of(beta.BetaRawContentBlockDelta)),
        "citation": set(types_of(_hints(beta.BetaCitationsDelta)["citation"])),
        "stop reason": set(literals(beta.BetaStopReason)),
        "usage member": {*_flat(beta.BetaUsage), *_flat(beta.BetaMessageDeltaUsage)},
        "message member": set(_hints(beta.BetaMessage)),
        "error type": set(literals(ErrorType)),
        "model member": set(_hints(beta.BetaModelInfo)),
        "file member": set(_hints(beta.BetaFileMetadata)),
        "batch member": set(_hints(batches.BetaMessageBatch)),
        "route": {*_routes(), RESULTS_ROUTE},
        "parameter": {f"{route} {name}" for route, names in _routes().items() if route != CREATE for name in names - HEADERS},
    }


# ---- types -----------------------------------------------------------------------------------------------------------


def _hints(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return typing.get_type_hints(kind)


def _is_object(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "__total__") or issubclass(kind, BaseModel))


def _objects(kind: Any) -> Iterator[Any]:
    """Those of a union, or of a list of them."""
    for variant in variants(kind):
        if _is_object(variant):
            yield variant
        elif (inner := typing.get_args(variant)) and typing.get_origin(variant) not in (typing.Literal, dict):
            yield from _objects(inner[0])


def _types(kind: Any) -> list[str]:
    return list(literals(_hints(kind)["type"])) if "type" in _hints(kind) else []


def _type_of(kind: Any) -> str:
    (only,) = _types(kind)
    return only


def _own(kind: Any) -> set[str]:
    return set(_hints(kind)) - COMMON


def _flat(kind: Any) -> Iterator[str]:
    """Members, and those of the objects among them."""
    for name, hint in _hints(kind).items():
        yield name
        # A list has another entry for each step.
        for inner in (variant for variant in variants(hint) if _is_object(variant)):
            yield from (f"{name}.{each}" for each in _hints(inner))


# ---- the request -----------------------------------------------------------------------------------------------------


def _fields() -> dict[str, Any]:
    kinds = (
        *(create.MessageCreateParamsNonStreaming, create.MessageCreateParamsStreaming),
        *(beta_create.MessageCreateParamsNonStreaming, beta_create.MessageCreateParamsStreaming),
    )
    return {name: hint for kind in kinds for name, hint in _hints(kind).items()}


# Fields of which nothing is made, so that it does not matter what is in them; and those that have kinds of their own.
WHOLE = frozenset({"billing_policy", "diagnostics", "fallbacks", "fallback_credit_token", "cache_control"})
OTHER_KINDS = frozenset({"tools", "tool_choice", "system", "betas", "model"})


def _members_of_fields(fields: dict[str, Any]) -> Iterator[str]:
    for name, hint in fields.items():
        if name not in WHOLE | OTHER_KINDS:
            yield from (f"{name}.{member}" for each in _objects(hint) for member in _hints(each))
    yield from (f"{_type_of(edit)}.{member}" for edit in _edits(fields) for member in _own(edit))
    yield "tool_choice.name"
    yield "tool_choice.disable_parallel_tool_use"
    (server,) = _objects(fields["mcp_servers"])
    (configuration,) = _objects(_hints(server)["tool_configuration"])
    yield from (f"mcp_servers.tool_configuration.{member}" for member in _hints(configuration))


def _edits(fields: dict[str, Any]) -> list[Any]:
    (management,) = _objects(fields["context_management"])
    return list(_objects(_hints(management)["edits"]))


@cache
def _block_kinds(start: Any) -> dict[str, Any]:
    """The blocks that a list of content can have, and those within them."""
    found: dict[str, Any] = {}
    waiting = [start]
    while waiting:
        for kind in _objects(waiting.pop()):
            # What comes back in an answer has the same type as what is sent.
            types = [] if issubclass(kind, BaseModel) else _types(kind)
            if len(types) == 1 and types[0] not in found:
                found[types[0]] = kind
                waiting += [hint for name, hint in _hints(kind).items() if name in ("content", "tool_changes")]
                waiting += [
                    _hints(source)["content"] for source in _objects(_hints(kind).get("source")) if "content" in _hints(source)
                ]
    return found


def _blocks(fields: dict[str, Any]) -> dict[str, Any]:
    messages = _objects(fields["messages"])
    found = {kind: block for message in messages for kind, block in _block_kinds(_hints(message)["content"]).items()}
    # What is in the results of servers' tools stands for itself.
    return {
        kind: block for kind, block in found.items() if not kind.endswith(("_result", "_output", "_error")) or kind in RESULTS
    }


# Blocks, and no parts of one.
RESULTS = frozenset(
    {"tool_result", "search_result"}
    | {
        f"{tool}_tool_result"
        for tool in (
            *("web_search", "web_fetch", "code_execution", "bash_code_execution", "text_editor_code_execution"),
            *("tool_search", "mcp", "advisor"),
        )
    }
    | {"mcp_tool_result"}
)


def _sources(fields: dict[str, Any], kind: str) -> Iterator[str]:
    yield from types_of(_hints(_blocks(fields)[kind])["source"])


def _tools(fields: dict[str, Any]) -> list[Any]:
    return list(_objects(fields["tools"]))


def _base(tool: Any) -> str:
    return VERSION.sub("", _types(tool)[0])


# ---- routes ----------------------------------------------------------------------------------------------------------

# What stands for a parameter that cannot be a string.
DUMMIES: dict[str, Any] = {"max_tokens": 1, "messages": [], "requests": [], "file": ("a.txt", b"a"), "stream": False}


@cache
def _routes() -> dict[str, set[str]]:
    def resources(http: httpx2.Client) -> list[Any]:
        client = anthropic.Anthropic(api_key="none", base_url="http://test", http_client=http, max_retries=0)
        return [each for at in (client, client.beta) for each in (at.messages, at.models, at.files)]

    return routes_of(resources, NOT_ROUTES, DUMMIES)
