"""The error of an MCP call, and what the model reads of it."""

from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire.hosted_items import McpError, McpHttpError, McpProtocolError, McpToolExecutionError


def result_to_error(result: ToolResult) -> McpError:
    """The error of a failed call. It says what the model has read, and no more: the history shows the same words again."""
    error = _given_error(result.data)
    if isinstance(error, McpProtocolError | McpHttpError):
        return error if error_to_text(error) == result.output else structs.replace(error, message=result.output)
    if error is not None and error_to_text(error) == result.output:
        return error
    return McpToolExecutionError(content=[{"type": "text", "text": result.output}])


def _given_error(data: Any) -> McpError | None:
    """In a recording it is plain JSON."""
    if not isinstance(data, dict):
        return data if isinstance(data, McpProtocolError | McpHttpError | McpToolExecutionError) else None
    try:
        error: McpError = msgspec.convert(data, McpError)
        return error
    except msgspec.ValidationError:
        return None


def error_to_text(error: McpError | dict[str, Any] | str) -> str:
    """What the model sees of it, as it was made here, or as it comes back in an item."""
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        known = _given_error(error)
        return error_to_text(known) if known is not None else msgspec.json.encode(error).decode()
    return content_to_text(error.content) if isinstance(error, McpToolExecutionError) else error.message


def content_to_text(content: Any) -> str:
    """The text blocks of an MCP result. Others are named, each in a line of its own."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else msgspec.json.encode(content).decode()
    return "\n".join(_block_to_text(block) for block in content)


def _block_to_text(block: Any) -> str:
    if not isinstance(block, dict):
        return str(block)
    text = block.get("text")
    if isinstance(text, str):
        return text
    kind = block.get("mimeType") or block.get("type") or "unknown"
    return f"[{block.get('type') or 'content'}: {kind}, not shown]"
