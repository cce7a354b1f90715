"""The range of a number in a JSON schema → the body of a GBNF rule, which has to spell it out digit by digit."""

import math
from collections.abc import Callable

from antiphon.core.checks.schema_support import Schema

# As many digits as an integer without a range has. A bound beyond them is left to the check.
LARGEST = 10**16 - 1
FRACTION = '("." [0-9]{1,15})?'
INTEGER = "integer"
NUMBER = "number"


def integer_to_gbnf(schema: Schema) -> str:
    lows = [*_bounds(schema, "minimum", math.ceil), *_bounds(schema, "exclusiveMinimum", lambda bound: math.floor(bound) + 1)]
    highs = [*_bounds(schema, "maximum", math.floor), *_bounds(schema, "exclusiveMaximum", lambda bound: math.ceil(bound) - 1)]
    if not lows and not highs:
        return INTEGER
    low, high = max(lows, default=-LARGEST), min(highs, default=LARGEST)
    alternatives = _digits(max(low, 0), high)
    if below := _digits(max(-high, 1), -low):
        alternatives.append(f'"-" ({" | ".join(below)})')
    # If no integer is in the range, the check will say so.
    return " | ".join(alternatives) or INTEGER


def number_to_gbnf(schema: Schema) -> str:
    """From the integer below the range to the one above it: the check knows the fractions. There are no exponents."""
    lows = [*_bounds(schema, "minimum", math.floor), *_bounds(schema, "exclusiveMinimum", math.floor)]
    highs = [*_bounds(schema, "maximum", math.ceil), *_bounds(schema, "exclusiveMaximum", math.ceil)]
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


def _bounds(schema: Schema, keyword: str, whole: Callable[[float], int]) -> list[int]:
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
