"""Where a JSON object or array ends, found while it arrives."""

import re

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class Brackets:
    """`receive()` takes the pieces of a text that begins with a bracket, and returns where that bracket is closed."""

    __slots__ = ("_depth", "_escaped", "in_string")

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self.in_string = False

    def receive(self, text: str, at: int = 0, until: int | None = None) -> int | None:
        """The position after the closing bracket, or None if it is not between `at` and `until`."""
        end = len(text) if until is None else until
        if self._escaped and at < end:
            self._escaped = False
            at += 1
        while (found := (_INSIDE if self.in_string else _OUTSIDE).search(text, at, end)) is not None:
            at = found.end()
            match found[0]:
                case '"':
                    self.in_string = not self.in_string
                case "\\":
                    self._escaped = at == end
                    at += 1
                case "{" | "[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if self._depth <= 0:
                        return at
        return None
