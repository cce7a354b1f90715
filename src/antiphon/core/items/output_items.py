"""Which output item each delta belongs to: the registry of items that are made of deltas.

A new output item is a class that follows one of the protocols in `item_state`, its item and its events in `wire`, and a row: in
`ITEMS` below, by the deltas that it is made of, or in `calls.FORMS`, by the tool that it is a call of.
"""

from collections.abc import Mapping

from antiphon.core.events.deltas import (
    CitedDelta,
    Delta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from antiphon.core.items.item_state import ContentState
from antiphon.core.items.messages import CompactionState, MessageState
from antiphon.core.items.reasoning import ReasoningState

# Delta → the item that it belongs to. A delta that is not listed belongs to none.
Items = Mapping[type[Delta], type[ContentState]]
ITEMS: Items = {
    TextDelta: MessageState,
    CitedDelta: MessageState,
    RefusalDelta: MessageState,
    ReasoningDelta: ReasoningState,
}
# Of a response that is one sealed summary.
COMPACTED_ITEMS: Items = {TextDelta: CompactionState, RefusalDelta: CompactionState}
