"""Filters over the attributes of files: read from a request, and evaluated.

    {"type": "eq", "key": "year", "value": 2026}                     eq ne gt gte lt lte; in and nin have an array
    {"type": "and", "filters": [{…}, {…}]}                           and, or; nested

Values of different kinds are never equal, and none of them is larger: 5 is not "5", and true is not 1. `ne` and `nin` are the
exact opposite of `eq` and `in`, so they also match a file without the attribute.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.protocols.responses.field_errors import join_path
from antiphon.errors import InvalidRequest, allowed, quoted

Attributes: TypeAlias = Mapping[str, Any]
# A kind, and the value.
Value: TypeAlias = tuple[str, Any]

# They bound the work for one file. No person writes such filters.
DEEPEST = 16
MOST_FILTERS = 256
MOST_VALUES = 1_000

KINDS: dict[type, str] = {str: "string", int: "number", float: "number", bool: "boolean"}


class Comparison(Struct, frozen=True):
    type: str
    key: str
    # Of `in` and `nin`: all of them.
    values: frozenset[Value]
    value: Value

    def matches(self, attributes: Attributes) -> bool:
        found = attributes.get(self.key)
        return COMPARISONS[self.type](None if found is None else _value(found), self)


class Compound(Struct, frozen=True):
    type: str
    filters: tuple["Filter", ...]

    def matches(self, attributes: Attributes) -> bool:
        return COMPOUNDS[self.type](each.matches(attributes) for each in self.filters)


Filter: TypeAlias = Comparison | Compound
Compare: TypeAlias = Callable[[Value | None, Comparison], bool]


def _ordered(is_so: Callable[[Any, Any], bool]) -> Compare:
    def compare(found: Value | None, wanted: Comparison) -> bool:
        kind, value = wanted.value
        return found is not None and found[0] == kind != "boolean" and is_so(found[1], value)

    return compare


COMPARISONS: dict[str, Compare] = {
    "eq": lambda found, wanted: found == wanted.value,
    "ne": lambda found, wanted: found != wanted.value,
    "gt": _ordered(operator.gt),
    "gte": _ordered(operator.ge),
    "lt": _ordered(operator.lt),
    "lte": _ordered(operator.le),
    "in": lambda found, wanted: found in wanted.values,
    "nin": lambda found, wanted: found not in wanted.values,
}
COMPOUNDS: dict[str, Callable[[Any], bool]] = {"and": all, "or": any}
WITH_ARRAYS = ("in", "nin")


def read_filter(value: Any, where: str = "filters") -> Filter:
    """The filter in a request. Raises InvalidRequest with the path of what is wrong. `where`: its path."""
    return _Reader().read(value, where, 1)


def matches(filter: Filter | None, attributes: Attributes) -> bool:
    return filter is None or filter.matches(attributes)


class _Reader:
    def __init__(self) -> None:
        self._read = 0

    def read(self, value: Any, where: str, depth: int) -> Filter:
        self._read += 1
        if self._read > MOST_FILTERS:
            raise _invalid(where, f"there are too many filters: {allowed(MOST_FILTERS, 'filter')}", "array_above_max_length")
        if depth > DEEPEST:
            raise _invalid(where, f"filters are nested too deeply: {allowed(DEEPEST, 'level')}", "json_above_max_depth")
        if not isinstance(value, dict):
            raise _wrong_type(where, "an object")
        type = _member(value, "type", join_path(where, "type"))
        if isinstance(type, str) and type in COMPOUNDS:
            return self._compound(type, value, where, depth)
        if isinstance(type, str) and type in COMPARISONS:
            return _comparison(type, value, where)
        names = ", ".join((*COMPARISONS, *COMPOUNDS))
        raise _invalid(join_path(where, "type"), f"{quoted(type)} must be one of: {names}", "invalid_value")

    def _compound(self, type: str, value: dict[str, Any], where: str, depth: int) -> Compound:
        _refuse_others(value, ("type", "filters"), where)
        where = join_path(where, "filters")
        inner = _member(value, "filters", where)
        if not isinstance(inner, list):
            raise _wrong_type(where, "an array of filters")
        if not inner:
            raise _invalid(where, "the array must not be empty", "empty_array")
        return Compound(type, tuple(self.read(each, f"{where}[{at}]", depth + 1) for at, each in enumerate(inner)))


def _comparison(type: str, value: dict[str, Any], where: str) -> Comparison:
    _refuse_others(value, ("type", "key", "value"), where)
    key = _member(value, "key", join_path(where, "key"))
    if not isinstance(key, str):
        raise _wrong_type(join_path(where, "key"), "a string")
    where = join_path(where, "value")
    wanted = _member(value, "value", where)
    if type not in WITH_ARRAYS:
        return Comparison(type, key, frozenset(), _checked(wanted, where))
    if not isinstance(wanted, list):
        raise _wrong_type(where, f"an array with `{type}`")
    if len(wanted) > MOST_VALUES:
        raise _invalid(where, f"the array may have at most {MOST_VALUES} elements", "array_above_max_length")
    values = frozenset(_checked(each, f"{where}[{at}]") for at, each in enumerate(wanted))
    return Comparison(type, key, values, ("", None))


def _checked(value: Any, where: str) -> Value:
    if type(value) not in KINDS:
        raise _wrong_type(where, "a string, a number or a boolean")
    return _value(value)


def _value(value: Any) -> Value:
    return KINDS.get(type(value), ""), value


def _member(value: dict[str, Any], name: str, where: str) -> Any:
    if name not in value:
        raise InvalidRequest(f"Missing required parameter: `{where}`.", param=where, code="missing_required_parameter")
    return value[name]


def _refuse_others(value: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in value:
        if name not in known:
            path = join_path(where, name)
            message = f"Unknown parameter: `{path}`. A filter of this type has: {', '.join(known)}."
            raise InvalidRequest(message, param=path, code="unknown_parameter")


def _wrong_type(where: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid type for `{where}`: it must be {wanted}.", param=where, code="invalid_type")


def _invalid(where: str, problem: str, code: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid `{where}`: {problem}.", param=where, code=code)
