"""A file that is read, and the text that comes of it."""

from typing import BinaryIO, Literal

from msgspec import Struct

Problem = Literal["unsupported_file", "invalid_file"]


class Unreadable(Exception):
    """A file that gives no text. The message completes "the file cannot be read: …"."""

    def __init__(self, code: Problem, message: str) -> None:
        super().__init__(message)
        self.code: Problem = code
        self.message = message


def damaged(what: str, why: object = None) -> Unreadable:
    return Unreadable("invalid_file", f"the {what} is damaged" + (f" ({why})" if why else ""))


class Source(Struct, frozen=True):
    """An opened file that can be searched, and what is said of it."""

    file: BinaryIO
    filename: str = ""
    # Without parameters, in small letters; and the parameter `charset`.
    content_type: str = ""
    charset: str | None = None
    # The longest text that is wanted of it, in characters.
    longest: int = 20_000_000

    def head(self, size: int) -> bytes:
        self.file.seek(0)
        return self.file.read(size)

    def too_long(self) -> Unreadable:
        return Unreadable("invalid_file", f"it has more than {self.longest} characters of text")


class TextParts:
    """A text that is written piece by piece, and does not grow without bounds."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._parts: list[str] = []
        self._left = source.longest

    def add(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise self._source.too_long()
        self._parts.append(text)

    def part(self) -> "TextParts":
        """A text of its own, which can be added when it is whole."""
        part = TextParts(self._source)
        part._left = self._left
        return part

    def text(self) -> str:
        return "".join(self._parts)
