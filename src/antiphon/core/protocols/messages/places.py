"""Where in the client's request each item and each tool was read from: what is wrong with one of them is found later, and named
by its place among those of the Responses API."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from antiphon.patterns import late_pattern

# The names of fields that the Responses API has other ones for.
FIELDS: Mapping[str, str] = {
    "instructions": "system",
    "max_output_tokens": "max_tokens",
    "text.format": "output_config.format",
    "reasoning.effort": "output_config.effort",
    "input": "messages",
}
# The names of members, below an item or a tool.
MEMBERS: Mapping[str, str] = {
    "call_id": "tool_use_id",
    "arguments": "input",
    "output": "content",
    "encrypted_content": "signature",
    "summary": "thinking",
    "file_data": "source.data",
    "file_id": "source.file_id",
    "file_url": "source.url",
    "image_url": "source.url",
    "parameters": "input_schema",
    "server_url": "url",
}
# A field of the request here, and a member of a tool there.
CONTAINER = "container"
# A path, where it is sure to be one: with a number, or in a text as the name of a field.
_PATH = late_pattern(r"(?P<list>input|tools)\[(?P<at>\d{1,6})\](?P<rest>(?:\.\w+|\[\d{1,6}\])*)")
_PART = late_pattern(r"\.(?:content|output)\[(?P<at>\d{1,6})\]")
_UPLOAD = late_pattern(r"\.uploads\[(?P<at>\d{1,6})\]")
_FIELD = late_pattern(rf"(?<=`)(?P<name>{'|'.join(map(re.escape, FIELDS))})(?=[`.\[])")
_MEMBER = late_pattern(rf"(?<=\.)(?:{'|'.join(MEMBERS)})\b")


class Place(Struct):
    """Of an item: the block or the message that it was read from, and the blocks that its parts were read from."""

    path: str
    parts: Sequence[str] = ()


class Places(Struct):
    items: list[Place] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    # Of the blocks that bring files for code.
    uploads: list[str] = field(default_factory=list)

    def in_own_words(self, text: str) -> str:
        """The text, or a path alone, with the paths that the client knows."""
        if "[" not in text and "`" not in text:
            return FIELDS.get(text, text)
        if _PATH.search(text) is None:
            return FIELDS.get(text) or _FIELD.sub(lambda found: FIELDS[found["name"]], text)
        return _PATH.sub(self._own_path, text)

    def _own_path(self, found: re.Match[str]) -> str:
        at, rest = int(found["at"]), found["rest"]
        if found["list"] == "tools":
            return found[0] if at >= len(self.tools) else self._of_tool(self.tools[at], rest)
        if at >= len(self.items):
            # The gateway has added it.
            return "messages"
        place = self.items[at]
        part = _PART.match(rest)
        if part is not None and int(part["at"]) < len(place.parts):
            return place.parts[int(part["at"])] + _own_names(rest[part.end() :])
        return place.path + _own_names(rest)

    def _of_tool(self, place: str, rest: str) -> str:
        if (upload := _UPLOAD.fullmatch(rest)) is not None and int(upload["at"]) < len(self.uploads):
            return f"{self.uploads[int(upload['at'])]}.file_id"
        return CONTAINER if rest == f".{CONTAINER}" else place + _own_names(rest)


def _own_names(rest: str) -> str:
    return _MEMBER.sub(lambda found: MEMBERS[found[0]], rest)
