"""`include` on what is fetched: what is shown of stored items beyond what was kept of them.

    reasoning.encrypted_content             seals the reasoning of items that have no seal yet, so that a client can carry it
                                            back, and go on without the store
    message.output_text.logprobs            kept where the request that made the text asked for them, and shown then
    message.input_image.image_url           always shown
    computer_call_output.output.image_url   always shown
    file_search_call.results, …             the tools of other servers: shown as far as a client brought it along

Without `include`, an item is shown as it was kept. What is no part of the API is refused, as it is where a response is made.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from antiphon.core.request import SEALED_REASONING, refuse_unknown_includes
from antiphon.core.sealing import item_to_sealed
from antiphon.http.responses import GATEWAY
from antiphon.wire.responses import Response

Item = dict[str, Any]

# Repeated with or without brackets, or numbered: clients differ in how they write a list into a query.
_INCLUDE = re.compile(r"include(\[\d*\])?")
# How it stands in an event that has such an item.
REASONING = b'"type":"reasoning"'


class View:
    """How a client wants to see what is stored."""

    def __init__(self, seal: Callable[[str], str] | None) -> None:
        # The same text has one seal, wherever in a stream it is told.
        self._seal = cache(seal) if seal is not None else None

    def item(self, item: Item) -> Item:
        return item if self._seal is None else item_to_sealed(item, self._seal)

    def items(self, items: Sequence[Item]) -> list[Item]:
        return [self.item(item) for item in items]

    def response(self, response: Response) -> Response | Item:
        return response if self._seal is None else self._output(msgspec.to_builtins(response))

    def frames(self, frames: bytes) -> bytes:
        """Of events, each of them whole."""
        if self._seal is None or REASONING not in frames:
            return frames
        return b"".join(self._frame(frame) for frame in frames.split(b"\n\n")[:-1])

    def _frame(self, frame: bytes) -> bytes:
        head, data, body = frame.partition(b"data: ")
        if REASONING in body:
            event = msgspec.json.decode(body)
            if "item" in event:
                event["item"] = self.item(event["item"])
            if "response" in event:
                event["response"] = self._output(event["response"])
            body = msgspec.json.encode(event)
        return head + data + body + b"\n\n"

    def _output(self, response: Item) -> Item:
        return {**response, "output": self.items(response["output"])}


def query_to_view(request: web.Request) -> View:
    included = [value for name, value in request.query.items() if _INCLUDE.fullmatch(name)]
    refuse_unknown_includes(included)
    return View(request.app[GATEWAY].sealer.seal if SEALED_REASONING in included else None)
