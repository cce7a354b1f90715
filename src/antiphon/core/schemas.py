"""JSON schemas: whether a text follows one, what is wrong if not, and the mending of a text that nearly does."""

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import json_repair
import jsonschema_rs
import msgspec

from antiphon.errors import InvalidRequest
from antiphon.wire import UNREADABLE

Schema = dict[str, Any]

# A longer text is validated, but not mended: mending looks at every character several times.
LONGEST_MENDED = 64 * 1024
LONGEST_COMPLAINT = 300
MOST_COMPLAINTS = 3
# What msgspec says of such a number.
OUT_OF_RANGE = "Number out of range"
# Where schemas stand inside a schema: as it is, in a list, by name.
INNER = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
INNER_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
INNER_NAMED = ("properties", "$defs", "definitions", "patternProperties")
# What an engine that constrains its answers can be relied on to keep: the part that grammars are made of everywhere. It is
# also the part that OpenAI's strict mode takes.
KEPT = frozenset(
    "type properties required additionalProperties enum const items anyOf $ref $defs definitions minItems maxItems "
    "title description default examples $schema $id".split()
)
_FENCED = re.compile(r"```[a-zA-Z_]*\n(?P<inside>.*?)```", re.DOTALL)


def refuse_retrieval(address: str) -> Any:
    raise ValueError(f"{address} is not looked up: a schema has to be whole")


@lru_cache(maxsize=256)
def _compiled(encoded: bytes) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(msgspec.json.decode(encoded), retriever=refuse_retrieval)


class SchemaCheck:
    """A text that must be JSON that follows a schema. `held`: nothing of it is told before it is whole."""

    binding = True

    def __init__(self, schema: Schema, where: str, *, held: bool = True) -> None:
        self._schema = schema
        self.held = held
        try:
            self._validator = _compiled(msgspec.json.encode(schema))
        except (ValueError, RecursionError) as wrong:
            reason = str(wrong).partition("\n")[0][:LONGEST_COMPLAINT]
            raise InvalidRequest(f"Invalid `{where}`: this is no JSON schema: {reason}.", param=where) from None

    def complaint(self, text: str) -> str | None:
        try:
            value = read(text)
        except UNREADABLE as broken:
            return f"it is not JSON: {broken}"
        return self._objection(value)

    def mended(self, text: str) -> str:
        """The text, or one that follows the schema and says the same."""
        if len(text) > LONGEST_MENDED or self.complaint(text) is None:
            return text
        for value in _readings(text):
            if self._objection(fitting := fit(value, self._schema, self._schema)) is None:
                return msgspec.json.encode(fitting).decode()
        return text

    def _objection(self, value: Any) -> str | None:
        found = itertools.islice(self._validator.iter_errors(value), MOST_COMPLAINTS)
        return "; ".join(_told(wrong) for wrong in found) or None


def _told(wrong: jsonschema_rs.ValidationError) -> str:
    place = "/".join(str(step) for step in wrong.instance_path)
    return (f"at {place}: " if place else "") + wrong.message[:LONGEST_COMPLAINT]


def read(text: str) -> Any:
    """JSON as its grammar has it, so that a number may be too large for a machine; it is read as the largest there is."""
    try:
        return msgspec.json.decode(text)
    except UNREADABLE as unreadable:
        if OUT_OF_RANGE not in str(unreadable):
            raise
        try:
            return json.loads(text, parse_float=_finite)
        except ValueError:
            raise unreadable from None


def _finite(number: str) -> float:
    return max(-sys.float_info.max, min(sys.float_info.max, float(number)))


def _readings(text: str) -> Iterator[Any]:
    """What the text may have meant as JSON: without the words and the fence around it, or with its small mistakes put right."""
    inside = [found["inside"] for found in _FENCED.finditer(text)]
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    ends = max(text.rfind("}"), text.rfind("]"))
    for candidate in (text, *inside, text[min(starts) : ends + 1] if starts else ""):
        try:
            yield read(candidate)
        except UNREADABLE:
            continue
    if starts:
        try:
            yield json_repair.loads(text[min(starts) :])
        except (ValueError, RecursionError):
            return


# ---- fitting ---------------------------------------------------------------------------------------------------------


