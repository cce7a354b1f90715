"""What differs from one run to the next, replaced by what does not: ids, dates, times, and folders of the machine."""

import re
import tempfile
from typing import Any

import msgspec
from transcripts.differences import Body

# The folder that a task is done in: here, or where it was recorded.
FOLDER = re.compile(rf"(?:/tmp|{re.escape(tempfile.gettempdir())})/antiphon-task-\w+")
# Ids of the gateway (they sort by time), UUIDs of Codex, and ids of llama.cpp.
IDS = re.compile(
    r"\b(?P<gateway>[a-z]+)_[0-9a-f]{48}\b"
    r"|(?<![0-9a-f-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-(?P<uuid>[0-9a-f]{12})\b"
    r"|\b(?P<engine>chatcmpl-|(?=\w*\d))[A-Za-z0-9]{32}\b"
)
ALWAYS_THE_SAME = (
    (FOLDER, "/task"),
    (re.compile(r'"(created|created_at|completed_at)":\d+'), r'"\1":1'),
    (re.compile(r"<current_date>[^<]*<"), "<current_date>2026-01-01<"),
    (re.compile(r"<timezone>[^<]*<"), "<timezone>UTC<"),
    (re.compile(r"Chunk ID: \w+"), "Chunk ID: 000000"),
    (re.compile(r"Wall time: [\d.]+ seconds"), "Wall time: 0.1 seconds"),
)
# Of events: they are encrypted or random.
SEALED = re.compile(r'"(encrypted_content|obfuscation)":"[^"]*"')


class Normaliser:
    """Ids are numbered in the order in which they come: the same one is always replaced by the same."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def normal(self, value: Any, *, is_event: bool = False) -> Any:
        text = msgspec.json.encode(value).decode()
        for pattern, same in ALWAYS_THE_SAME:
            text = pattern.sub(same, text)
        text = IDS.sub(self._id, text)
        if is_event:
            text = SEALED.sub(r'"\1":"…"', text)
        return msgspec.json.decode(text)

    def _id(self, found: re.Match[str]) -> str:
        if found[0] not in self._ids:
            number = len(self._ids) + 1
            if found["gateway"] is not None:
                self._ids[found[0]] = f"{found['gateway']}_{number:048x}"
            elif found["uuid"] is not None:
                self._ids[found[0]] = f"00000000-0000-0000-0000-{number:012x}"
            else:
                self._ids[found[0]] = f"{found['engine']}{number:032}"
        return self._ids[found[0]]


# ---- the texts of Codex ----------------------------------------------------------------------------------------------

# As strict as the one that Codex sends.
PATCH_GRAMMAR = r"""start: "*** Begin Patch" LF change+ "*** End Patch" LF?
change: add | delete | update
add: "*** Add File: " NAME LF ("+" TEXT? LF)+
delete: "*** Delete File: " NAME LF
update: "*** Update File: " NAME LF move? section?
move: "*** Move to: " NAME LF
section: (head | line)+ end?
head: ("@@" | "@@ " NAME) LF
line: ("+" | "-" | " ") TEXT? LF
end: "*** End of File" LF
NAME: /(.+)/
TEXT: /(.+)/
%import common.LF
"""
DESCRIPTION = "What {name} is for, in a few words."
RULES = "Some rules of the client."


class OwnTexts:
    """Requests of Codex keep their shape. Its own texts, which are long and not ours, get others."""

    def __init__(self) -> None:
        # What was replaced, by what.
        self.replaced: dict[str, str] = {}

    def of_request(self, request: Body) -> Body:
        tools = [self._tool(tool) for tool in request.get("tools", [])]
        items = [self._item(item) for item in request.get("input", []) if isinstance(request["input"], list)]
        # Ids of sessions and times, in an order that varies.
        metadata = dict.fromkeys(sorted(request.get("client_metadata", {})), "…")
        changed = {"tools": tools, "input": items, "client_metadata": metadata}
        return request | {name: value for name, value in changed.items() if value}

    def of_chat(self, value: Any) -> Any:
        """What an engine got, with the same texts replaced."""
        if isinstance(value, str):
            return self.replaced.get(value) or self._inside(value)
        if isinstance(value, dict):
            return {name: self.of_chat(member) for name, member in value.items()}
        return [self.of_chat(each) for each in value] if isinstance(value, list) else value

    def _inside(self, text: str) -> str:
        for old in sorted(self.replaced, key=len, reverse=True):
            # The gateway may have removed the white space around it.
            text = text.replace(old.strip(), self.replaced[old].strip())
        return text

    def _instead(self, old: str, new: str) -> str:
        """The same text always becomes the same, wherever it is."""
        return self.replaced.setdefault(old, new)

    def _tool(self, tool: Body) -> Body:
        described: Body = self._described(tool, tool.get("name") or tool["type"])
        if "definition" in described.get("format", {}):
            definition = self._instead(described["format"]["definition"], PATCH_GRAMMAR)
            described["format"] = described["format"] | {"definition": definition}
        return described

    def _described(self, value: Any, name: str) -> Any:
        if isinstance(value, list):
            return [self._described(each, name) for each in value]
        if not isinstance(value, dict):
            return value
        # A function in a namespace has a name of its own.
        name = value["name"] if "parameters" in value else name
        found = {}
        for key, member in value.items():
            if key == "description" and isinstance(member, str):
                found[key] = self._instead(member, DESCRIPTION.format(name=name)) if member else member
            else:
                found[key] = self._described(member, key)
        return found

    def _item(self, item: Body) -> Body:
        if item.get("role") != "developer" or not isinstance(item["content"], list):
            return item
        return item | {"content": [part | {"text": self._instead(part["text"], RULES)} for part in item["content"]]}
