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


def may_ask_for_background(body: bytes) -> bool:
    """False: it certainly does not, because the name of the field is nowhere in it. Its letters may be written as escapes.

    A large body is read in a thread, and nearly all of them need not be read for this.
    """
    return b"background" in body or b"\\u" in body
