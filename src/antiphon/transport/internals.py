"""The aiohttp internals that the fast transport needs, and whether the installed aiohttp has them."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

# Class → the attributes used. An aiohttp without one of them is used by its public API only.
NEEDED: Mapping[str, Sequence[str]] = {
    "aiohttp.http_parser.DeflateBuffer": ("feed_data", "feed_eof"),
    "aiohttp.http_writer.StreamWriter": ("transport", "chunked", "drain", "_eof"),
}
# Attributes that only instances have: they are looked for in the code of `__init__`.
NEEDED_OF_INSTANCES: Mapping[str, Sequence[str]] = {
    "aiohttp.http_writer.StreamWriter": ("_headers_buf", "_headers_written"),
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
