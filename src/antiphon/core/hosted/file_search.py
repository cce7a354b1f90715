"""The tool `file_search`: its definition, the function that an engine sees of it, its calls, and its row."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta, Struct, structs

from antiphon.core.checks.work import digest_of
from antiphon.core.hosted.attribute_filters import read_filter
from antiphon.core.hosted.hosted_tool import HostedDefinition, HostedTool, Record, data_of
from antiphon.core.hosted.search_results import (
    CALL_FAILED,
    RESULT_NOT_SHOWN,
    FileResult,
    FileSearchData,
    numbered,
    shortened,
    shown_result,
    without_own_marks,
)
from antiphon.core.items.call_forms import SilentForm
from antiphon.core.items.item_type import Draft, ItemType, ReadMembers, note_to_chat
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import TOOLS, ToolIdentity, ToolResult
from antiphon.errors import InvalidRequest
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import FileSearchCall, HostedStatus, type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import Status

# ---- The calls of `file_search`: the searches of a call, the item, and its events ------------------------------------

# The kind of the tool, and the name of its function.
KIND = "file_search"
# A value of `include`.
RESULTS = "file_search_call.results"
# More searches than these are not made in one call.
MOST_QUERIES = 8

WORDS = "Searches the user's files, and returns numbered passages of them."
QUERIES = {"type": "array", "items": TEXT, "minItems": 1}
PARAMETERS = parameters(
    {
        "queries": {
            **QUERIES,
            "description": "What to look for, in a few words or as a question. Several, if one is not enough.",
        }
    },
    "queries",
)


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
    accepts = {"anyOf": [parameters({name: {"anyOf": [QUERIES, TEXT]}}, name) for name in ("queries", "query")]}

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
            data = data_of(self._result, FileSearchData) or FileSearchData()
            item.results = list(results_to_rows(data.results))
        return item


ONLY_IN_TOOLS = f"it counts only in `{TOOLS}`, not in an input item"
# Where an MCP server searches: it knows nothing of these.
NOT_BY_MCP = ("filters", "ranking_options")

DEFAULT_RESULTS = 20
StoreId = Annotated[str, Meta(min_length=1, max_length=256)]
Weight = Annotated[float, Meta(ge=0)]


class HybridSearch(Struct, frozen=True):
    embedding_weight: Weight
    text_weight: Weight


class RankingOptions(Struct, frozen=True):
    # "model" is not OpenAI's: the engine's own model orders what was found.
    ranker: Literal["auto", "default-2024-11-15", "model"] | None = None
    score_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    hybrid_search: HybridSearch | None = None


class FileSearchTool(Struct, frozen=True):
    vector_store_ids: Annotated[list[StoreId], Meta(min_length=1, max_length=100)]
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None
    filters: dict[str, Any] | None = None

    @property
    def store_ids(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(self.vector_store_ids))

    @property
    def most(self) -> int:
        return self.max_num_results or DEFAULT_RESULTS

    @property
    def ranking(self) -> RankingOptions:
        return self.ranking_options or RankingOptions()


def offered_tool(tools: Iterable[Tool]) -> FileSearchTool | None:
    """The definition that counts in a request: its first one."""
    return next((msgspec.convert(tool, FileSearchTool) for tool in tools if tool.get("type") == KIND), None)


def checked_tool(tool: Tool, where: str) -> FileSearchTool:
    """Raises InvalidRequest, with the name of the member that is wrong."""
    defined = convert(tool, FileSearchTool, where)
    weights = defined.ranking.hybrid_search
    if weights is not None and weights.embedding_weight == weights.text_weight == 0:
        place = f"{where}.ranking_options.hybrid_search"
        raise InvalidRequest(f"Invalid `{place}`: one of its weights must be above 0.", param=place, code="invalid_value")
    if defined.filters is not None:
        read_filter(defined.filters, f"{where}.filters")
    return defined


class FileSearch(HostedDefinition):
    """`by_mcp`: an MCP server searches."""

    form = FileSearchForm

    def __init__(self, *, by_mcp: bool = False) -> None:
        self.by_mcp = by_mcp

    def to_recorded(self) -> bool:
        return self.by_mcp

    @classmethod
    def from_recorded(cls, recorded: Any) -> Self:
        return cls(by_mcp=msgspec.convert(recorded, bool))

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        checked_tool(tool, where)
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if box.add(ToolIdentity(KIND, KIND), ChatFunction("", WORDS, PARAMETERS), where):
            box.notices += self._without_effect(tool)

    def _without_effect(self, tool: Tool) -> Iterable[str]:
        ranking = tool.get("ranking_options") or {}
        unknown = [name for name in tool if name != "type" and name not in FileSearchTool.__struct_fields__]
        unknown += [f"ranking_options.{name}" for name in ranking if name not in RankingOptions.__struct_fields__]
        for name in sorted(unknown):
            yield f"{name} of tool {KIND} has no effect: it is not known here"
        for name in NOT_BY_MCP if self.by_mcp else ():
            if tool.get(name):
                yield f"{name} of tool {KIND} has no effect: an MCP server searches"


# ---- its items in a conversation -------------------------------------------------------------------------------------

# Characters of what was found, where the item has it.
LONGEST_PASSAGES = 8000


def file_search_to_chat(draft: Draft, item: Item, where: str) -> None:
    """The call as the model made it, and what it read of it. An item that was not stored here may have the passages: they are
    shown without the numbers to cite by, which are those of another response."""
    queries = queries_of({"queries": item.get("queries")})
    if not queries:
        note_to_chat(draft, item, where)
        return
    arguments = queries_to_arguments(queries)
    call_id = search_call_id(arguments)
    draft.call(call_id, ToolIdentity(KIND, KIND), arguments)
    draft.output(call_id, [{"type": "text", "text": _item_to_words(item)}], where)


def _item_to_words(item: Item) -> str:
    if (shown := shown_result(item)) is not None:
        return shown.text
    if item.get("status") == "failed":
        return CALL_FAILED
    texts: list[str] = []
    room = LONGEST_PASSAGES
    for each in rows_to_results(item.get("results")):
        text = without_own_marks(structs.replace(each, text=shortened(each.text, room))).shown_text
        texts.append(f"{each.heading}:\n{text}" if each.heading else text)
        room -= len(each.text)
        if room <= 0:
            break
    return "\n\n".join(texts) or RESULT_NOT_SHOWN


FILE_SEARCH = HostedTool(
    definitions={KIND: FileSearch},
    items=(
        ItemType(
            type_of(FileSearchCall),
            file_search_to_chat,
            prefix=FileSearchForm.prefix,
            members={"queries": [], "status": "completed"},
            continues_answer=True,
            read=ReadMembers(FileSearchCall, "queries", "results"),
        ),
    ),
    record=Record(KIND),
    number=partial(numbered, FileSearchData),
)
