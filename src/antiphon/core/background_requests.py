"""Which requests are for a background response. That has to be known before they are read: they need no place yet."""

from typing import Any

import msgspec

from antiphon.wire import UNREADABLE


class _Background(msgspec.Struct):
    background: Any = None


_decoder = msgspec.json.Decoder(_Background)


# The name of the field, and what a name begins with in which characters of it are escaped.
_NAME, _ESCAPED = b"background", b"\\u00"


def may_ask_for_background(body: bytes) -> bool:
    """False: certainly not. It is much faster than to read the body."""
    return _NAME in body or _ESCAPED in body


def asks_for_background(body: bytes) -> bool:
    """Whether a response is to be made in the background. Nothing else of the body is read, and nothing is built of it."""
    try:
        return _decoder.decode(body).background is True
    except UNREADABLE:
        # Reading it whole says what is wrong with it.
        return False
