"""Text that is almost JSON, as small models write it."""

import json
import re
from typing import SupportsIndex

import msgspec

from antiphon.errors import UNREADABLE
from antiphon.partial_json import missing_brackets
from antiphon.patterns import late_pattern, possessive

# Repairing is slow, and delays all other requests.
LONGEST_REPAIRED = 32 * 1024
# So many characters may be read again for all repairs of one answer: less than a tenth of a second.
MOST_READ = 80_000
# How many characters of a string are read in the time of one other. A string is read anew for each of its escapes.
STRING_SPEED = 16

_STRING = possessive(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
# A comma that nothing follows, outside strings.
_STRING_OR_COMMA = possessive(r'(?P<string>"(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
# The backslash before a line break is a character of the script, not of JSON.
_CONTROL = late_pattern(r"\\?[\x00-\x1f]|\\.")
_any = msgspec.json.Decoder().decode
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape_control_characters(text: str) -> str:
    """The same JSON, with the line breaks and tabs inside its strings escaped: models paste whole scripts."""
    return _STRING.sub(lambda string: _CONTROL.sub(_escape, string[0]), text)


def _escape(found: re.Match[str]) -> str:
    character = found[0][-1]
    if character >= " ":
        return found[0]
    return "\\\\" * (len(found[0]) - 1) + _ESCAPES.get(character, f"\\u{ord(character):04x}")


class _TooMuch(Exception):
    """A repair takes too long."""


class _Metered(str):
    """A text that counts what is read of it. The time of a repair may grow with the square of the length, and faster."""

    __slots__ = ("meter",)
    meter: "Repairs"

    def __getitem__(self, at: SupportsIndex | slice) -> str:
        piece = super().__getitem__(at)
        self.meter.spend(len(piece))
        return self._same(piece) if isinstance(at, slice) else piece

    def __add__(self, other: str) -> str:
        return self._same(super().__add__(other))

    def _same(self, text: str) -> "_Metered":
        metered = _Metered(text)
        metered.meter = self.meter
        return metered


class Repairs:
    """The repairs of one answer. What they take is counted in characters, so it is the same however the answer is split."""

    def __init__(self) -> None:
        self._left = MOST_READ
        # A text may be matched more than once, and is repaired once.
        self._guesses: dict[str, str | None] = {}

    def spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise _TooMuch

    def repaired(self, text: str) -> str | None:
        """The JSON that a text which is almost JSON most likely means."""
        closed = _closed(text)
        if closed is not None or len(text) > LONGEST_REPAIRED or self._left < 0:
            return closed
        if text not in self._guesses:
            self._guesses[text] = self._guess(text)
        return self._guesses[text]

    def _guess(self, text: str) -> str | None:
        # Imported here: it is rarely needed, and large.
        import json_repair

        metered = _Metered(text)
        metered.meter = self
        try:
            self.spend(text.count("\\") * len(text) // STRING_SPEED)
            return json.dumps(json_repair.loads(metered), ensure_ascii=False)
        except (ValueError, RecursionError, _TooMuch):
            return None


def _closed(text: str) -> str | None:
    """With the brackets that are missing at its end, and without commas before brackets, if nothing else is wrong with it."""
    escaped = escape_control_characters(text)
    closed = escaped + missing_brackets(escaped)
    for meant in (closed, _STRING_OR_COMMA.sub(lambda found: found["string"] or "", closed)):
        try:
            _any(meant)
        except UNREADABLE:
            continue
        return meant
    return None
