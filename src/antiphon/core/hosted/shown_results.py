"""What a model read of its searches of files and of its code, kept with the stored items of these calls.

Clients see only the outputs that they `include`. The model must read the same text in every later turn: it answers from it, and
the engine's prompt cache holds. So a stored item has one member more, which is cut off wherever the item is shown. An item that
a client sends back gets it from the stored one.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from antiphon.core.items.item_type import SHOWN_RESULT
from antiphon.core.stream.citations import FileSource, Source
from antiphon.wire.input_items import Item

# What the model reads of a call in a later turn, where that is not known.
CALL_FAILED = "(the call failed)"
RESULT_NOT_SHOWN = "(the result is not shown again)"


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


def to_shown_result(text: str, sources: Iterable[Source | FileSource]) -> ShownResult:
    files = [CitedFile(each.number, each.file_id, each.filename) for each in sources if isinstance(each, FileSource)]
    return ShownResult(text, files)


def shown_result(item: Item) -> ShownResult | None:
    """None: it is not known."""
    if SHOWN_RESULT not in item:
        return None
    try:
        return msgspec.convert(item[SHOWN_RESULT], ShownResult)
    except msgspec.ValidationError:
        # A client wrote it.
        return None


def item_to_view(item: Item) -> Item:
    """As a client sees it."""
    return {name: value for name, value in item.items() if name != SHOWN_RESULT} if SHOWN_RESULT in item else item


def files_shown(items: Iterable[Item]) -> list[FileSource]:
    """The files that a history lets the model cite."""
    if not (shown := [shown_result(item) for item in items if SHOWN_RESULT in item]):
        return []
    return [file.source for each in shown if each is not None for file in each.files]
