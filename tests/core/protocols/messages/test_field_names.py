"""An error names the field that the client sent, not the one that it was read into."""

import msgspec
import pytest

from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.errors import InvalidRequest


@pytest.mark.parametrize(
    ("param", "named"),
    [
        ("text.format.schema", "output_config.format.schema"),
        ("max_output_tokens", "max_tokens"),
        ("instructions", "system"),
        ("reasoning.effort", "output_config.effort"),
        # Which message the item came from is not known.
        ("input[3].content[0].file_data", "messages"),
        # These are its own names.
        ("stop_sequences", "stop_sequences"),
        ("tools[0].name", "tools[0].name"),
        ("messages[0].content", "messages[0].content"),
    ],
)
def test_a_field_has_its_own_name(param: str, named: str) -> None:
    answered = MESSAGES.error(InvalidRequest(f"Invalid `{param}`: no.", param=param))
    assert msgspec.json.decode(answered.body)["error"]["message"] == f"Invalid `{named}`: no."


def test_an_error_may_name_no_field() -> None:
    answered = MESSAGES.error(InvalidRequest("The body must be a JSON object."))
    assert msgspec.json.decode(answered.body)["error"]["message"] == "The body must be a JSON object."
