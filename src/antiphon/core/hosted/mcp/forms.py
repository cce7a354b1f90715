"""The calls of MCP tools as the client sees them: a call that the gateway runs, or the request to approve it."""

from collections.abc import Iterable
from typing import Any

from antiphon.core.hosted.mcp.errors import result_to_error
from antiphon.core.items.call_forms import FunctionForm, SilentForm
from antiphon.core.toolbox.tools import ToolResult
from antiphon.partial_json import missing_end
from antiphon.wire import events
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.hosted_items import HostedStatus, McpApprovalRequest, McpCall, McpError
from antiphon.wire.responses import OutputItem, Status


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
            server_label=self._native.namespace or "",
            name=self._native.name,
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
        return McpApprovalRequest(self._id, self._native.namespace or "", self._native.name, self.arguments)
