"""Images that a tool of an MCP server has made: where they are in its result, their formats, and their sizes."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

Block = Mapping[str, Any]

# The beginning of a file → its format.
_BEGINNINGS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "png"),
    (re.compile(rb"\xff\xd8\xff"), "jpeg"),
    (re.compile(rb"GIF8[79]a"), "gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "webp"),
    (re.compile(rb"\s*(<\?xml|<svg)"), "svg"),
)
# The frames of a JPEG that have its size: all that begin one, but not tables (C4, CC) and not an extension (C8).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class MadeImage(Struct, frozen=True):
    """`data`: in base64. `format`: as the API names it; None if it has no name for it. `size`: WIDTHxHEIGHT, if it is known."""

    data: str
    format: str | None = None
    size: str | None = None


def content_to_image(content: Iterable[Block]) -> MadeImage | None:
    """The first image of a result. None: there is none, or none that can be read."""
    made = (_to_image(*given) for given in map(_given_image, content) if given is not None)
    return next((image for image in made if image is not None), None)


def _given_image(block: Block) -> tuple[Any, str] | None:
    """What should be an image in base64, and what it is said to be."""
    if block.get("type") == "image":
        return block.get("data"), str(block.get("mimeType"))
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        return resource.get("blob"), str(resource.get("mimeType"))
    return None


def _to_image(text: Any, kind: str) -> MadeImage | None:
    data = _decoded(text)
    if not data:
        return None
    # What it is said to be is often wrong.
    format = next((name for beginning, name in _BEGINNINGS if beginning.match(data)), None)
    if format is None and not kind.startswith("image/"):
        return None
    read = _SIZES.get(format or "")
    found = read(data) if read is not None else None
    return MadeImage(base64.b64encode(data).decode(), format, None if found is None else f"{found[0]}x{found[1]}")


def _decoded(text: Any) -> bytes:
    """Some servers send a data URL, or lines."""
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode("".join(text.rpartition(";base64,")[2].split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


# ---- sizes -----------------------------------------------------------------------------------------------------------

Size = tuple[int, int]


def _png_size(data: bytes) -> Size | None:
    return _numbers(data[16:24], 4, "big")


def _gif_size(data: bytes) -> Size | None:
    return _numbers(data[6:10], 2, "little")


def _jpeg_size(data: bytes) -> Size | None:
    """Segment by segment, until the one that begins the frame: each has its length."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _FRAMES:
            found = _numbers(data[at + 5 : at + 9], 2, "big")
            return None if found is None else (found[1], found[0])
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _numbers(data: bytes, length: int, order: Any) -> Size | None:
    first, second = int.from_bytes(data[:length], order), int.from_bytes(data[length:], order)
    return (first, second) if len(data) == 2 * length and first and second else None


_SIZES: dict[str, Callable[[bytes], Size | None]] = {"png": _png_size, "gif": _gif_size, "jpeg": _jpeg_size}
