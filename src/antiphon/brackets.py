"""Where a JSON object or array ends, found while it arrives."""

import re

from antiphon.patterns import possessive

_OUTSIDE = re.compile(r'"|[{\[]+|[}\]]+')
_INSIDE = re.compile(r'["\\]')
# What closes nothing that was opened before it: words, whole strings, and brackets with such things inside. No part of it is
# ever tried in another way.
_INNERMOST = r'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\[\s\S])*+")*+'
_BALANCED = possessive(rf"(?:{_INNERMOST}[{{\[]{_INNERMOST}(?:[{{\[]{_INNERMOST}[}}\]]{_INNERMOST})*+[}}\]])*+{_INNERMOST}")


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
        may_be_balanced = self._depth > 0 and not self.in_string
        while True:
            if may_be_balanced and (balanced := _BALANCED.match(text, at, end)) is not None:
                at = balanced.end()
            found = (_INSIDE if self.in_string else _OUTSIDE).search(text, at, end)
            if found is None:
                return None
            at, may_be_balanced = found.end(), False
            match found[0][0]:
                case '"':
                    self.in_string = not self.in_string
                    may_be_balanced = self._depth > 0 and not self.in_string
                case "\\":
                    self._escaped = at == end
                    at += 1
                case "{" | "[":
                    self._depth += len(found[0])
                case _:
                    closed = min(max(self._depth, 1), len(found[0]))
                    self._depth -= closed
                    if self._depth <= 0:
                        return found.start() + closed
                    may_be_balanced = True
