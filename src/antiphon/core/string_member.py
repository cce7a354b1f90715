"""The one string in the JSON arguments of a custom call, `{"input": "…"}`, decoded while it arrives."""

import json
import re

# Up to the first character of the value.
_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
# The complete part of a JSON string: an escape sequence that is cut off is left for later.
_WHOLE = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*', re.DOTALL)
# The first half of a character that JSON writes as two escape sequences.
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")


class StringMember:
    """`receive()` returns what a piece adds to the value; `opened`: the arguments have the expected shape."""

    def __init__(self) -> None:
        self._raw = ""
        self._closed = False
        self.opened = False

    def receive(self, piece: str) -> str:
        if self._closed:
            return ""
        self._raw += piece
        if not self.opened:
            opening = _OPENING.match(self._raw)
            if opening is None:
                return ""
            self.opened = True
            self._raw = self._raw[opening.end() :]
        whole = _WHOLE.match(self._raw)
        assert whole is not None
        end = whole.end()
        self._closed = self._raw[end : end + 1] == '"'
        if not self._closed and (half := _HALF.search(self._raw, 0, end)):
            end = half.start()
        ready, self._raw = self._raw[:end], self._raw[end:]
        return _decode(ready)

    def close(self) -> str:
        """The buffered rest of a value that was cut off."""
        rest, self._raw = self._raw, ""
        return rest if self.opened and not self._closed else ""


def _decode(text: str) -> str:
    try:
        # Models write line breaks without escaping them, which strict JSON does not allow.
        value: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return value.encode("utf-8", "replace").decode()


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
