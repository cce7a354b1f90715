"""What Antiphon emits, validated against the schemas of OpenAI and of Open Responses.

Both documents are JSON Schema inside OpenAPI 3.1. Two things are changed when they are read: a union whose variants are told
apart by their `type` is dispatched by it, so that an error names the member that is wrong and not "none of 28 variants"; any
other `oneOf` is read as `anyOf`, because variants overlap.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
from conformance.deviations import DEVIATIONS

Schema = dict[str, Any]
FOLDER = Path(__file__).parent / "schemas"
EVENTS = "text/event-stream"
JSON = "application/json"
LONGEST_MESSAGE = 200
# What a message quotes may be as long as an answer.
_VALUE = re.compile(r"^[{\[].*[}\]](?= is )", re.DOTALL)
_PARAMETER = re.compile(r"\{[^}]*\}")


class Violation(NamedTuple):
    document: str
    schema: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.document} {self.schema}: {self.path or 'the whole'}: {self.message}"


class Document:
    """One API document, and validators for what it describes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._document = json.loads((FOLDER / f"{name}.json").read_text())
        self._raw: dict[str, Schema] = self._document["components"]["schemas"]
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    @cached_property
    def _schemas(self) -> dict[str, Schema]:
        return {name: self._readable(schema, name) for name, schema in self._raw.items()}

    @cached_property
    def routes(self) -> dict[tuple[str, str], dict[str, Schema]]:
        """(method, path) → media type → schema. Names in the path are left out, because they differ."""
        return {
            (method.upper(), anonymous(path)): {
                kind: content["schema"] for kind, content in route["responses"]["200"]["content"].items()
            }
            for path, methods in self._document["paths"].items()
            for method, route in methods.items()
        }

    @cached_property
    def events(self) -> dict[str, Schema]:
        """Event type → its schema."""
        variants = self._by_type(self._variants(self.routes["POST", "/responses"][EVENTS]))
        return {kind: schema for kind, (schema,) in variants.items()}

    def named(self, name: str) -> Schema | None:
        return {"$ref": f"#/components/schemas/{name}"} if name in self._raw else None

    def violations(self, value: Any, schema: Schema) -> Iterator[Violation]:
        validator = self._validator(schema)
        if validator.is_valid(value):
            return
        for error in validator.iter_errors(value):
            message = _VALUE.sub("the value", error.message)[:LONGEST_MESSAGE]
            found = Violation(self.name, _name(schema), to_path(error.instance_path), message)
            if not any(known.covers(self.name, found.path, error.instance, error.message) for known in DEVIATIONS):
                yield found

    def _validator(self, schema: Schema) -> jsonschema_rs.Draft202012Validator:
        key = _name(schema)
        if key not in self._validators:
            whole = {**self._readable(schema, key), "components": {"schemas": self._schemas}}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[key]

    # ---- unions ------------------------------------------------------------------------------------------------------

    def _readable(self, schema: Any, owner: str) -> Any:
        if isinstance(schema, list):
            return [self._readable(entry, owner) for entry in schema]
        if not isinstance(schema, dict):
            return schema
        if "$recursiveRef" in schema:
            return {"$ref": f"#/components/schemas/{owner}"}
        rest = {
            key: self._readable(value, owner) for key, value in schema.items() if key not in ("oneOf", "anyOf", "discriminator")
        }
        variants = schema.get("oneOf") or schema.get("anyOf")
        if not isinstance(variants, list):
            return rest
        return {**rest, **self._union(variants, owner)}

    def _union(self, variants: list[Schema], owner: str) -> Schema:
        typed = [variant for variant in variants if self._types(variant)]
        others = [variant for variant in variants if not self._types(variant)]
        by_type = self._by_type(self._flat(typed))
        if not by_type or any(self._resolved(other).get("type") not in ("null", "string") for other in others):
            return {"anyOf": [self._readable(variant, owner) for variant in variants]}
        dispatched = self._dispatched(by_type, owner)
        otherwise = {"anyOf": self._readable(others, owner)} if others else False
        return {"if": {"type": "object"}, "then": dispatched, "else": otherwise}

    def _dispatched(self, by_type: dict[str, list[Schema]], owner: str) -> Schema:
        return {
            "required": ["type"],
            "properties": {"type": {"enum": list(by_type)}},
            "allOf": [
                {"if": {"properties": {"type": {"const": kind}}}, "then": self._one_of(alike, owner)}
                for kind, alike in by_type.items()
            ],
        }

    def _one_of(self, alike: list[Schema], owner: str) -> Schema:
        readable = [self._readable(variant, owner) for variant in alike]
        return readable[0] if len(readable) == 1 else {"anyOf": readable}

    def _by_type(self, variants: Iterable[Schema]) -> dict[str, list[Schema]]:
        found: dict[str, list[Schema]] = {}
        for variant in variants:
            for kind in self._types(variant):
                found.setdefault(kind, []).append(variant)
        return found

    def _flat(self, variants: Iterable[Schema]) -> list[Schema]:
        return [inner for variant in variants for inner in self._variants(variant)]

    def _variants(self, schema: Schema) -> list[Schema]:
        """A union within a union is taken apart."""
        resolved = self._resolved(schema)
        inner = resolved.get("oneOf") or resolved.get("anyOf")
        return self._flat(inner) if inner else [schema]

    def _types(self, schema: Schema) -> list[str]:
        """The values that `type` has in this variant; none if it does not require one."""
        resolved = self._resolved(schema)
        inner = resolved.get("oneOf") or resolved.get("anyOf")
        if inner:
            types = [self._types(variant) for variant in inner]
            return [kind for kinds in types for kind in kinds] if all(types) else []
        own: Schema = resolved.get("properties", {}).get("type", {})
        kinds = [own["const"]] if "const" in own else own.get("enum", [])
        return kinds if "type" in resolved.get("required", []) else []

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._raw[schema["$ref"].rpartition("/")[2]]
        # Without its description, a part may be empty.
        parts = [part for part in schema.get("allOf", ()) if part]
        if len(parts) == 1 and len(schema) == 1:
            return self._resolved(parts[0])
        if not parts:
            return schema
        merged: Schema = {"properties": dict(schema.get("properties", {})), "required": list(schema.get("required", []))}
        for part in map(self._resolved, parts):
            merged["properties"] |= part.get("properties", {})
            merged["required"] += part.get("required", [])
        return merged


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2] if "$ref" in schema else json.dumps(schema)


def anonymous(path: str) -> str:
    return _PARAMETER.sub("{}", path)


def to_path(steps: Iterable[str | int]) -> str:
    """`output[].content[].text`: which entry of a list it was does not matter."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


@cache
def documents() -> tuple[Document, ...]:
    return Document("openai"), Document("open_responses")
