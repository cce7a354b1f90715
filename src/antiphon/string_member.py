"""JSON strings that are decoded while they arrive, and the one in the arguments of a custom call, `{"input": "…"}`."""

import json
import re
from functools import cache

from antiphon.patterns import Pattern, possessive

INPUT = ("input",)
# The complete part of a JSON string: an escape sequence that is cut off is left for later, and so is the first half of a
# character that JSON writes as two of them.
_HEX = "[0-9a-fA-F]"
# What JSON does not have, such as the path C:\\users, is text.
_NO_CODE = rf"\\u(?={_HEX}{{0,3}}[^0-9a-fA-F])"
_WHOLE = possessive(
    rf'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB]){_HEX}{{4}}|\\u[dD][89abAB]{_HEX}{{2}}(?=[^\\]|\\[^u]|\\u{_HEX}{{4}}|{_NO_CODE})'
    rf"|{_NO_CODE})*+",
    re.DOTALL,
)
_ESCAPES = re.compile(rf"(?:\\u{_HEX}{{4}})+|\\.", re.DOTALL)
# What is left of an escape sequence that was cut off.
_CUT = re.compile(rf"(?:\\u[dD][89abAB]{_HEX}{{2}})?(?:\\(?:u{_HEX}{{0,3}})?)?")


class JsonString:
    """A JSON string after its opening quotation mark. `receive()` returns what a piece adds to its text."""

    __slots__ = ("_raw", "closed", "rest")

    def __init__(self) -> None:
        self._raw = ""
        self.closed = False
        # What follows the closing quotation mark.
        self.rest = ""

    def takes_as_it_is(self, piece: str) -> bool:
        """The piece is text of the string, with nothing to decode."""
        return not self._raw and not self.closed and '"' not in piece and "\\" not in piece

    def receive(self, piece: str) -> str:
        raw = self._raw + piece
        whole = _WHOLE.match(raw)
        assert whole is not None
        end = whole.end()
        self.closed = raw[end : end + 1] == '"'
        self._raw, self.rest = ("", raw[end + 1 :]) if self.closed else (raw[end:], "")
        return _decode(raw[:end])

    def close(self) -> str:
        """The buffered rest of a string that was cut off, as it was written."""
        raw, self._raw = self._raw, ""
        return raw

    def close_decoded(self) -> str:
        """The same, without the part of an escape sequence: that is no text yet."""
        raw = self.close()
        return "" if _CUT.fullmatch(raw) else raw


@cache
def _opening(names: tuple[str, ...]) -> Pattern:
    """Up to the first character of the value. It may match in part."""
    return Pattern(rf'\s{{0,99}}\{{\s{{0,99}}"(?:{"|".join(names)})"\s{{0,99}}:\s{{0,99}}"')


class StringMember:
    """`receive()` returns what a piece adds to the value; `opened`: the arguments have the expected shape."""

    def __init__(self, names: tuple[str, ...] = INPUT) -> None:
        """`names`: what the member may be called."""
        self._opening = _opening(names)
        self._head = ""
        self._value = JsonString()
        self.opened = False
        # Something else has come in its place.
        self._is_other = False

    def receive(self, piece: str) -> str:
        if self._value.closed or self._is_other:
            return ""
        if not self.opened:
            self._head += piece
            opening = self._opening.match(self._head, partial=True)
            if opening is None or opening.partial:
                self._is_other = opening is None
                return ""
            self.opened = True
            piece, self._head = self._head[opening.end() :], ""
        return self._value.receive(piece)

    def close(self) -> str:
        """The buffered rest of a value that was cut off."""
        return self._value.close()


def _decode(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        # Models write line breaks without escaping them, which strict JSON does not allow.
        value: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        # Escape sequences that JSON does not have stay as they are; the others do not depend on how the text is split.
        value = _ESCAPES.sub(_unescape, text)
    return value.encode("utf-8", "replace").decode()


def _unescape(found: re.Match[str]) -> str:
    try:
        value: str = json.loads(f'"{found[0]}"', strict=False)
    except ValueError:
        return found[0]
    return value


def whole_input(arguments: str) -> str:
    """The input text that any arguments most likely mean."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        member = StringMember()
        cut_off = member.receive(arguments) + member.close()
        return cut_off if member.opened else arguments
    if isinstance(value, dict):
        texts = [member for member in value.values() if isinstance(member, str)]
        preferred = value.get("input")
        if isinstance(preferred, str):
            return preferred
        return texts[0] if len(texts) == 1 and len(value) == 1 else arguments
    return value if isinstance(value, str) else arguments