def fit(value: Any, schema: Any, root: Schema) -> Any:
    """The value with its types, extra members and missing members put as the schema has them, where that is plain."""
    schema = _resolved(schema, root)
    if not isinstance(schema, dict):
        return value
    if "anyOf" in schema:
        return _fit_any(value, schema["anyOf"], root)
    if "enum" in schema:
        return next((known for known in schema["enum"] if _same_word(known, value)), value)
    kinds = schema.get("type", ())
    for kind in (kinds,) if isinstance(kinds, str) else kinds:
        if (fitter := FITTERS.get(kind)) is not None:
            return fitter(value, schema, root)
    return value


def _resolved(schema: Any, root: Schema) -> Any:
    for _ in range(8):
        if not isinstance(schema, dict) or not isinstance(reference := schema.get("$ref"), str):
            return schema
        schema = root
        for step in reference.removeprefix("#").split("/")[1:]:
            schema = schema.get(step) if isinstance(schema, dict) else None
    return None


def _fit_any(value: Any, schemas: Any, root: Schema) -> Any:
    definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}
    for schema in schemas if isinstance(schemas, list) else ():
        fitting = fit(value, schema, root)
        try:
            if isinstance(schema, dict) and _compiled(msgspec.json.encode({**definitions, **schema})).is_valid(fitting):
                return fitting
        except ValueError:
            # It refers to the schema around it by another way.
            continue
    return value


def _fit_object(value: Any, schema: Schema, root: Schema) -> Any:
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return value
    closed = schema.get("additionalProperties") is False
    fitted = {
        name: fit(member, properties.get(name), root) for name, member in value.items() if name in properties or not closed
    }
    for name in schema.get("required", ()):
        if name not in fitted and (filling := _filling(_resolved(properties.get(name), root))) is not msgspec.UNSET:
            fitted[name] = filling
    return fitted


def _filling(schema: Any) -> Any:
    """What a member that must be there can only be: its constant, its default, or nothing."""
    if not isinstance(schema, dict):
        return msgspec.UNSET
    for source in ("const", "default"):
        if source in schema:
            return schema[source]
    kinds = schema.get("type")
    nullable = kinds == "null" or (isinstance(kinds, list) and "null" in kinds)
    return None if nullable or {"type": "null"} in (schema.get("anyOf") or ()) else msgspec.UNSET


def _fit_array(value: Any, schema: Schema, root: Schema) -> Any:
    members = value if isinstance(value, list) else [value]
    return [fit(member, schema.get("items"), root) for member in members]


def _fit_number(value: Any, schema: Schema, root: Schema) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def _fit_boolean(value: Any, schema: Schema, root: Schema) -> Any:
    return {"true": True, "false": False}.get(value.strip().lower(), value) if isinstance(value, str) else value


def _fit_string(value: Any, schema: Schema, root: Schema) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, bool | int | float) else value


FITTERS: dict[str, Callable[[Any, Schema, Schema], Any]] = {
    "object": _fit_object,
    "array": _fit_array,
    "integer": _fit_number,
    "number": _fit_number,
    "boolean": _fit_boolean,
    "string": _fit_string,
}


def _same_word(known: Any, value: Any) -> bool:
    both = isinstance(known, str) and isinstance(value, str)
    return known.strip().lower() == value.strip().lower() if both else bool(known == value)


# ---- what engines make of them ---------------------------------------------------------------------------------------


def with_inner(schema: Schema, change: Callable[[Any], Any]) -> Schema:
    """The schema with a change made to each that stands in it."""
    changed = dict(schema)
    for name, value in schema.items():
        if name in INNER_NAMED and isinstance(value, dict):
            changed[name] = {key: change(inner) for key, inner in value.items()}
        elif name in INNER_LISTS and isinstance(value, list):
            changed[name] = [change(inner) for inner in value]
        elif name in INNER:
            changed[name] = change(value)
    return changed


def is_kept(schema: Any) -> bool:
    """An engine that constrains its answers keeps all that this schema asks for."""
    if not isinstance(schema, dict):
        return True
    kept = [schema.keys() <= KEPT]
    with_inner(schema, lambda inner: kept.append(is_kept(inner)))
    return all(kept)
