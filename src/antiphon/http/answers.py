"""JSON as an answer."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web


def to_json(value: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", headers=headers)
