"""Which schemas engines can be relied on to enforce, and the schemas inside a schema.

It is apart from `schemas`, whose libraries are large.
"""

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]
ANY_OBJECT: Schema = {"type": "object"}

# The keywords that have schemas inside: one, a list of them, several by name.
INNER = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
INNER_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
INNER_NAMED = ("properties", "$defs", "definitions", "patternProperties")
# What every engine that constrains its answers enforces: what grammars can express everywhere. OpenAI's strict mode accepts
# the same keywords.
ENFORCED = frozenset(
    "type properties required additionalProperties enum const items anyOf $ref $defs definitions minItems maxItems "
    "title description default examples $schema $id".split()
)


def with_inner(schema: Schema, change: Callable[[Any], Any]) -> Schema:
    """The schema with `change` applied to each schema directly inside it."""
    changed = dict(schema)
    for name, value in schema.items():
        if name in INNER_NAMED and isinstance(value, dict):
            changed[name] = {key: change(inner) for key, inner in value.items()}
        elif name in INNER_LISTS and isinstance(value, list):
            changed[name] = [change(inner) for inner in value]
        elif name in INNER:
            changed[name] = change(value)
    return changed


def is_enforced(schema: Any) -> bool:
    """An engine that constrains its answers enforces everything in this schema."""
    if not isinstance(schema, dict):
        return True
    enforced = [schema.keys() <= ENFORCED]
    with_inner(schema, lambda inner: enforced.append(is_enforced(inner)))
    return all(enforced)
