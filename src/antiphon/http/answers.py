"""JSON as an answer, and notices as its header."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

LONGEST_HEADER = 4000


def to_json(value: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", headers=headers)


def notice_header(notices: Sequence[str]) -> dict[str, str]:
    text = "; ".join(notices)[:LONGEST_HEADER]
    if not text:
        return {}
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return {"antiphon-notice": plain}
