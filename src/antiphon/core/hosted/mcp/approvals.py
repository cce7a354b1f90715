"""Approvals of MCP calls: which of them a request answers, and the calls that it approves."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct

from antiphon.core.hosted.mcp.forms import McpForm
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.items.calls import CallState
from antiphon.core.protocols.responses.read import convert
from antiphon.core.protocols.responses.references import item_path
from antiphon.core.toolbox.mcp_servers import MCP
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.errors import InvalidRequest, quoted
from antiphon.partial_json import is_json_object
from antiphon.wire.hosted_items import McpApprovalRequest, McpCall, type_of
from antiphon.wire.input_items import APPROVAL_RESPONSE, InputApprovalResponse, Item

APPROVAL_REQUEST, CALL = type_of(McpApprovalRequest), type_of(McpCall)


class Approval(Struct, frozen=True):
    """A call that the client has approved, and that is still to be run."""

    request: McpApprovalRequest

    @property
    def identity(self) -> ToolIdentity:
        return ToolIdentity(MCP, self.request.name, self.request.server_label)


def items_to_approvals(items: Sequence[Item], earlier: int, answers: Collection[str]) -> list[Approval]:
    """The calls that the request's own items approve, in the order of the responses. `earlier`: how many items were stored.
    `answers`: the types of items that the model writes after its calls were approved. An approval before one of these has had
    its effect. The requests are not among them: clients answer each in its place."""
    answered = [at for at in range(earlier, len(items)) if items[at].get("type") == APPROVAL_RESPONSE]
    if not answered:
        return []
    requests = _requests(items)
    last = max((at for at in range(earlier, len(items)) if _is_answer(items[at], answers)), default=-1)
    run = {str(item.get("approval_request_id")) for item in items if item.get("type") == CALL}
    approved: dict[str, Approval] = {}
    for at in answered:
        where = item_path(at, earlier)
        response = convert(items[at], InputApprovalResponse, where)
        id = response.approval_request_id
        if (asked_at := requests.get(id)) is None:
            problem = f"No approval request with id {quoted(id)} is in the input, or in the history that it continues."
            raise InvalidRequest(problem, param=f"{where}.approval_request_id", code="approval_request_not_found")
        if response.approve and at > last and id not in run:
            approved[id] = Approval(convert(items[asked_at], McpApprovalRequest, item_path(asked_at, earlier)))
        elif not response.approve:
            approved.pop(id, None)
    return list(approved.values())


def _requests(items: Iterable[Item]) -> dict[str, int]:
    """Their indexes, by their ids."""
    return {str(item.get("id")): at for at, item in enumerate(items) if item.get("type") == APPROVAL_REQUEST}


def _is_answer(item: Item, answers: Collection[str]) -> bool:
    return item.get("type") in answers or item.get("role") == "assistant"


def check_servers(approvals: Iterable[Approval], box: Toolbox) -> None:
    """A call goes to a server that this request names: secrets are not stored, and neither is where the server is."""
    for approval in approvals:
        label = approval.request.server_label
        if label not in box.servers.places:
            problem = f"The approved call of {approval.request.name} needs the MCP server {quoted(label)}"
            raise InvalidRequest(
                f"{problem}, which is not among the `tools`. Send its tool with the approval.",
                param="tools",
                code="mcp_server_not_found",
            )


class ApprovedCall(CallState):
    """A call that the client has approved. The model wrote it in an earlier answer: it is neither checked nor judged again."""

    def __init__(self, approval: Approval, box: Toolbox, **options: Any) -> None:
        super().__init__(approval.request.id, **options)
        self._approval = approval
        self.name = box.name_of(approval.identity)
        arguments = approval.request.arguments
        self.feed(arguments if arguments.strip() else "{}")
        if (problem := self._problem(box)) is not None:
            self.result = ToolResult(f"This call was not run: {problem}.", failed=True)

    def _problem(self, box: Toolbox) -> str | None:
        request = self._approval.request
        if self.identity not in box.offered.names and self.identity not in box.deferred.tools:
            return f"the MCP server {request.server_label} has no tool {request.name}"
        # Half of a command must not run, even if it was approved.
        return None if is_json_object(self.arguments) else "its arguments are not a JSON object"

    @property
    def identity(self) -> ToolIdentity:
        return self._approval.identity

    @property
    def _kind(self) -> type[FunctionForm]:
        return McpForm

    def _make_form(self, output_index: int) -> FunctionForm:
        place = (self.identity, self._new_id(McpForm.prefix), self.call_id, output_index, self._style)
        return McpForm(*place, approval_request_id=self._approval.request.id)

    @property
    def check(self) -> None:
        return None

    @property
    def written(self) -> str:
        """Nothing in this response."""
        return ""

    @property
    def _is_buffered(self) -> bool:
        return False

    def _to_feed(self) -> str:
        return self.arguments
