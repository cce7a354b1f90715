"""JSON as an answer."""

from typing import Any

import msgspec
from aiohttp import web


def to_json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
