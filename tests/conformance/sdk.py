"""The names that the openai SDK knows, read from its types: of fields, items, parts, tools, choices, events and routes."""

import inspect
import types
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache, cached_property
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
NOT_ROUTES = {"parse", "upload_file_chunked"}
NOT_PARAMETERS = {"extra_headers", "extra_query", "extra_body", "timeout"}
OF_MODELS = ("GET /models/", "DELETE /models/")
# What stands for a parameter that cannot be a string.
DUMMIES: dict[str, Any] = {"items": [], "file": b"", "data": b""}
# Its parameters are the request fields.
CREATE = "POST /responses"


@cache
def names() -> dict[str, set[str]]:
    """Kind → the names of its things, as the manifest has them."""
    fields = typing.get_type_hints(response_create_params.ResponseCreateParamsStreaming)
    return {
        "request field": set(fields),
        "input item": set(types_of(ResponseInputItemParam)),
        "content part": set(types_of(ResponseInputContentParam)) | set(types_of(response_output_message.Content)),
        "tool": set(types_of(ToolParam)),
        "tool choice": set(types_of(response_create_params.ToolChoice)),
        "output item": set(types_of(ResponseOutputItem)),
        "event": set(types_of(ResponseStreamEvent)) | set(types_of(ResponsesServerEvent)),
        "client message": set(types_of(ResponsesClientEvent)),
        "route": _routes().keys() | {"WEBSOCKET /responses"},
        "parameter": {f"{route} {name}" for route, names in _routes().items() if route != CREATE for name in names},
    }


def types_of(union: Any) -> Iterator[str]:
    """The `type` of each variant; of a variant that is a literal, its values."""
    for variant in variants(union):
        if typing.get_origin(variant) is typing.Literal:
            yield from typing.get_args(variant)
        else:
            yield from literals(_hint(variant, "type"))


def variants(kind: Any) -> Iterator[Any]:
    origin = typing.get_origin(kind)
    if origin in WRAPPERS:
        yield from variants(typing.get_args(kind)[0])
    elif origin is typing.Union or isinstance(kind, types.UnionType):
        for inner in typing.get_args(kind):
            yield from variants(inner)
    else:
        yield kind


def _hint(variant: Any, name: str) -> Any:
    if issubclass(variant, BaseModel):
        return variant.model_fields[name].annotation
    return typing.get_type_hints(variant)[name]


def literals(kind: Any) -> Iterator[str]:
    for inner in variants(kind):
        yield from typing.get_args(inner)


# ---- routes ----------------------------------------------------------------------------------------------------------


@cache
def _routes() -> dict[str, set[str]]:
    def resources(http: httpx2.Client) -> list[Any]:
        client = openai.OpenAI(api_key="none", base_url="http://test", http_client=http)
        return [
            *(client.responses, client.conversations, client.models, client.files, client.vector_stores),
            *(client.containers, client.batches, client.uploads),
        ]

    return routes_of(resources, NOT_ROUTES, DUMMIES)


def routes_of(
    resources: Callable[[httpx2.Client], Iterable[Any]], left_out: Container[str], dummies: Mapping[str, Any]
) -> dict[str, set[str]]:
    """Route → the names of its parameters, in the query or in the body. Every method is called, and its request looked at.
    `left_out`: methods. `dummies`: what stands for a parameter that cannot be a string."""
    found: dict[str, set[str]] = {}
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        for method in (method for resource in resources(http) for method in _methods(resource, left_out)):
            parameters = inspect.signature(method).parameters
            required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
            method(**{name: dummies.get(name, ID) for name in required})
            route = f"{asked[-1].method} {asked[-1].url.path.removeprefix('/v1').replace(ID, '{id}')}"
            in_path = {name for name in required if name.endswith("_id") or route.startswith(OF_MODELS)}
            found.setdefault(route, set()).update(parameters.keys() - in_path - NOT_PARAMETERS)
    return found


def _methods(resource: Any, left_out: Container[str]) -> Iterator[Any]:
    # What can be asked for raw is what the API has; everything else is made of it.
    for name in vars(resource.with_raw_response):
        if not name.startswith("_") and name not in left_out:
            yield getattr(resource, name)
    for name in dir(type(resource)):
        if isinstance(inspect.getattr_static(type(resource), name), cached_property) and not name.startswith("with_"):
            yield from _methods(getattr(resource, name), left_out)
