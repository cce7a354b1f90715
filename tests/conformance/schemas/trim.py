"""Cuts a published API document down to the structure of what Antiphon emits.

python tests/conformance/schemas/trim.py DOCUMENT.json > openai.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROUTES = ("/responses", "/conversations", "/models", "/files", "/vector_stores", "/containers", "/batches", "/uploads")
# Of no route: the events of a WebSocket, and the body of an error.
ALSO = ("ResponsesServerEvent", "WebSocketErrorEvent", "Error")
PROSE = {"description", "example", "examples", "title"}


def trimmed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    paths = {path: _routes(methods) for path, methods in document["paths"].items() if _is_ours(path)}
    wanted, found = [*_references(paths), *(name for name in ALSO if name in schemas)], {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _structure(schemas[name])
            wanted += _references(found[name])
    kept = {name: found[name] for name in sorted(found)}
    return {"openapi": document["openapi"], "info": document["info"], "paths": paths, "components": {"schemas": kept}}


def _is_ours(path: str) -> bool:
    return path.startswith(ROUTES) and "?" not in path


def _routes(methods: dict[str, Any]) -> dict[str, Any]:
    """Of each method only what it answers."""
    return {
        method: {"responses": {"200": {"content": _structure(route["responses"]["200"].get("content", {}))}}}
        for method, route in methods.items()
        if "responses" in route
    }


def _structure(schema: Any, *, names: bool = False) -> Any:
    """`names`: the keys are names of properties, and not keywords."""
    if isinstance(schema, list):
        return [_structure(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _structure(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or (key not in PROSE and not key.startswith("x-"))
    }


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for entry in schema:
            yield from _references(entry)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from _references(value)


def to_lines(document: dict[str, Any]) -> str:
    """One line per schema, so that the difference between two versions can be read."""
    schemas = document.pop("components")["schemas"]
    head = json.dumps(document)[:-1]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(schema)}" for name, schema in schemas.items())
    return f'{head}, "components": {{"schemas": {{\n{lines}\n}}}}}}\n'


if __name__ == "__main__":
    sys.stdout.write(to_lines(trimmed(json.loads(Path(sys.argv[1]).read_text()))))
