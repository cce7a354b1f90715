"""The calls that the gateway runs in one response: those that run now, and what came of those before."""

from collections.abc import Sequence

from antiphon.core.exchange.container_data import container_data
from antiphon.core.exchange.tool_results import bounded
from antiphon.core.hosted.search_results import numbered
from antiphon.core.hosted.shown_results import ShownResult, output_to_stored, to_shown_result
from antiphon.core.items.calls import CallState
from antiphon.core.stream.citations import Sources
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire.responses import OutputItem


class ToolRuns:
    def __init__(self) -> None:
        self._running: dict[str, CallState] = {}
        # How much of each result there is room for.
        self._room = 0
        # The calls that ran, each with what the model read of it.
        self._ran: list[tuple[CallState, ShownResult]] = []
        # A set that keeps its order.
        self.notices: dict[str, None] = {}

    def begin(self, calls: Sequence[CallState], room: int) -> None:
        self._running = {call.call_id: call for call in calls}
        self._room = room

    @property
    def are_over(self) -> bool:
        return not self._running

    def abandon(self) -> None:
        """What comes of the calls that run now is of no use any more."""
        self._running.clear()

    def add_result(self, call_id: str, result: ToolResult, sources: Sources) -> CallState | None:
        """The call that has this result now. None: it came too late. `sources`: get what the result lets the model cite."""
        call = self._running.pop(call_id, None)
        if call is None:
            return None
        kind = call.native.kind
        if (data := container_data(kind, result)) is not None:
            sources.add_files(data.container_id, data.files)
        first = sources.next_number
        call.result = bounded(numbered(kind, result, sources, self._room), self._room)
        self._ran.append((call, to_shown_result(call.result.output, sources.since(first))))
        if result.notice:
            self.notices[result.notice] = None
        return call

    def to_stored(self, output: Sequence[OutputItem]) -> list[OutputItem]:
        """The items of the response as they are stored: the calls have what the model read of them."""
        return output_to_stored(output, {call.item.id: result for call, result in self._ran if call.closed})
