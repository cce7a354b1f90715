"""The model that a body names. Every other field is read where the request is."""

from typing import Any

import msgspec
from aiohttp import web

from antiphon.core.json_errors import unreadable_to_error
from antiphon.wire import UNREADABLE


async def read_body(request: web.Request) -> bytes:
    body = await request.read()
    return with_deployment(request, body) if "deployment" in request.match_info else body


def with_deployment(request: web.Request, body: bytes) -> bytes:
    """The body; if it names no model, with the deployment of the path as its model."""
    deployment = request.match_info.get("deployment")
    if deployment is None or model_of(body) is not None:
        return body
    return with_model(body, deployment)


def model_of(body: bytes) -> str | None:
    value = _decode(body)
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


def with_model(body: bytes, model: str) -> bytes:
    value = _decode(body)
    return msgspec.json.encode(value | {"model": model}) if isinstance(value, dict) else body


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except UNREADABLE as broken:
        raise unreadable_to_error(str(broken), body) from None
