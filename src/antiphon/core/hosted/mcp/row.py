"""The row of the tool `mcp`, and its items in a conversation: lists of tools, calls, and approvals."""

from antiphon.core.hosted.hosted_tool import HostedTool, Record
from antiphon.core.hosted.mcp.forms import ApprovalForm, McpForm, error_to_text
from antiphon.core.hosted.mcp.tools import ListState, McpTools
from antiphon.core.items.item_type import Draft, ItemType, keep_arguments
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.mcp_servers import MCP
from antiphon.core.toolbox.prompt_texts import NOT_APPROVED, REASON
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.partial_json import arguments_to_text
from antiphon.wire.hosted_items import McpApprovalRequest, McpCall, McpListTools, McpToolExecutionError, type_of
from antiphon.wire.input_items import APPROVAL_RESPONSE, InputApprovalResponse, InputMcpCall, InputMcpList, Item


def mcp_list_to_chat(draft: Draft, item: Item, where: str) -> None:
    """No message: its tools are offered, if its server is among the tools."""
    convert(item, InputMcpList, where)


def mcp_call_to_chat(draft: Draft, item: Item, where: str) -> None:
    """A call and its result in one item. One that did not come to an end has none."""
    call = convert(item, InputMcpCall, where)
    draft.call(call.id, ToolIdentity(MCP, call.name, call.server_label), arguments_to_text(call.arguments))
    text = error_to_text(call.error) if call.error else call.output
    if text is not None:
        draft.output(call.id, [{"type": "text", "text": text}], where)


def approval_request_to_chat(draft: Draft, item: Item, where: str) -> None:
    """No message: what was approved is a call of its own."""
    draft.approval_requests[convert(item, McpApprovalRequest, where).id] = item


def approval_response_to_chat(draft: Draft, item: Item, where: str) -> None:
    """The model learns only of a call that was not approved."""
    response = convert(item, InputApprovalResponse, where)
    request = draft.approval_requests.get(response.approval_request_id)
    if response.approve or request is None:
        return
    identity = ToolIdentity(MCP, request["name"], request["server_label"])
    draft.call(response.approval_request_id, identity, request["arguments"])
    text = f"{NOT_APPROVED} {REASON.format(reason=response.reason)}" if response.reason else NOT_APPROVED
    draft.output(response.approval_request_id, [{"type": "text", "text": text}], where)


MCP_SERVERS = HostedTool(
    definitions={MCP: McpTools},
    items=(
        ItemType(type_of(McpListTools), mcp_list_to_chat, prefix=ListState.prefix),
        ItemType(type_of(McpCall), mcp_call_to_chat, prefix=McpForm.prefix, keep=keep_arguments, continues_answer=True),
        ItemType(type_of(McpApprovalRequest), approval_request_to_chat, prefix=ApprovalForm.prefix, keep=keep_arguments),
        ItemType(APPROVAL_RESPONSE, approval_response_to_chat, prefix="mcpa"),
    ),
    record=Record(MCP),
    content={type_of(McpToolExecutionError): frozenset({"content"}), APPROVAL_RESPONSE: frozenset({"reason"})},
)
