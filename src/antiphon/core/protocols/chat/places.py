"""Where in the client's request each item was read from: what is wrong with one is found later, and named by its place among
those of the Responses API."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from antiphon.patterns import late_pattern

# The names of fields that the Responses API has other ones for. The first that fits counts.
FIELDS: Mapping[str, str] = {
    "text.format.schema": "response_format.json_schema.schema",
    "text.format": "response_format",
    "max_output_tokens": "max_completion_tokens",
    "reasoning.effort": "reasoning_effort",
    "input": "messages",
}
# The names of members of a message, and of calls.
OF_MESSAGE: Mapping[str, str] = {
    "call_id": "tool_call_id",
    "output": "content",
    "image_url": "image_url.url",
    "file_data": "file.file_data",
    "file_id": "file.file_id",
    "filename": "file.filename",
}
OF_CALL: Mapping[str, str] = {"call_id": "id", "name": "function.name", "arguments": "function.arguments"}
OF_CUSTOM_CALL: Mapping[str, str] = {"call_id": "id", "name": "custom.name", "input": "custom.input"}
_NAMES = tuple(FIELDS)
_FIELD = "|".join(map(re.escape, FIELDS))
# A field where it is sure to be one: alone, or in a text between backticks. And the path of an item.
_NAMED = late_pattern(rf"(?:^|(?<=`))(?P<name>{_FIELD})(?=$|[`.])")
_ITEM = late_pattern(r"\binput\[(?P<at>\d{1,6})\](?P<rest>(?:\.\w+|\[\d{1,6}\])*)")
_MEMBER = late_pattern(r"(?<=\.)\w+")


class Place(NamedTuple):
    """Of an item: the path of what it was read from, and the names that its members have there."""

    path: str
    names: Mapping[str, str] = OF_MESSAGE


class Places(Struct):
    items: Sequence[Place] = ()

    def in_own_words(self, text: str) -> str:
        """The text, or a path alone, with the names that the client knows. Nearly all notices have none of them."""
        if "input[" in text:
            text = _ITEM.sub(self._own_path, text)
        return _NAMED.sub(lambda found: FIELDS[found["name"]], text) if "`" in text or text.startswith(_NAMES) else text

    def _own_path(self, found: re.Match[str]) -> str:
        at = int(found["at"])
        if at >= len(self.items):
            # The gateway has added it.
            return "messages"
        path, names = self.items[at]
        return path + _MEMBER.sub(lambda member: names.get(member[0], member[0]), found["rest"])
