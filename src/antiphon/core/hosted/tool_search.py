"""The tool `tool_search`, which the client runs, or the gateway: the item with the tools that were found, and its row.

The gateway runs it without input or output: it has no runner, and the toolbox defines it.
"""

from collections.abc import Iterable

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.hosted.hosted_tool import HostedTool
from antiphon.core.items.call_forms import ToolSearchForm
from antiphon.core.items.item_type import Draft, ItemType, call_as_function, keep_tools, output_as_result
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.requirements import Check
from antiphon.core.toolbox.tools import CLIENT_SEARCH, SERVER_SEARCH
from antiphon.partial_json import arguments_to_text
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import ToolSearchOutput, type_of
from antiphon.wire.input_items import Item
from antiphon.wire.responses import Status, ToolSearchCall


class ToolSearchOutputState:
    """It is whole from the beginning, and has no deltas."""

    prefix = "tso"
    check: Check | None = None
    fast_path: FastPath | None = None
    # The model has written nothing of it.
    written = ""
    checked_text = ""

    def __init__(self, item_id: str, tools: list[Item]) -> None:
        self.outcome: CheckOutcome | None = None
        self._id = item_id
        self._tools = tools
        self._status: Status = "in_progress"
        self._index: int | None = None

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self.item)

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        self._status = status
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def waive(self) -> None: ...

    @property
    def item(self) -> ToolSearchOutput:
        return ToolSearchOutput(id=self._id, call_id=None, tools=self._tools, status=self._status)


# ---- its items in a conversation -------------------------------------------------------------------------------------

BY_CLIENT = {"execution": "client"}
_client_search = call_as_function(CLIENT_SEARCH, "arguments")
_found_by_client = output_as_result("tools")


def tool_search_call_to_chat(draft: Draft, item: Item, where: str) -> None:
    if not _is_of_server(item):
        _client_search(draft, item, where)
        return
    draft.search(SERVER_SEARCH, arguments_to_text(item.get("arguments")))


def tool_search_output_to_chat(draft: Draft, item: Item, where: str) -> None:
    tools = tools_of(item, where)
    if _is_of_server(item):
        draft.search_output(draft.found_words(tools), where)
    else:
        _found_by_client(draft, item, where)


def tools_of(item: Item, where: str) -> list[Item]:
    """The tools that an item brings along. Raises InvalidRequest."""
    return convert(item.get("tools") or [], list[Item], f"{where}.tools")


def _is_of_server(item: Item) -> bool:
    """The server that made the response ran the search, so nobody needs a call_id."""
    return not isinstance(item.get("call_id"), str)


TOOL_SEARCH = HostedTool(
    items=(
        ItemType(
            type_of(ToolSearchCall),
            tool_search_call_to_chat,
            prefix=ToolSearchForm.prefix,
            members={"arguments": {}, "status": "completed"} | BY_CLIENT,
        ),
        ItemType(
            type_of(ToolSearchOutput),
            tool_search_output_to_chat,
            prefix=ToolSearchOutputState.prefix,
            members={"status": "completed"} | BY_CLIENT,
            keep=keep_tools,
        ),
    ),
)
