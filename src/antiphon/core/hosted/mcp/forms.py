"""The calls of MCP tools as the client sees them: a call that the gateway runs, the request to approve it, and the error of
one that failed."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.items.call_forms import FunctionForm, SilentForm
from antiphon.core.toolbox.tools import ToolResult
from antiphon.partial_json import missing_end
from antiphon.wire import events
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.hosted_items import (
    HostedStatus,
    McpApprovalRequest,
    McpCall,
    McpError,
    McpHttpError,
    McpProtocolError,
    McpToolExecutionError,
)
from antiphon.wire.responses import OutputItem, Status


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


class McpForm(FunctionForm):
    """A call of a server's tool. It stays open until the server has answered."""

    prefix = "mcp"
    runs_here = True

    def __init__(self, *place: Any, approval_request_id: str | None = None) -> None:
        super().__init__(*place)
        self._approval = approval_request_id
        self._output: str | None = None
        self._error: McpError | None = None

    def begin(self) -> Iterable[Event]:
        yield events.McpCallInProgress(item_id=self._id, output_index=self._index)

    def finish(self, status: Status) -> Iterable[Event]:
        if status == "completed" and (end := missing_end(self.arguments)):
            yield from self.feed(end)
        self._arguments[:] = [self.arguments]
        yield events.McpCallArgumentsDone(item_id=self._id, output_index=self._index, arguments=self.arguments)

    def complete(self, result: ToolResult) -> Iterable[Event]:
        if result.failed:
            self._error = result_to_error(result)
            yield events.McpCallFailed(item_id=self._id, output_index=self._index)
        else:
            self._output = result.output
            yield events.McpCallCompleted(item_id=self._id, output_index=self._index)

    def item(self, status: Status) -> OutputItem:
        shown: HostedStatus = "failed" if self._error is not None else status
        return McpCall(
            id=self._id,
            server_label=self._tool.namespace or "",
            name=self._tool.name,
            arguments=self.arguments,
            approval_request_id=self._approval,
            status=shown,
            output=self._output,
            error=self._error,
        )

    def _delta(self, arguments: str) -> DeltaEvent:
        padding = self._style.obfuscation(arguments)
        return events.McpCallArgumentsDelta(item_id=self._id, output_index=self._index, delta=arguments, obfuscation=padding)


class ApprovalForm(SilentForm):
    """A call that has to be approved first. It is not run here, and so it ends the response."""

    prefix = "mcpr"
    opens_whole = True

    def item(self, status: Status) -> OutputItem:
        return McpApprovalRequest(self._id, self._tool.namespace or "", self._tool.name, self.arguments)
