"""The tools that a conversation has come to: some are offered only once a message refers to them, adds or removes them."""

from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.wire.input_items import Tool
from antiphon.wire.messages import Block

# A search that the gateway runs finds the others: none of them has to wait for a message.
SEARCHES = "tool_search_tool"


def current_tools(tools: Sequence[Tool], messages: Sequence[dict[str, Any]]) -> list[Tool]:
    """Those that are offered now. What was added comes last: what the engine has read of the others stays the same."""
    searched = any(str(tool.get("type")).startswith(SEARCHES) for tool in tools)
    waiting = {_name(tool): tool for tool in tools if tool.get("defer_loading") and not searched}
    offered = [tool for tool in tools if _name(tool) not in waiting]
    # By name: a tool that two messages refer to is offered once.
    added: dict[str, Tool] = {}
    for kind, tool in _changes(messages):
        name = _name(tool)
        if kind == "tool_removal":
            added.pop(name, None)
            offered = [other for other in offered if _name(other) != name]
        elif isinstance(definition := tool.get("definition"), dict):
            added[_name(definition)] = definition
        elif name in waiting:
            added[name] = waiting[name]
    return [*offered, *added.values()]


def _name(tool: Block) -> str:
    """Of a tool, or of a reference to one. Whether it is one is checked later."""
    return str(tool.get("name") or tool.get("tool_name"))


def _changes(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Block]]:
    """What each says, and the tool or the reference to it, in their order."""
    for block in (each for message in messages for each in _blocks(message.get("content"))):
        match block.get("type"):
            case "tool_addition" | "tool_removal" as kind if isinstance(tool := block.get("tool"), dict):
                yield kind, tool
            case "tool_result":
                references = (each for each in _blocks(block.get("content")) if each.get("type") == "tool_reference")
                yield from (("tool_addition", each) for each in references)


def _blocks(content: Any) -> Iterator[Block]:
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))
