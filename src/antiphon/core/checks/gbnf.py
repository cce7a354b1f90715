"""JSON schema → GBNF, the grammars of llama.cpp: what follows the grammar is JSON, and follows the schema as far as it is
understood here. What is not understood becomes any JSON value: the check of the answer still decides.

Every schema becomes a rule that refers to the rules of the schemas inside it. They wait in a queue, so neither deep nor cyclic
schemas need recursion here.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from antiphon.core.checks.schema_support import Schema

# ---- the range of a number -------------------------------------------------------------------------------------------

# As many digits as an integer without a range has. A bound beyond them is left to the check.
LARGEST = 10**16 - 1
FRACTION = '("." [0-9]{1,15})?'
INTEGER = "integer"
NUMBER = "number"


def integer_to_gbnf(schema: Schema) -> str:
    lows = [*_limits(schema, "minimum", math.ceil), *_limits(schema, "exclusiveMinimum", lambda bound: math.floor(bound) + 1)]
    highs = [*_limits(schema, "maximum", math.floor), *_limits(schema, "exclusiveMaximum", lambda bound: math.ceil(bound) - 1)]
    if not lows and not highs:
        return INTEGER
    low, high = max(lows, default=-LARGEST), min(highs, default=LARGEST)
    alternatives = _digits(max(low, 0), high)
    if below := _digits(max(-high, 1), -low):
        alternatives.append(f'"-" ({" | ".join(below)})')
    # If no integer is in the range, the check will say so.
    return " | ".join(alternatives) or INTEGER


def number_to_gbnf(schema: Schema) -> str:
    """It goes from the integer below the range to the one above it: the check knows the fractions. It has no exponents."""
    lows = [*_limits(schema, "minimum", math.floor), *_limits(schema, "exclusiveMinimum", math.floor)]
    highs = [*_limits(schema, "maximum", math.ceil), *_limits(schema, "exclusiveMaximum", math.ceil)]
    if not lows and not highs:
        return NUMBER
    low, high = max(lows, default=-LARGEST), min(highs, default=LARGEST)
    if low > high:
        return NUMBER
    # The last integer on either side is written without a fraction, which would lead out of the range.
    alternatives = [f'"{end}"' for end in dict.fromkeys([low, high])]
    if above := _digits(max(low, 0), high - 1):
        alternatives.append(f"({' | '.join(above)}) {FRACTION}")
    if below := _digits(max(-high, 0), -low - 1):
        alternatives.append(f'"-" ({" | ".join(below)}) {FRACTION}')
    return " | ".join(alternatives)


def _limits(schema: Schema, keyword: str, whole: Callable[[float], int]) -> list[int]:
    value = schema.get(keyword)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        return []
    return [whole(value)]


def _digits(low: int, high: int) -> list[str]:
    """The integers of a range that has no negative ones, one alternative for each pattern of digits."""
    alternatives: list[str] = []
    while low <= high:
        # One length at a time.
        end = min(high, 10 ** len(str(low)) - 1)
        alternatives += _of_one_length(str(low), str(end))
        low = end + 1
    return alternatives


def _of_one_length(low: str, high: str) -> list[str]:
    first, last, rest = int(low[0]), int(high[0]), len(low) - 1
    if not rest:
        return [_digit(first, last)]
    if first == last:
        return [f"[{first}] {tail}" for tail in _of_one_length(low[1:], high[1:])]
    # The digits that any others may follow, and before and after them one that only some may follow.
    alternatives: list[str] = []
    if low[1:] != "0" * rest:
        alternatives += [f"[{first}] {tail}" for tail in _of_one_length(low[1:], "9" * rest)]
        first += 1
    if high[1:] != "9" * rest:
        alternatives += [f"[{last}] {tail}" for tail in _of_one_length("0" * rest, high[1:])]
        last -= 1
    if first <= last:
        alternatives.append(f"{_digit(first, last)} [0-9]{{{rest}}}")
    return alternatives


def _digit(first: int, last: int) -> str:
    return f"[{first}]" if first == last else f"[{first}-{last}]"


# llama.cpp unfolds a repetition into so many rules, and rejects 2000 of them. A larger bound is left to the check.
MOST_REPETITIONS = 256
# Schemas beyond these are any value. llama.cpp follows rules recursively when it loads a grammar.
MOST_RULES = 4096
# So is what is not defined when the rules are that long: a schema that repeats its parts in each branch may be much shorter.
MOST_CHARACTERS = 512 * 1024
# Of an object; one with more of them is any object.
MOST_MEMBERS = 512
# References that lead to references.
LONGEST_CHAIN = 32

ANY = "value"
# White space is limited: a weak model would go on with it until its last token.
COMMON = r"""
value ::= object | array | string | number | boolean | null
object ::= "{" ws (member ("," ws member)*)? ws "}"
member ::= string ":" ws value
array ::= "[" ws (value ("," ws value)*)? ws "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" code)
code ::= [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex
hex ::= [0-9a-fA-F]
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
ws ::= (" " | "\n" [ \t]{0,20})?
""".strip()
# Of these types every value is allowed.
PLAIN_TYPES = {"boolean": "boolean", "null": "null"}
# A schema without a type is that of the values that its keywords are about.
IMPLIED_TYPES = {"properties": "object", "items": "array", "prefixItems": "array"}
# The keywords of an object that can be merged, and those that say nothing about a value.
MERGED = frozenset({"type", "properties", "required", "additionalProperties"})
ANNOTATIONS = frozenset(
    "title description default examples deprecated readOnly writeOnly $schema $id $comment $defs definitions".split()
)


def schema_to_gbnf(schema: Any, prefix: str = "") -> str:
    """The grammar of JSON that follows the schema. `prefix`: what the answer has to begin with before the JSON."""
    return _Rules(schema).grammar(prefix)


def text_to_gbnf(prefix: str) -> str:
    """The grammar of any text that begins with the prefix."""
    return f"root ::= {literal(prefix)} [^\\x00]*"


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f'"{escaped}"'


def _json_literal(value: Any) -> str:
    return literal(msgspec.json.encode(value).decode())


class _Rules:
    def __init__(self, root: Any) -> None:
        self._root = root
        # By the identity of a schema, which is kept so that it stays unique.
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        self._queue: deque[tuple[str, Schema]] = deque()
        self._bodies: dict[str, str] = {}
        self._length = 0
        # The rules that are a choice of others, without a character of their own before them.
        self._choices: dict[str, list[str]] = {}

    def grammar(self, prefix: str) -> str:
        start = self._rule_of(self._root)
        while self._queue:
            name, schema = self._queue.popleft()
            if self._is_full:
                self._add(name, ANY)
            else:
                self._define(name, schema)
        self._break_cycles()
        choices = {name: " | ".join(of) or ANY for name, of in self._choices.items()}
        rules = [f"{name} ::= {body}" for name, body in {**self._bodies, **choices}.items()]
        root = f"{literal(prefix)} {start}" if prefix else start
        return "\n".join([f"root ::= {root}", *rules, COMMON])

    @property
    def _is_full(self) -> bool:
        return self._length > MOST_CHARACTERS

    def _add(self, name: str, body: str) -> None:
        self._bodies[name] = body
        self._length += len(name) + len(body)

    def _add_choice(self, name: str, others: list[str]) -> None:
        self._choices[name] = others
        self._length += len(name) + sum(map(len, others))

    def _rule_of(self, schema: Any) -> str:
        """The name of the rule for a schema, which is defined later."""
        schema = self._dereferenced(schema)
        if not isinstance(schema, dict) or not schema:
            return ANY
        if id(schema) not in self._names:
            if len(self._names) >= MOST_RULES:
                return ANY
            self._names[id(schema)] = name = f"s{len(self._names)}"
            self._kept.append(schema)
            self._queue.append((name, schema))
        return self._names[id(schema)]

    def _define(self, name: str, schema: Schema) -> None:
        keyword = next((keyword for keyword in _CHOICES if keyword in schema), None)
        if keyword is not None:
            self._add_choice(name, _CHOICES[keyword](self, schema))
            return
        kind = schema.get("type") or next((kind for key, kind in IMPLIED_TYPES.items() if key in schema), None)
        if isinstance(kind, list):
            self._add_choice(name, [self._rule_of({**schema, "type": each}) for each in dict.fromkeys(map(str, kind))])
        elif isinstance(kind, str) and kind in _TYPES:
            self._add(name, _TYPES[kind](self, name, schema))
        else:
            self._add(name, PLAIN_TYPES.get(str(kind), ANY))

    # ---- choices -----------------------------------------------------------------------------------------------------

    def _constant(self, schema: Schema) -> list[str]:
        return [_json_literal(schema["const"])]

    def _enumeration(self, schema: Schema) -> list[str]:
        values = schema["enum"]
        return [_json_literal(value) for value in values] if isinstance(values, list) else []

    def _any_of(self, schema: Schema) -> list[str]:
        keyword = "anyOf" if "anyOf" in schema else "oneOf"
        alternatives = schema[keyword]
        if not isinstance(alternatives, list):
            return []
        beside = {name: value for name, value in schema.items() if name != keyword and name not in ANNOTATIONS}
        if not beside:
            return [self._rule_of(each) for each in alternatives]
        return [self._beside(beside, each) for each in alternatives]

    def _beside(self, beside: Schema, alternative: Any) -> str:
        merged = None if self._is_full else _merged([beside, self._dereferenced(alternative)])
        if merged is not None:
            self._length += sum(len(value) for value in merged.values() if isinstance(value, (dict, list)))
        return self._rule_of(merged or alternative)

    def _all_of(self, schema: Schema) -> list[str]:
        parts = schema["allOf"]
        if not isinstance(parts, list):
            return []
        beside = {name: value for name, value in schema.items() if name != "allOf" and name not in ANNOTATIONS}
        if not beside and len(parts) == 1:
            return [self._rule_of(parts[0])]
        return [self._rule_of(_merged([beside, *map(self._dereferenced, parts)]))]

    def _dereferenced(self, schema: Any) -> Any:
        """The schema that a reference leads to; none if there is none, or if it leads in a circle."""
        for _ in range(LONGEST_CHAIN):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            schema = self._resolved(schema["$ref"])
        return None

    def _resolved(self, reference: Any) -> Any:
        """The schema at a place in this document; none of another."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(at, dict) and key in at:
                at = at[key]
            elif isinstance(at, list) and key.isdecimal() and int(key) < len(at):
                at = at[int(key)]
            else:
                return None
        return at

    def _break_cycles(self) -> None:
        """A choice that leads back to itself before the first character offers nothing, and llama.cpp rejects it."""
        done: set[str] = set()
        dropped: set[tuple[str, str]] = set()
        for start in self._choices:
            walk = [] if start in done else [(start, iter(self._choices[start]))]
            entered = {start}
            while walk:
                name, others = walk[-1]
                other = next(others, None)
                if other is None:
                    walk.pop()
                    entered.discard(name)
                    done.add(name)
                elif other in entered:
                    dropped.add((name, other))
                elif other in self._choices and other not in done:
                    entered.add(other)
                    walk.append((other, iter(self._choices[other])))
        for name, others_of in self._choices.items():
            self._choices[name] = [other for other in others_of if (name, other) not in dropped]

    # ---- values ------------------------------------------------------------------------------------------------------

    def _string(self, name: str, schema: Schema) -> str:
        bounds = _bounds(schema, "minLength", "maxLength")
        return f'"\\"" char{_repetition(*bounds)} "\\""'

    def _integer(self, name: str, schema: Schema) -> str:
        return integer_to_gbnf(schema)

    def _number(self, name: str, schema: Schema) -> str:
        return number_to_gbnf(schema)

    def _array(self, name: str, schema: Schema) -> str:
        first = schema.get("prefixItems")
        items = schema.get("items", True)
        heads = [self._rule_of(each) for each in first] if isinstance(first, list) else []
        least, most = _bounds(schema, "minItems", "maxItems")
        if heads:
            # All of them, where fewer may do: each has its own meaning.
            heads = heads if most is None else heads[:most]
            written = ' "," ws '.join(heads) or '""'
            left = None if most is None else most - len(heads)
            more = "" if items is False else f' ("," ws {self._rule_of(items)}){_repetition(max(0, least - len(heads)), left)}'
            return f'"[" ws {written}{more} ws "]"'
        if most == 0 or items is False:
            return '"[" ws "]"'
        item = self._rule_of(items)
        more = f'("," ws {item}){_repetition(max(0, least - 1), None if most is None else most - 1)}'
        return f'"[" ws {item} {more} ws "]"' if least else f'"[" ws ({item} {more})? ws "]"'

    def _object(self, name: str, schema: Schema) -> str:
        properties = schema.get("properties")
        known = dict(properties) if isinstance(properties, dict) else {}
        required = schema.get("required")
        needed = dict.fromkeys(each for each in required if isinstance(each, str)) if isinstance(required, list) else {}
        # What a model invents beside the properties is of no use, unless the schema asks for it.
        extra = schema.get("additionalProperties", not known)
        known |= {each: extra if isinstance(extra, dict) else True for each in needed if each not in known}
        members = [(f'{_json_literal(each)} ":" ws {self._rule_of(inner)}', each in needed) for each, inner in known.items()]
        if len(members) > MOST_MEMBERS:
            return "object"
        if extra is not False:
            self._add(f"{name}-extra", f'string ":" ws {self._rule_of(extra)}')
        if extra is False and all(is_needed for _, is_needed in members):
            written = ' "," ws '.join(member for member, _ in members)
            return f'"{{" ws {written} ws "}}"' if written else '"{" ws "}"'
        return f'"{{" ws {self._members(name, members, extra=extra is not False)} ws "}}"'

    def _members(self, name: str, members: Sequence[tuple[str, bool]], *, extra: bool) -> str:
        """The rule for members of which some may be missing. For each there are two rules, of what may come from it on:
        at the beginning of the object, and after another member, where a comma comes first."""
        more = f'("," ws {name}-extra)*' if extra else '""'
        self._add(f"{name}-begin{len(members)}", f"({name}-extra {more})?" if extra else '""')
        self._add(f"{name}-after{len(members)}", more)
        for at in range(len(members) - 1, -1, -1):
            member, is_needed = members[at]
            begin, after = f"{name}-begin{at + 1}", f"{name}-after{at + 1}"
            written = f"{member} {after}"
            self._add(f"{name}-begin{at}", written if is_needed else f"{written} | {begin}")
            self._add(f"{name}-after{at}", f'"," ws {written}' if is_needed else f'"," ws {written} | {after}')
        return f"{name}-begin0"


def _merged(schemas: Iterable[Any]) -> Schema | None:
    """One schema of an object for several of the same object; None if that is not simple."""
    merged: Schema = {}
    for schema in schemas:
        if not isinstance(schema, dict) or schema.keys() - MERGED - ANNOTATIONS:
            return None
        for name in MERGED & schema.keys():
            value = schema[name]
            if name == "properties":
                value = {**merged.get(name, {}), **(value if isinstance(value, dict) else {})}
            elif name == "required":
                value = [*merged.get(name, []), *(value if isinstance(value, list) else [])]
            elif name == "additionalProperties" and merged.get(name) is False:
                value = False
            merged[name] = value
    return merged


def _bounds(schema: Schema, least_key: str, most_key: str) -> tuple[int, int | None]:
    least, most = _count(schema.get(least_key)) or 0, _count(schema.get(most_key))
    # No text satisfies both: the check will say so.
    return (least, most) if most is None or least <= most else (0, None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _repetition(least: int, most: int | None) -> str:
    least = min(least, MOST_REPETITIONS)
    if most is None or most > MOST_REPETITIONS:
        return "*" if least == 0 else f"{{{least},}}"
    return f"{{{least},{most}}}"


# In the order in which they count: what is beside a keyword of a later row is left to the check.
_CHOICES: dict[str, Callable[[_Rules, Schema], list[str]]] = {
    "const": _Rules._constant,
    "enum": _Rules._enumeration,
    "allOf": _Rules._all_of,
    "anyOf": _Rules._any_of,
    "oneOf": _Rules._any_of,
}
_TYPES: dict[str, Callable[[_Rules, str, Schema], str]] = {
    "string": _Rules._string,
    "integer": _Rules._integer,
    "number": _Rules._number,
    "array": _Rules._array,
    "object": _Rules._object,
}
