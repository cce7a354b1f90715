"""The tools that a conversation has come to: some are offered only once a message refers to them, adds or removes them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from antiphon.wire.input_items import Tool
from antiphon.wire.messages import Block

# A search that the gateway runs finds the others: none of them has to wait for a message.
SEARCHES = "tool_search_tool"


class PlacedTool(NamedTuple):
    tool: Tool
    # Its path in the request.
    where: str


def current_tools(tools: Sequence[Tool], messages: Sequence[dict[str, Any]]) -> list[PlacedTool]:
    """Those that are offered now. What was added comes last: what the engine has read of the others stays the same."""
    searched = any(str(tool.get("type")).startswith(SEARCHES) for tool in tools)
    placed = [PlacedTool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]
    waiting = {_name(each.tool): each for each in placed if each.tool.get("defer_loading") and not searched}
    offered = [each for each in placed if _name(each.tool) not in waiting]
    # By name: a tool that two messages refer to is offered once.
    added: dict[str, PlacedTool] = {}
    for kind, tool, where in _changes(messages):
        name = _name(tool)
        if kind == "tool_removal":
            added.pop(name, None)
            offered = [other for other in offered if _name(other.tool) != name]
        elif isinstance(definition := tool.get("definition"), dict):
            added[_name(definition)] = PlacedTool(definition, f"{where}.definition")
        elif name in waiting:
            added[name] = waiting[name]
    return [*offered, *added.values()]


def _name(tool: Block) -> str:
    """Of a tool, or of a reference to one. Whether it is one is checked later."""
    return str(tool.get("name") or tool.get("tool_name"))


def _changes(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Block, str]]:
    """What each says, the tool or the reference to it, and where that is, in their order."""
    for number, message in enumerate(messages):
        for at, block in _blocks(message.get("content")):
            match block.get("type"):
                case "compaction" if isinstance(changes := block.get("tool_changes"), list):
                    # Those of the messages that it stands for.
                    yield from _changes([{"content": changes}])
                case "tool_addition" | "tool_removal" as kind if isinstance(tool := block.get("tool"), dict):
                    yield kind, tool, f"messages[{number}].content[{at}].tool"
                case "tool_result":
                    references = (each for _, each in _blocks(block.get("content")) if each.get("type") == "tool_reference")
                    yield from (("tool_addition", each, "") for each in references)


def _blocks(content: Any) -> Iterator[tuple[int, Block]]:
    if isinstance(content, list):
        yield from ((at, block) for at, block in enumerate(content) if isinstance(block, dict))
