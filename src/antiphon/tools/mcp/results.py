"""What MCP servers return, as an exchange takes it: the results of calls, and the tools of a list."""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from antiphon.core.hosted.mcp.forms import content_to_text
from antiphon.core.protocols.responses.fields import is_deeper
from antiphon.core.toolbox.mcp_servers import READ_ONLY
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import counted
from antiphon.tools.mcp.failures import text_without
from antiphon.tools.mcp.targets import McpLimits
from antiphon.wire.hosted_items import McpTool, McpToolExecutionError

Block = Mapping[str, Any]

# Of a tool that is left out.
LONGEST_NAME = 100
LEFT_OUT = "[{count} of this result {were} left out: at most {most} are read]"


class ListedTools(NamedTuple):
    # As JSON.
    tools: list[dict[str, Any]]
    # In bytes.
    size: int


def first_parts(content: list[Any], most: int) -> list[Any]:
    """The content, with a sentence in place of the parts beyond these."""
    if len(content) <= most:
        return content
    others = len(content) - most
    sentence = LEFT_OUT.format(count=counted(others, "part"), were="was" if others == 1 else "were", most=f"{most:,}")
    return [*content[:most], {"type": "text", "text": sentence}]


def result_to_tool_result(result: Mapping[str, Any], secrets: Sequence[str] = ()) -> ToolResult:
    """`result`: of tools/call, as JSON. `secrets`: what an error must not repeat of what the server was sent."""
    content = result.get("content") or []
    if result.get("isError"):
        content = _without(content, secrets)
        output = content_to_text(content) or "The tool failed, and did not say why."
        return ToolResult(output, failed=True, data=McpToolExecutionError(content))
    return ToolResult(_to_text(content, result.get("structuredContent")))


def _without(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        return text_without(value, secrets)
    if isinstance(value, dict):
        return {text_without(name, secrets): _without(member, secrets) for name, member in value.items()}
    return [_without(member, secrets) for member in value] if isinstance(value, list) else value


def _to_text(content: Iterable[Block], structured: Any) -> str:
    """Structured content repeats what the text says; it counts where there is no text."""
    blocks = list(content)
    lines = [_to_line(block) for block in blocks]
    if structured is not None and not any(block.get("type") == "text" for block in blocks):
        lines.append(msgspec.json.encode(structured).decode())
    return "\n".join(line for line in lines if line)


def _to_line(block: Block) -> str:
    kind = str(block.get("type"))
    return TEXTS[kind](block) if kind in TEXTS else f"[{kind}, which cannot be shown]"


def _media(block: Block) -> str:
    return f"[{block.get('type')} of type {block.get('mimeType')}, {_size(block.get('data')):,} bytes, which cannot be shown]"


def _link(block: Block) -> str:
    described = f": {block['description']}" if block.get("description") else ""
    return f"[resource {block.get('name')} at {block.get('uri')}{described}]"


def _resource(block: Block) -> str:
    resource = block.get("resource") or {}
    if isinstance(text := resource.get("text"), str):
        return f"[resource {resource.get('uri')}]\n{text}"
    kind = resource.get("mimeType") or "unknown type"
    return f"[resource {resource.get('uri')} of {kind}, {_size(resource.get('blob')):,} bytes, which cannot be shown]"


def _size(data: Any) -> int:
    try:
        return len(base64.b64decode(data or ""))
    except (binascii.Error, ValueError, TypeError):
        return 0


# By the type of a block of content.
TEXTS: dict[str, Callable[[Block], str]] = {
    "text": lambda block: str(block.get("text", "")),
    "image": _media,
    "audio": _media,
    "resource_link": _link,
    "resource": _resource,
}


# ---- lists -----------------------------------------------------------------------------------------------------------


def to_tools(listed: Iterable[Mapping[str, Any]], limits: McpLimits, left_out: list[str]) -> Iterator[McpTool]:
    """`listed`: of tools/list, as JSON. `left_out` gets a sentence for each tool that is too large to be offered."""
    for tool in listed:
        offered = McpTool(tool["name"], tool.get("inputSchema") or {}, tool.get("description", UNSET), _annotations(tool))
        problem = _problem(offered, limits)
        if problem is not None:
            left_out.append(f"The tool {_short(offered.name)} is left out: {problem}.")
        else:
            yield offered


def _annotations(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The server's own, and the one that every tool has in the lists of OpenAI's servers."""
    given = tool.get("annotations") or {}
    return {**given, READ_ONLY: given.get("readOnlyHint") is True}


def _problem(tool: McpTool, limits: McpLimits) -> str | None:
    if is_deeper(tool.input_schema, limits.schema_depth):
        return f"its schema is nested more than {limits.schema_depth} levels deep"
    if is_deeper(tool.annotations, limits.schema_depth):
        return f"its annotations are nested more than {limits.schema_depth} levels deep"
    if len(msgspec.json.encode(tool.input_schema)) > limits.schema_bytes:
        return f"its schema has more than {limits.schema_bytes:,} bytes"
    if len(msgspec.json.encode((tool.name, tool.description or "", tool.annotations))) > limits.schema_bytes:
        return f"its name, description and annotations have more than {limits.schema_bytes:,} bytes"
    return None


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
