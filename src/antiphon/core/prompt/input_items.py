"""A list of items as the messages of a prompt, and the tools that items bring along. `core.prompt.item_types` has the types."""

from collections.abc import Callable, Sequence
from typing import NoReturn

from antiphon.core.hosted.tool_search import tools_of
from antiphon.core.items.item_type import item_kind
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.prompt.item_types import ITEM_TYPES, NEED_A_CALL, UNKNOWN
from antiphon.core.protocols.responses.item_paths import is_beside, is_stored, item_path, item_paths
from antiphon.core.protocols.responses.references import STAND_INS, stands_for, unresolved_to_notice, whole_ids
from antiphon.core.toolbox.tools import AsCalled, ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.wire.hosted_items import ToolSearchOutput, type_of
from antiphon.wire.input_items import WITH_TOOLS, Item

# Where tools are that the response itself has found.
FOUND = type_of(ToolSearchOutput)


def needs_its_call(item: Item) -> bool:
    """An output whose call must be known."""
    return item_kind(item) in NEED_A_CALL and item.get("call_id") is not None


def items_to_draft(
    items: Sequence[Item],
    as_called: Callable[[ToolIdentity, str], AsCalled],
    open_sealed: Callable[[str], str | None],
    *,
    documents: Documents,
    found_words: Callable[[list[Item]], str] = lambda tools: "",
    earlier: int = 0,
    own: str = "input",
) -> ChatDraft:
    """`found_words`: what the model reads of tools that a search has found. `earlier`: how many of the items were stored
    before. `own`: the name of the list that the others came in."""
    draft = ChatDraft(as_called, open_sealed, documents.read, found_words)
    sent: set[str] | None = None
    for item, where in zip(items, item_paths(len(items), earlier, own), strict=True):
        kind = item.get("type")
        has_own_type = isinstance(kind, str) and kind not in STAND_INS
        if not has_own_type and (id := stands_for(item)) is not None:
            sent = whole_ids(items) if sent is None else sent
            if id not in sent and (notice := unresolved_to_notice(item, where)) is not None:
                draft.notice(notice)
            continue
        try:
            kind = kind if has_own_type and kind else item_kind(item) or _refuse_untyped(item, where)
            # A converter that raises has not changed the draft.
            draft.joins_answer = "id" in item and is_beside(item["id"])
            ITEM_TYPES.get(kind, UNKNOWN).to_chat(draft, item, where)
        except InvalidRequest as wrong:
            if not is_stored(where):
                raise
            draft.notice(f"{where} was left out: {wrong.message}")
    return draft


def _refuse_untyped(item: Item, where: str) -> NoReturn:
    code = "invalid_value" if item.get("type") == "" else "invalid_type" if "type" in item else "missing_required_parameter"
    problem = f"`{where}.type` must be a string that is not empty. Only a message, which has a `role`, may leave it out."
    raise InvalidRequest(problem, param=f"{where}.type", code=code)


def tools_in_items(items: Sequence[Item], *, earlier: int = 0, own: str = "input") -> list[tuple[str, Item]]:
    """The tools in input items, from `additional_tools` or a tool search; each with its path."""
    found: list[tuple[str, Item]] = []
    for at, item in enumerate(items):
        if item.get("type") in WITH_TOOLS:
            where = item_path(at, earlier, own)
            try:
                tools = tools_of(item, where)
            except InvalidRequest:
                if not is_stored(where):
                    raise
                # Its converter gives the notice.
                continue
            found += [(f"{where}.tools[{number}]", tool) for number, tool in enumerate(tools)]
    return found


def tools_of_search(tools: Sequence[Item]) -> list[tuple[str, Item]]:
    """The same for tools that the response itself has found."""
    return [(f"{FOUND}.tools[{number}]", tool) for number, tool in enumerate(tools)]
