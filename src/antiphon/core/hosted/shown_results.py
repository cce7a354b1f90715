"""What a model read of its searches of files and of its code, kept with the stored items of these calls.

Clients see only the outputs that they `include`. The model must read the same text in every later turn: it answers from it, and
the engine's prompt cache holds. So a stored item has one member more, which is cut off wherever the item is shown. An item that
a client sends back gets it from the stored one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from antiphon.core.stream.citations import FileSource, Source
from antiphon.wire.hosted_items import CodeInterpreterCall, FileSearchCall
from antiphon.wire.responses import OutputItem

Item = dict[str, Any]

# The member of a stored item.
MEMBER = "shown_result"


class CitedFile(Struct, frozen=True):
    """A file that can be cited by a number in the text."""

    # Marks have no more digits.
    number: Annotated[int, Meta(ge=1, le=9999)]
    file_id: str
    filename: str

    @property
    def source(self) -> FileSource:
        return FileSource(self.number, self.file_id, self.filename)


class ShownResult(Struct, frozen=True, omit_defaults=True):
    text: str
    files: list[CitedFile] = []


class StoredFileSearchCall(FileSearchCall, tag="file_search_call", kw_only=True):
    shown_result: ShownResult


class StoredCodeInterpreterCall(CodeInterpreterCall, tag="code_interpreter_call", kw_only=True):
    shown_result: ShownResult


STORED: dict[type[Any], type[Any]] = {
    FileSearchCall: StoredFileSearchCall,
    CodeInterpreterCall: StoredCodeInterpreterCall,
}
# Item type → the member that the model wrote, and the one that clients may include. An item with others than the stored one has
# was changed by its client.
MEMBERS = {"file_search_call": ("queries", "results"), "code_interpreter_call": ("code", "outputs")}
# A tuple: items come here before anybody has checked them, and a type may be anything.
_WITH_RESULT = tuple(MEMBERS)


def to_shown_result(text: str, sources: Iterable[Source | FileSource]) -> ShownResult:
    files = [CitedFile(each.number, each.file_id, each.filename) for each in sources if isinstance(each, FileSource)]
    return ShownResult(text, files)


def output_to_stored(output: Iterable[OutputItem], shown: Mapping[str, ShownResult]) -> list[OutputItem]:
    """The items of a response as they are stored. `shown`: by the ids of the items."""
    return [_to_stored(item, shown.get(item.id)) for item in output]


def _to_stored(item: OutputItem, shown: ShownResult | None) -> OutputItem:
    stored = STORED.get(type(item))
    if stored is None or shown is None:
        return item
    made: OutputItem = stored(**structs.asdict(item), shown_result=shown)
    return made


def shown_result(item: Item) -> ShownResult | None:
    """None: it is not known."""
    if MEMBER not in item:
        return None
    try:
        return msgspec.convert(item[MEMBER], ShownResult)
    except msgspec.ValidationError:
        # A client wrote it.
        return None


def item_to_view(item: Item) -> Item:
    """As a client sees it."""
    return {name: value for name, value in item.items() if name != MEMBER} if MEMBER in item else item


def files_shown(items: Iterable[Item]) -> list[FileSource]:
    """The files that a history lets the model cite."""
    if not (shown := [shown_result(item) for item in items if MEMBER in item]):
        return []
    return [file.source for each in shown if each is not None for file in each.files]


# ---- items that a client sends back ----------------------------------------------------------------------------------


def ids_without_results(items: Iterable[Item]) -> list[str]:
    """Of calls whose stored items may have what the model read, each once."""
    if not (calls := [item for item in items if item.get("type") in _WITH_RESULT]):
        return []
    ids = (item.get("id") for item in calls if MEMBER not in item)
    return list(dict.fromkeys(id for id in ids if isinstance(id, str) and id))


def with_results(items: Sequence[Item], found: Mapping[str, Item]) -> list[Item]:
    """`found`: stored items by their ids."""
    return [_with_result(item, found) for item in items]


def _with_result(item: Item, found: Mapping[str, Item]) -> Item:
    id = item.get("id")
    if item.get("type") not in _WITH_RESULT or not isinstance(id, str) or MEMBER in item:
        return item
    stored = found.get(id, {})
    written, included = MEMBERS[item["type"]]
    is_same = stored.get("type") == item["type"] and stored.get(written) == item.get(written)
    is_same = is_same and (not item.get(included) or item[included] == stored.get(included))
    return {**item, MEMBER: stored[MEMBER]} if is_same and MEMBER in stored else item
