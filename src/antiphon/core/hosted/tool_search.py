"""The item with the tools that a search of the gateway has found. It is whole from the beginning, and has no deltas."""

from collections.abc import Iterable
from typing import Any

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.toolbox.requirements import Check
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import ToolSearchOutput
from antiphon.wire.responses import Status


class ToolSearchOutputState:
    check: Check | None = None
    fast_path: FastPath | None = None
    # The model has written nothing of it.
    written = ""
    checked_text = ""

    def __init__(self, item_id: str, tools: list[dict[str, Any]]) -> None:
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
