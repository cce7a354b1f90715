"""The aiohttp internals that the fast transport needs, and whether the installed aiohttp has them."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

# Class → the attributes used. An aiohttp without one of them is used by its public API only.
NEEDED: Mapping[str, Sequence[str]] = {
    "aiohttp.http_parser.DeflateBuffer": ("feed_data", "feed_eof"),
    "aiohttp.http_writer.StreamWriter": ("transport", "chunked", "drain", "_eof"),
    "aiohttp.http_writer._serialize_headers": (),
    "aiohttp.http_parser.RawRequestMessage": (),
    "aiohttp.helpers.rfc822_formatted_time": (),
    "aiohttp.base_protocol.BaseProtocol": ("_drain_helper",),
    "aiohttp.tcp_helpers.tcp_keepalive": (),
    "aiohttp.web_request.Request": ("_match_info", "_read_bytes"),
    "aiohttp.web_response.Response": (
        *("_body", "_chunked", "_compression", "_cookies", "_keep_alive", "_must_be_empty_body", "_payload_writer", "_req"),
    ),
}
# Attributes that only instances have: they are looked for in the code of `__init__`.
NEEDED_OF_INSTANCES: Mapping[str, Sequence[str]] = {
    "aiohttp.http_writer.StreamWriter": ("_headers_buf", "_headers_written"),
    "aiohttp.base_protocol.BaseProtocol": ("_paused",),
    "aiohttp.web_request.BaseRequest": ("_payload_writer", "_protocol"),
    "aiohttp.web_app.Application": ("_client_max_size",),
}


def find_missing(
    needed: Mapping[str, Sequence[str]] = NEEDED, of_instances: Mapping[str, Sequence[str]] = NEEDED_OF_INSTANCES
) -> list[str]:
    """The names of those that are not there."""
    missing = []
    for path, names in needed.items():
        found = _find(path)
        missing += [path] if found is None else [f"{path}.{name}" for name in names if not hasattr(found, name)]
    for path, names in of_instances.items():
        code = getattr(getattr(_find(path), "__init__", None), "__code__", None)
        missing += [f"{path}().{name}" for name in names if code is None or name not in code.co_names]
    return missing


def _find(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
