"""`include` on what is fetched: what is shown of stored items beyond what was stored of them.

    reasoning.encrypted_content             seals the reasoning of items that are not sealed yet, so that a client can carry
                                            it back, and continue without the store
    message.output_text.logprobs            stored if the request asked for them, and shown then
    message.input_image.image_url           always shown
    computer_call_output.output.image_url   always shown
    file_search_call.results,               stored if the request asked for them, or a client sent them along, and shown then;
    web_search_call.results, …              otherwise a notice says that they are missing

What a model read of its searches and its code is stored with their items, and never shown. Otherwise an item is shown as it was
stored, if there is no `include`. A value that is not part of the API is refused, as in a request.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache

import msgspec
from aiohttp import web

from antiphon.core.events.encode import event_to_frame
from antiphon.core.events.stored import frame_to_event, split_frames
from antiphon.core.hosted.search_results import item_to_view
from antiphon.core.protocols.responses.fields import SEALED_REASONING, refuse_unknown_includes
from antiphon.patterns import late_pattern
from antiphon.sealing import item_to_sealed
from antiphon.server.answers import notice_header
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import INCLUDABLE
from antiphon.wire.input_items import Item
from antiphon.wire.responses import OutputItem, ReasoningItem, Response

# Repeated with or without brackets, or numbered: clients differ in how they write a list into a query.
_INCLUDE = late_pattern(r"include(\[\d*\])?")


# What can be included of a call → the type of its item, and the member. Stored only if the request included it. A notice names
# members of the item itself: not every item has what is inside of them.
NOT_ALWAYS_STORED = {name: place for name, place in INCLUDABLE.items() if "." not in place[1]}
NOT_STORED = "include: {name} was not stored with some items: the request that makes a response has to include it"


class View:
    """How a client wants to see what is stored. `seal`: seal the reasoning. `included`: what it asks for."""

    def __init__(self, seal: Callable[[str], str] | None, included: Collection[str] = ()) -> None:
        # The same text has one seal, wherever it appears in a stream.
        self._seal = cache(seal) if seal is not None else None
        self._wanted = {NOT_ALWAYS_STORED[name]: name for name in included if name in NOT_ALWAYS_STORED}
        self._missing: dict[str, None] = {}

    @property
    def notices(self) -> list[str]:
        """What the client asked for and did not get of what was viewed."""
        return [NOT_STORED.format(name=name) for name in self._missing]

    @property
    def headers(self) -> dict[str, str]:
        return notice_header(self.notices)

    def _look_for(self, item: Item) -> None:
        for (kind, member), name in self._wanted.items():
            if item.get("type") == kind and item.get(member) is None:
                self._missing[name] = None

    @property
    def reads(self) -> bool:
        """It looks into events, so they have to be whole."""
        return self._seal is not None

    def item(self, item: Item) -> Item:
        item = item_to_view(item)
        self._look_for(item)
        return item if self._seal is None else item_to_sealed(item, self._seal)

    def items(self, items: Sequence[Item]) -> list[Item]:
        return [self.item(item) for item in items]

    def response(self, response: Response) -> Response:
        if self._wanted:
            for each in msgspec.to_builtins(response.output):
                self._look_for(each)
        if self._seal is not None:
            response.output = [self._output_item(item) for item in response.output]
        return response

    def frames(self, frames: bytes) -> bytes:
        """Stored events, each of them whole. Without a seal they are passed on unread."""
        if self._seal is None:
            return frames
        return b"".join(map(self._frame, split_frames(frames)))

    def _frame(self, frame: bytes) -> bytes:
        event = frame_to_event(frame)
        return frame if event is None or not self._seal_event(event) else event_to_frame(event)

    def _seal_event(self, event: Event) -> bool:
        """False: there is nothing to seal in it."""
        if isinstance(event, events.OutputItemAdded | events.OutputItemDone):
            sealed = self._output_item(event.item)
            changed = sealed is not event.item
            event.item = sealed
            return changed
        if isinstance(event, events.ResponseCompleted | events.ResponseIncomplete | events.ResponseFailed):
            self.response(event.response)
            return True
        return False

    def _output_item(self, item: OutputItem) -> OutputItem:
        if not isinstance(item, ReasoningItem):
            return item
        plain = msgspec.to_builtins(item)
        shown = self.item(plain)
        return item if shown is plain else msgspec.convert(shown, ReasoningItem)


ALL_AS_STORED = View(None)


def query_to_view(request: web.Request) -> View:
    included = [value for name, value in request.query.items() if _INCLUDE.fullmatch(name)]
    refuse_unknown_includes(included)
    seal = request.app[APP].gateway.sealer_of(request[OWNER]).seal if SEALED_REASONING in included else None
    return View(seal, included) if included else ALL_AS_STORED
