"""Which requests are for a background response. That has to be known before they are read: they need no place yet."""

from typing import Any

import msgspec

from antiphon.wire import UNREADABLE


class _Background(msgspec.Struct):
    background: Any = None


_decoder = msgspec.json.Decoder(_Background)


def asks_for_background(body: bytes) -> bool:
    """Whether a response is to be made in the background. Nothing else of the body is read, and nothing is built of it."""
    try:
        return _decoder.decode(body).background is True
    except UNREADABLE:
        # Reading it whole says what is wrong with it.
        return False
