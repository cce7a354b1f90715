"""Stored events: the frames of a stream, as the store keeps them. This is the only place that decodes them.

Frames are stored as they are sent, so a follower passes them on unread. What needs the event itself reads it here.
"""

import msgspec

from antiphon.wire import UNREADABLE
from antiphon.wire.events import Event, StreamEvent

_NAME = b"event: "
_DATA = b"\ndata: "
_END = b"\n\n"
_decode = msgspec.json.Decoder(StreamEvent).decode


def split_frames(frames: bytes) -> list[bytes]:
    return [frame + _END for frame in frames.split(_END)[:-1]]


def frame_type(frame: bytes) -> str:
    """The type of an event, from the beginning of its frame."""
    return frame.partition(b"\n")[0].removeprefix(_NAME).decode(errors="replace")


def frame_to_event(frame: bytes | bytearray) -> Event | None:
    """None: an event that this version does not know. Another version stored it."""
    try:
        # Not copied: it may be long.
        event: Event = _decode(memoryview(frame)[frame.find(_DATA) + len(_DATA) :])
        return event
    except UNREADABLE:
        return None
