"""The names that the openai SDK knows, read from its types: of fields, items, parts, tools, choices, events and routes."""

import inspect
import types
import typing
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import httpx2
import openai
from openai.types.responses import (
    ResponseInputContentParam,
    ResponseInputItemParam,
    ResponseOutputItem,
    ResponseStreamEvent,
    ToolParam,
    response_create_params,
    response_output_message,
)
from openai.types.responses.responses_client_event import ResponsesClientEvent
from openai.types.responses.responses_server_event import ResponsesServerEvent
from pydantic import BaseModel

# Stands for every id in a path.
ID = "ID"
WRAPPERS = (typing.Annotated, typing.Required, typing.NotRequired)
# Methods that are another method with something on top, or no request of their own.
NOT_ROUTES = {"parse"}


def names() -> dict[str, set[str]]:
    """Kind → the names of its things, as the manifest has them."""
    fields = typing.get_type_hints(response_create_params.ResponseCreateParamsStreaming)
    return {
        "request field": set(fields),
        "input item": set(_types(ResponseInputItemParam)),
        "content part": set(_types(ResponseInputContentParam)) | set(_types(response_output_message.Content)),
        "tool": set(_types(ToolParam)),
        "tool choice": set(_types(response_create_params.ToolChoice)),
        "output item": set(_types(ResponseOutputItem)),
        "event": set(_types(ResponseStreamEvent)) | set(_types(ResponsesServerEvent)),
        "client message": set(_types(ResponsesClientEvent)),
        "route": set(_routes()) | {"WEBSOCKET /responses"},
    }


def _types(union: Any) -> Iterator[str]:
    """The `type` of each variant; of a variant that is a literal, its values."""
    for variant in _variants(union):
        if typing.get_origin(variant) is typing.Literal:
            yield from typing.get_args(variant)
        else:
            yield from _literals(_hint(variant, "type"))


def _variants(kind: Any) -> Iterator[Any]:
    origin = typing.get_origin(kind)
    if origin in WRAPPERS:
        yield from _variants(typing.get_args(kind)[0])
    elif origin is typing.Union or isinstance(kind, types.UnionType):
        for inner in typing.get_args(kind):
            yield from _variants(inner)
    else:
        yield kind


def _hint(variant: Any, name: str) -> Any:
    if issubclass(variant, BaseModel):
        return variant.model_fields[name].annotation
    return typing.get_type_hints(variant)[name]


def _literals(kind: Any) -> Iterator[str]:
    for inner in _variants(kind):
        yield from typing.get_args(inner)


# ---- routes ----------------------------------------------------------------------------------------------------------


def _routes() -> Iterator[str]:
    """Every method is called, and its request looked at."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.path.replace(ID, '{id}')}")
        return httpx2.Response(200, json={})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = openai.OpenAI(api_key="none", base_url="http://test", http_client=http)
        for resource in (client.responses, client.conversations, client.models):
            _call_all(resource)
    return iter(asked)


def _call_all(resource: Any) -> None:
    # What can be asked for raw is what the API has; everything else is made of it.
    for name, method in vars(resource.with_raw_response).items():
        if not name.startswith("_") and name not in NOT_ROUTES:
            wanted = inspect.signature(getattr(resource, name)).parameters.values()
            required = [parameter for parameter in wanted if parameter.default is parameter.empty]
            method(**{parameter.name: [] if parameter.name == "items" else ID for parameter in required})
    for name in dir(type(resource)):
        if isinstance(inspect.getattr_static(type(resource), name), cached_property) and not name.startswith("with_"):
            _call_all(getattr(resource, name))
