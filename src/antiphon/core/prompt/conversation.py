"""The items of a conversation, and those of them that the prompt is made of: without what a compaction replaces, and without
the oldest turns of a history that is too long."""

from collections.abc import Callable, Sequence

from antiphon.core.prompt.compaction import TRIGGER, items_to_window
from antiphon.core.prompt.truncation import share_to_drop, truncated
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.references import resolved
from antiphon.errors import ContextLengthExceeded
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse


def _items_of_request(request: CreateResponse, history: Sequence[Item], *, compact: bool) -> list[Item]:
    items = request_to_items(request)
    # A text refers to no other item.
    if not isinstance(request.input, str):
        items = resolved(history, items)
    triggered = bool(items) and items[-1].get("type") == TRIGGER
    return [*items, {"type": TRIGGER}] if compact and not triggered else items


class Conversation:
    __slots__ = ("_open_sealed", "dropped", "items", "stored", "window")

    def __init__(
        self,
        request: CreateResponse,
        history: Sequence[Item],
        open_sealed: Callable[[str], str | None],
        *,
        compact: bool,
    ) -> None:
        self._open_sealed = open_sealed
        self.items = [*history, *_items_of_request(request, history, compact=compact)]
        # How many of the items were stored before this request. They come first.
        self.stored = len(history)
        self.window = items_to_window(self.items, open_sealed, earlier=self.stored, sent=self.stored)
        # The share of a history too long that is left out.
        self.dropped = 0.0

    @property
    def history(self) -> Sequence[Item]:
        """The stored items before the request's own."""
        return self.items[: self.stored]

    def prompt_items(self, size_of: Callable[[Item], int]) -> tuple[Sequence[Item], int]:
        """The items that the prompt is made of; and how many of them are stored ones."""
        items = self.window.items
        if not self.dropped:
            return items, self.stored
        left = truncated(items, self.dropped, size_of)
        if left is None:
            raise ContextLengthExceeded("The input is too long, even its last turn alone.", param="input")
        return left, max(0, self.stored - (len(items) - len(left)))

    def truncate(self, overflow: ContextLengthExceeded) -> None:
        """Leaves out as many of the oldest turns as the engine's words ask for."""
        words = overflow.failure.message if overflow.failure is not None else ""
        self.dropped = share_to_drop(words, self.dropped)

    def add_compaction(self, item: Item) -> None:
        """From now on it stands for all items, as it will in the requests that continue this one."""
        self.items.append(item)
        self.window = items_to_window(self.items, self._open_sealed, earlier=self.stored, sent=len(self.items))
