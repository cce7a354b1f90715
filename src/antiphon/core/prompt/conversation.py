"""The items of a conversation, and those that the prompt is made of: without what a compaction replaces, and without the
oldest turns of a history that is too long.

The newest compaction that can be opened stands for everything before it, whether it came inline, in a chain or in a
conversation. Of what precedes it, two things stay: the leading system and developer messages, and tools. A compaction that
cannot be opened replaces nothing.

What is left out keeps its place in the list, so that errors and notices name the other items by their index in the request.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from antiphon.core.items.item_type import item_kind
from antiphon.core.prompt.item_types import NEED_A_CALL
from antiphon.core.prompt.stored_form import items_to_stored_form
from antiphon.core.prompt.truncation import SizeOf, is_output, paired, share_to_drop, size_of, truncated
from antiphon.core.protocols.responses.fields import request_to_items, types_of
from antiphon.core.protocols.responses.references import may_stand_for_others, resolved, stands_for
from antiphon.errors import ContextLengthExceeded, InvalidRequest
from antiphon.sealing import CompactedText, KeptItems, text_to_compacted
from antiphon.wire.input_items import WITH_TOOLS, Item
from antiphon.wire.responses import CreateResponse

COMPACTIONS = frozenset({"compaction", "context_compaction"})
TRIGGER = "compaction_trigger"
# The types of items that change which others the prompt is made of.
CHANGE_THE_WINDOW = (*COMPACTIONS, TRIGGER)
INSTRUCTIONS = frozenset({"system", "developer"})

ORPHAN = "{where}: the call of this output was compacted, so the output was sent as a note"
MISPLACED = "A compaction_trigger must be the last item of `input`."
RESULT_OF = "The result of an earlier tool call:"

# The room for what is kept besides the user's last message and the newest step, in bytes. For further steps it is a share of
# everything, and a limit; for the messages right before that of the user, in which clients describe the environment, a limit.
SHARE_KEPT = 4
MOST_KEPT = 16_000
MOST_BEFORE = 4_000


class Window(Struct, frozen=True):
    """The items that the prompt is made of."""

    # As many as were given.
    items: list[Item]
    notices: list[str] = []
    # The index of the compaction that replaces what precedes it, and its content.
    at: int | None = None
    opened: CompactedText | None = None

    # ---- what the next compaction keeps ------------------------------------------------------------------------------

    def to_kept(self, size_of: SizeOf = size_of) -> KeptItems:
        instructions = leading_instructions(self.items)
        if not instructions and self.opened is not None:
            instructions = self.opened.kept.instructions
        return KeptItems(instructions, _newest_items(self._conversation(), size_of))

    def replaceable(self, size_of: SizeOf = size_of) -> int:
        """The size, in bytes, of what a compaction would replace by its summary, without an earlier summary."""
        items = self._conversation()
        newest = _newest_items(items, size_of)
        return _size(items, size_of) - _size(newest, size_of)

    def _conversation(self) -> list[Item]:
        """The items in full, without the leading instructions. What stands for another item is there already."""
        kept = [] if self.opened is None else self.opened.kept.items
        start = _leading(self.items) if self.at is None else self.at + 1
        whole = (item for item in self.items[start:] if stands_for(item) is None)
        return [*kept, *(item for item in whole if item_kind(item) not in (TRIGGER, "additional_tools"))]


def items_to_window(
    items: list[Item],
    open_sealed: Callable[[str], str | None],
    *,
    earlier: int,
    sent: int,
) -> Window:
    """`earlier`: how many of the items were stored. `sent`: the index of the first item that the client sent itself."""
    if types_of(items).isdisjoint(CHANGE_THE_WINDOW):
        return Window(items)
    items = _without_old_triggers(items, earlier)
    at, opened = _newest_compaction(items, open_sealed)
    if opened is None:
        return Window(items)
    shown = {*range(_leading(items)), *range(sent, sent + _leading(items[sent:at]))}
    before = [item if index in shown else _left_out(item) for index, item in enumerate(items[:at])]
    replaced = {item["id"] for index, item in enumerate(items[:at]) if isinstance(item.get("id"), str) and index not in shown}
    after, notices = _after_compaction(items[at + 1 :], opened.kept.items, replaced, at + 1 - earlier)
    return Window([*before, items[at], *after], notices, at, opened)


def user_messages(items: Sequence[Item], new_id: Callable[[str], str]) -> list[Item]:
    """What the user said, in order. These messages precede the compaction in the window that a client gets."""
    return items_to_stored_form([item for item in items if item_kind(item) == "message" and _role(item) == "user"], new_id)


def _newest_compaction(items: Sequence[Item], open_sealed: Callable[[str], str | None]) -> tuple[int, CompactedText | None]:
    for at in reversed(range(len(items))):
        if item_kind(items[at]) not in COMPACTIONS:
            continue
        sealed, summary = items[at].get("encrypted_content"), items[at].get("summary")
        if isinstance(sealed, str) and (text := open_sealed(sealed)) is not None:
            return at, text_to_compacted(text)
        if isinstance(summary, str):
            return at, CompactedText(summary, KeptItems())
    return 0, None


def _without_old_triggers(items: list[Item], earlier: int) -> list[Item]:
    """A trigger compacts what this request sends or continues. One that a compaction follows, or that was stored, did so."""
    triggers = [at for at, item in enumerate(items[:-1]) if item_kind(item) == TRIGGER]
    newest = max((at for at, item in enumerate(items) if item_kind(item) in COMPACTIONS), default=-1)
    for at in triggers:
        if at >= max(earlier, newest):
            raise InvalidRequest(MISPLACED, param=f"input[{at - earlier}]", code="invalid_value")
    old = {*triggers, *((len(items) - 1,) if len(items) == earlier else ())}
    return [_left_out(item) if at in old and item_kind(item) == TRIGGER else item for at, item in enumerate(items)]


def _after_compaction(
    items: Sequence[Item], kept: Sequence[Item], replaced: set[str], first: int
) -> tuple[list[Item], list[str]]:
    """The items after a compaction. An output whose call was replaced becomes a note; a reference to what was replaced is left
    out."""
    calls = {str(item.get("call_id")) for item in (*kept, *items) if not is_output(item)}
    shown: list[Item] = []
    notices: list[str] = []
    for number, item in enumerate(items, first):
        if item_kind(item) in NEED_A_CALL and str(item.get("call_id")) not in calls and (note := _note(item)) is not None:
            notices.append(ORPHAN.format(where=f"input[{number}]" if number >= 0 else "history"))
            item = note
        elif stands_for(item) in replaced:
            item = _left_out(item)
        shown.append(item)
    return shown, notices


def _note(output: Item) -> Item | None:
    content = output.get("output")
    if isinstance(content, str):
        content = {"type": "input_text", "text": content}
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list) or not isinstance(output.get("call_id"), str):
        # It is not an output at all, and is rejected as such.
        return None
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": RESULT_OF}, *content]}


def _left_out(item: Item) -> Item:
    """An item that makes no message. It offers the tools that the item has offered."""
    return {"type": "additional_tools", "tools": item.get("tools") if item_kind(item) in WITH_TOOLS else []}


def _role(item: Item) -> str:
    return str(item.get("role"))


# ---- leading instructions, and the newest items ------------------------------------------------------------------------


def _leading(items: Sequence[Item]) -> int:
    """How many of the first items are instructions, or only offer tools."""
    instructs = (_role(item) in INSTRUCTIONS or item_kind(item) == "additional_tools" for item in items)
    return next((at for at, leads in enumerate(instructs) if not leads), len(items))


def leading_instructions(items: Sequence[Item]) -> list[Item]:
    return [item for item in items[: _leading(items)] if _role(item) in INSTRUCTIONS]


def _newest_items(items: Sequence[Item], size_of: SizeOf) -> list[Item]:
    """The user's last message and the newest step after it; further steps, and messages right before it, as far as there is
    room."""
    asked = next((at for at in reversed(range(len(items))) if _asks(items[at])), -1)
    room = min(MOST_KEPT, _size(items, size_of) // SHARE_KEPT)
    steps = _steps(items[asked + 1 :])
    newest = steps[-1:]
    if steps:
        newest[:0] = _fitting(reversed(steps[:-1]), room - _size(steps[-1], size_of), size_of)[::-1]
    if asked < 0:
        return paired(_flat(newest))
    messages = next((at + 1 for at in reversed(range(asked)) if not _is_message(items[at])), 0)
    before = _fitting(([item] for item in reversed(items[messages:asked])), MOST_BEFORE, size_of)[::-1]
    return paired([*_flat(before), items[asked], *_flat(newest)])


def _asks(item: Item) -> bool:
    return _role(item) == "user" or item_kind(item) == "agent_message"


def _is_message(item: Item) -> bool:
    return _asks(item) or _role(item) in INSTRUCTIONS


def _steps(items: Iterable[Item]) -> list[list[Item]]:
    """What the model wrote, with the outputs that it got for it."""
    steps: list[list[Item]] = []
    for item in items:
        if steps and (is_output(item) or not is_output(steps[-1][-1])):
            steps[-1].append(item)
        else:
            steps.append([item])
    return steps


def _fitting(groups: Iterable[list[Item]], room: int, size_of: SizeOf) -> list[list[Item]]:
    """The first groups, as many as there is room for."""
    fitting: list[list[Item]] = []
    for group in groups:
        room -= _size(group, size_of)
        if room < 0:
            break
        fitting.append(group)
    return fitting


def _flat(groups: Iterable[list[Item]]) -> list[Item]:
    return [item for group in groups for item in group]


def _size(items: Sequence[Item], size_of: SizeOf) -> int:
    return sum(map(size_of, items))


def _items_of_request(request: CreateResponse, history: Sequence[Item], *, compact: bool) -> list[Item]:
    items = request_to_items(request)
    # A text refers to no other item.
    if not isinstance(request.input, str):
        items = resolved(history, items)
    if not compact or (items and items[-1].get("type") == TRIGGER):
        return items
    more = None if request.beyond is None else request.beyond.summary_instructions
    return [*items, {"type": TRIGGER, **({"instructions": more} if more else {})}]


# Most conversations have nothing else. A message may leave its type out.
MESSAGES, UNTYPED_MESSAGES = {"message"}, {"message", None}


class Conversation:
    __slots__ = ("_open_sealed", "dropped", "has_only_messages", "items", "stored", "window")

    def __init__(
        self,
        request: CreateResponse,
        history: Sequence[Item],
        open_sealed: Callable[[str], str | None],
        compact: bool,
    ) -> None:
        self._open_sealed = open_sealed
        if isinstance(request.input, str) and not history and not compact:
            self.items, self.has_only_messages = request_to_items(request), True
        else:
            self.items = [*history, *_items_of_request(request, history, compact=compact)]
            # There are no calls and no results among them, and nothing that belongs to these.
            types = types_of(self.items)
            self.has_only_messages = types <= MESSAGES or (
                types <= UNTYPED_MESSAGES and not [item for item in may_stand_for_others(self.items) if "type" in item]
            )
        # How many of the items were stored before this request. They come first.
        self.stored = len(history)
        if self.has_only_messages:
            self.window = Window(self.items)
        else:
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
