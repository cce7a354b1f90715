"""The calls of `file_search`: the searches of a call, the item, and its events."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from antiphon.core.hosted.search_results import FileResult, FileSearchData, data_of
from antiphon.core.items.calls import SilentForm
from antiphon.core.prompt.documents import digest_of
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import FileSearchCall, HostedStatus
from antiphon.wire.responses import Status

# The kind of the tool, and the name of its function.
KIND = "file_search"
# A value of `include`.
RESULTS = "file_search_call.results"
# More searches than these are not made in one call.
MOST_QUERIES = 8


def queries_of(members: dict[str, Any]) -> list[str]:
    """The searches of a call, each once. Models write a list, one text, or both, under either name."""
    given: list[Any] = []
    for value in (members.get("queries"), members.get("query")):
        given += value if isinstance(value, list) else [value]
    return list(dict.fromkeys(each.strip() for each in given if isinstance(each, str) and each.strip()))


def queries_to_arguments(queries: Sequence[str]) -> str:
    return msgspec.json.encode({"queries": queries}).decode()


def search_call_id(arguments: str) -> str:
    """The id that a call has in the conversation. Not the item's, which it may get only when it is stored: the prompt stays the
    same."""
    return f"fs_{digest_of(arguments.encode('utf-8', 'replace')).hex()[:16]}"


def results_to_rows(results: Iterable[FileResult]) -> Sequence[dict[str, Any]]:
    """As the item shows them."""
    return [
        {
            "attributes": each.attributes or {},
            "file_id": each.file_id,
            "filename": each.filename,
            "score": each.score,
            "text": each.text,
        }
        for each in results
    ]


def rows_to_results(rows: Any) -> list[FileResult]:
    """The results of an item that was sent, by this or another server. What cannot be read is left out."""
    rows = rows if isinstance(rows, list) else []
    return [
        FileResult(_text(row.get("file_id")), _text(row.get("filename")), row["text"])
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("text"), str)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class FileSearchForm(SilentForm):
    """The item is added without its searches, as OpenAI has it."""

    prefix = "fs"
    runs_here = True

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._result: ToolResult | None = None

    def finish(self, status: Status) -> Iterable[Event]:
        yield from super().finish(status)
        if queries := queries_of(self.members):
            # As the history will have them.
            self._arguments[:] = [queries_to_arguments(queries)]
        if status == "completed":
            yield events.FileSearchCallInProgress(item_id=self._id, output_index=self._index)
            yield events.FileSearchCallSearching(item_id=self._id, output_index=self._index)

    @property
    def chat_id(self) -> str:
        return search_call_id(self.arguments)

    def complete(self, result: ToolResult) -> Iterable[Event]:
        self._result = result
        # There is no event for a call that failed: its status says so.
        if not result.failed:
            yield events.FileSearchCallCompleted(item_id=self._id, output_index=self._index)

    def item(self, status: Status) -> FileSearchCall:
        shown: HostedStatus = status
        if status == "completed" and self._result is not None and self._result.failed:
            shown = "failed"
        item = FileSearchCall(id=self._id, queries=queries_of(self.members), status=shown)
        if status != "in_progress" and self._result is not None and RESULTS in self._style.included:
            data: FileSearchData = data_of(self._result, KIND) or FileSearchData()
            item.results = list(results_to_rows(data.results))
        return item
