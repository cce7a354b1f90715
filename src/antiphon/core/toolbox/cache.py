"""The toolboxes of the lists of tools that came last: an agent sends the same tools with every request."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from antiphon.core.knowledge.help import Help
from antiphon.core.toolbox.definitions import DEFINITIONS, Define
from antiphon.core.toolbox.toolbox import Toolbox

Tool = dict[str, Any]

MOST_TOOLBOXES = 128
# Of all lists together, as JSON. What is made of them takes a few times as much memory.
MOST_BYTES = 4 * 1024 * 1024


class ToolboxKey(NamedTuple):
    """All that a toolbox is made of. The tools are compared as JSON: to Python, 1 and true are equal."""

    tools: bytes
    # Why they are offered as easier functions. None: they are not.
    easier: str | None


def toolbox_key(tools: Sequence[Tool], definitions: Mapping[str, Define], help: Help) -> ToolboxKey | None:
    """None: what is made of them depends on more than the tools, because the gateway runs some of them, or lists them."""
    for tool in tools:
        kind = tool.get("type")
        if not isinstance(kind, str) or definitions.get(kind) is not DEFINITIONS.get(kind):
            return None
    return ToolboxKey(msgspec.json.encode(tools), help.reason if help.easier_tools else None)


class KnownToolboxes:
    """By their keys, the one that was used last at the end. Nothing may be added to one of these any more."""

    def __init__(self, most: int = MOST_TOOLBOXES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._boxes: dict[ToolboxKey, Toolbox] = {}
        self._bytes = 0

    def get(self, key: ToolboxKey) -> Toolbox | None:
        box = self._boxes.pop(key, None)
        if box is not None:
            self._boxes[key] = box
        return box

    def add(self, key: ToolboxKey, box: Toolbox) -> None:
        self._remove(key)
        self._boxes[key] = box
        self._bytes += len(key.tools)
        while self._boxes and (len(self._boxes) > self._most or self._bytes > self._most_bytes):
            self._remove(next(iter(self._boxes)))

    def _remove(self, key: ToolboxKey) -> None:
        if self._boxes.pop(key, None) is not None:
            self._bytes -= len(key.tools)
