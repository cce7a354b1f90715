"""What is said about a body that cannot be read: the field, as far as it is cheap to find."""

import pytest

from antiphon.core.protocols.responses.field_errors import LARGEST_BODY, MOST_LEVELS
from antiphon.core.protocols.responses.field_errors import LONGEST_PLACE as LONGEST
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.errors import InvalidRequest

# A body → the field that the error names.
CASES: dict[str, tuple[bytes, str | None]] = {
    "a member": (b'{"a": 1, "b": 1e999}', "b"),
    "an element": (b'{"a": [1, [2, -1e999]]}', "a[1][1]"),
    "a negative infinity": (b'{"a": {"b": -Infinity}}', "a.b"),
    "the word in a text before it": (b'{"a": "NaN", "b": [NaN]}', "b[0]"),
    "several that are no JSON": (b'{"a": NaN, "b": NaN}', None),
    "a member that comes again": (b'{"a": 1e999, "a": 1}', None),
    "no member": (b"1e999", None),
    "the deepest that is searched": (b'{"a":' * MOST_LEVELS + b"1e999" + b"}" * MOST_LEVELS, ".".join("a" * MOST_LEVELS)),
    "one that is deeper": (b'{"a":' * 50 + b"1e999" + b"}" * 50, ".".join("a" * MOST_LEVELS)),
    "a long name": (b'{"%b": 1e999}' % (b"x" * 10_000), "x" * LONGEST),
    "a body that is too large to search": (b'{"a": "%b", "b": 1e999}' % (b"x" * LARGEST_BODY), None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_that_cannot_be_read_is_named_by_its_field(name: str) -> None:
    body, field = CASES[name]
    with pytest.raises(InvalidRequest) as refused:
        body_to_request(body)
    assert (refused.value.param, refused.value.code) == (field, "invalid_value")


@pytest.mark.parametrize("body", [b"{", b'{"a": nan}', b'{"a": Na}', b'{"a": "\xff"}', b'{"a": 01}', b'"NaN', b"[" * 100_000])
def test_what_is_no_json_for_another_reason_is_said_as_it_is(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^The body is not JSON: ") as refused:
        body_to_request(body)
    assert (refused.value.param, refused.value.code) == (None, "invalid_json")
