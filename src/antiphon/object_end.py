"""Whether the arguments of a call are a whole JSON object yet, asked after every piece of them: none is read twice."""

from collections.abc import Sequence

import msgspec

from antiphon.brackets import Brackets
from antiphon.wire import UNREADABLE


def is_json_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except UNREADABLE:
        return False


class ObjectEnd:
    """Of a list of pieces that only grows. They are joined and decoded once, when the first bracket is closed."""

    __slots__ = ("_brackets", "_is_object", "_read")

    def __init__(self) -> None:
        self._brackets = Brackets()
        self._read = 0
        # None: the bracket is still open.
        self._is_object: bool | None = None

    def is_reached(self, pieces: Sequence[str]) -> bool:
        """Only white space may follow the end."""
        while self._read < len(pieces) and self._is_object is not False:
            piece = pieces[self._read]
            self._read += 1
            if self._is_object:
                self._is_object = not piece or piece.isspace()
            elif (end := self._brackets.receive(piece)) is not None:
                rest = piece[end:]
                self._is_object = (not rest or rest.isspace()) and is_json_object("".join(pieces[: self._read]))
        return bool(self._is_object)
