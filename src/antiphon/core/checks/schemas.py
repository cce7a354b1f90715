"""JSON schemas: whether a text follows one, what is wrong if not, and the repair of a text that nearly does."""

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

from antiphon.core.checks.schema_support import Schema
from antiphon.core.checks.work import CheckOutcome
from antiphon.errors import UNREADABLE
from antiphon.patterns import late_pattern

# A longer text is validated but not repaired: a repair reads every character several times.
LONGEST_REPAIRED = 64 * 1024
LONGEST_COMPLAINT = 300
MOST_COMPLAINTS = 3
# A larger whole float stays as it is: the many digits of the integer would say nothing more.
LAST_EXACT = 2**53
# What msgspec says of a number that is too large for a machine.
OUT_OF_RANGE = "Number out of range"
_FENCED = late_pattern(r"```[a-zA-Z_]*\n(?P<inside>.*?)```", re.DOTALL)


def refuse_retrieval(address: str) -> Any:
    raise ValueError(f"{address} is not looked up: a schema must contain everything it refers to")


@lru_cache(maxsize=256)
def _compiled(encoded: bytes) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(msgspec.json.decode(encoded), retriever=refuse_retrieval)


def complaint_about(encoded: bytes) -> str | None:
    """Why this is not a JSON schema; None if it is one."""
    try:
        _compiled(encoded)
    except (ValueError, RecursionError) as wrong:
        return str(wrong).partition("\n")[0][:LONGEST_COMPLAINT]
    return None


def check(encoded: bytes, text: str, *, repair: bool) -> CheckOutcome:
    validator = _compiled(encoded)
    complaint = _complaint(validator, text)
    if complaint is None or not repair or len(text) > LONGEST_REPAIRED:
        return CheckOutcome(text, complaint)
    schema = msgspec.json.decode(encoded)
    for value in _readings(text):
        fitting = fit(value, schema, schema)
        if _objection(validator, fitting) is None and (repaired := _written(fitting)) is not None:
            return CheckOutcome(repaired)
    return CheckOutcome(text, complaint)


def _written(value: Any) -> str | None:
    """The value as JSON; None if it has a number that JSON has not, or that is too long to be read again."""
    try:
        # msgspec writes null for infinity, and for what is no number.
        json.dumps(value, allow_nan=False)
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):
        return None


def _complaint(validator: jsonschema_rs.Validator, text: str) -> str | None:
    try:
        value = read(text)
    except UNREADABLE as broken:
        return f"it is not JSON: {broken}"
    return _objection(validator, value)


def _objection(validator: jsonschema_rs.Validator, value: Any) -> str | None:
    found = itertools.islice(validator.iter_errors(value), MOST_COMPLAINTS)
    return "; ".join(_worded(wrong) for wrong in found) or None


def _worded(wrong: jsonschema_rs.ValidationError) -> str:
    place = "/".join(str(step) for step in wrong.instance_path)
    return (f"at {place}: " if place else "") + wrong.message[:LONGEST_COMPLAINT]


def read(text: str) -> Any:
    """Reads JSON by its grammar, in which a number may be too large for a machine: it is read as the largest that there is."""
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
    """What the text may have meant as JSON: without the words and the fence around it, or with small mistakes corrected."""
    inside = [found["inside"] for found in _FENCED.finditer(text)]
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    ends = max(text.rfind("}"), text.rfind("]"))
    for candidate in (text, *inside, text[min(starts) : ends + 1] if starts else ""):
        try:
            # Not `read()`: a number that is too large for a machine would become another one.
            yield msgspec.json.decode(candidate)
        except UNREADABLE:
            continue
    if starts:
        try:
            yield json_repair.loads(text[min(starts) :])
        except (ValueError, RecursionError):
            return


# ---- repairing -------------------------------------------------------------------------------------------------------


def fit(value: Any, schema: Any, root: Schema) -> Any:
    """The value with its types, extra members and missing members changed to fit the schema, where the intent is clear."""
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
    """The only value that a required member can have: its constant, its default, or null."""
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
    if not isinstance(value, float | str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() and abs(number) <= LAST_EXACT else number


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
