"""How the values of a query string are written: numbers in decimal digits, booleans as true or false.

msgspec by itself takes more for them: 1e2 for 100, 1 for true, and null for a parameter that is not there.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct, inspect

from antiphon.core.protocols.responses.field_errors import flat_types
from antiphon.errors import InvalidRequest


class Form(NamedTuple):
    pattern: re.Pattern[str]
    words: str


FORMS: Mapping[type[inspect.Type], Form] = {
    # One that is negative is reported as too small.
    inspect.IntType: Form(re.compile(r"-?(0|[1-9][0-9]*)"), "an integer in decimal digits"),
    inspect.BoolType: Form(re.compile("true|false"), "true or false"),
}


def check_query(query: Mapping[str, str], kind: type[Struct]) -> None:
    for name, form in _forms(kind).items():
        if name in query and form.pattern.fullmatch(query[name]) is None:
            raise InvalidRequest(f"Invalid type for `{name}`: it must be {form.words}.", param=name, code="invalid_type")


@cache
def _forms(kind: type[Struct]) -> dict[str, Form]:
    """By the names of the parameters. Those that are strings may have any form."""
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    types = ((field.encode_name, each) for field in struct.fields for each in flat_types([field.type]))
    return {name: FORMS[type(each)] for name, each in types if type(each) in FORMS}
