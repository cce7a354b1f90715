"""A tool of an MCP server that searches for a built-in tool, and rows in what it answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import UNREADABLE
from antiphon.tools.runner import ToolContext

T = TypeVar("T")

# An answer of so many characters is read in a thread.
LARGE_TEXT = 64 * 1024
# How deep rows may be in JSON.
DEEPEST = 4
# More is not looked at.
MOST_ROWS = 100
LONGEST_TEXT = 200_000

# Calls a tool of an MCP server that the settings name.
CallTool = Callable[[str, str, Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
Row = dict[str, Any]


class SearchFailed(Exception):
    """The message is for the model and the log. It has no secrets."""


class McpSearch:
    def __init__(self, call_tool: CallTool, server: str, tool: str, argument: str = "query") -> None:
        """`argument`: the name of the tool's argument for the words to search for."""
        self._call_tool = call_tool
        self._server = server
        self._tool = tool
        self._argument = argument

    async def search(
        self, words: str, context: ToolContext, read: Callable[[str], list[T]], more: Mapping[str, Any] | None = None
    ) -> list[T]:
        """`read`: the results in the text of an answer. `more`: other arguments. Raises SearchFailed."""
        text = await self._text_of(words, context, more)
        return read(text) if len(text) < LARGE_TEXT else await asyncio.to_thread(read, text)

    async def _text_of(self, words: str, context: ToolContext, more: Mapping[str, Any] | None) -> str:
        found = await self._call_tool(self._server, self._tool, {self._argument: words, **(more or {})}, context)
        if found.failed:
            raise SearchFailed(f"the MCP server {self._server} failed: {found.output[:500]}")
        return found.output


def text_to_value(text: str) -> Any:
    """The JSON that it is; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None


def rows_in(value: Any, is_row: Callable[[Row], bool], deep: int = DEEPEST) -> Iterator[Row]:
    """The objects that are rows, wherever they are."""
    if isinstance(value, dict) and is_row(value):
        yield value
    elif deep:
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from rows_in(inner, is_row, deep - 1)


def first_text(row: Row, names: Iterable[str]) -> str:
    """The first of these members that is a text, and not empty."""
    return next((row[name] for name in names if isinstance(row.get(name), str) and row[name]), "")
