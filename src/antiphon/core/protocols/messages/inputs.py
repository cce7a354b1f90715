"""The input of a call while it streams. Anthropic's SDKs read it as JSON after each piece: what is none ends their stream.

Nearly always, what a model writes is JSON, and passes as it comes. The first character that is not ends that: the object is
closed, with the rest in a member that no tool has. So the tool refuses it, and the model sees what it had written.
"""

import re

import msgspec

from antiphon.partial_json import object_arguments
from antiphon.patterns import late_pattern, possessive

_SPACE = late_pattern(r"[ \t\n\r]*")
# The text of a string, up to its end, or to an escape sequence that is not whole yet.
_TEXT = possessive(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_HALF_ESCAPE = late_pattern(r"\\(?:u[0-9a-fA-F]{0,3})?")
# A number or a word. It is whole when something else follows.
_WORD = late_pattern(r"[-+.\w]+")
_VALUE_WORD = late_pattern(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null", re.ASCII)

# What may come next: the characters that are allowed, "w" for a word.
START, END, COLON = "{", "", ":"
FIRST_KEY, KEY = '"}', '"'
FIRST_VALUE, VALUE = '"{[w]', '"{[w'
PUNCTUATION = frozenset('"{}[]:,')


class InputText:
    """`receive()` returns what of the next piece can be sent; `close()`, what makes an object of all that was sent."""

    __slots__ = ("_expects", "_is_broken", "_open", "_sent", "_string", "_waiting")

    def __init__(self) -> None:
        self._expects = START
        # What closes the brackets that are open.
        self._open: list[str] = []
        # Inside a string: what may come after it.
        self._string: str | None = None
        # What has to wait for its end: half an escape sequence, or a word.
        self._waiting = ""
        # How many characters were sent.
        self._sent = 0
        self._is_broken = False

    def receive(self, piece: str) -> str:
        if self._is_broken:
            return ""
        text = self._waiting + piece
        end = self._read(text)
        self._waiting = text[end:]
        self._sent += end
        return text[:end]

    def close(self, arguments: str) -> str:
        """`arguments`: all that the model has written. What it has not finished stays so: clients read it as far as it goes."""
        if not self._is_broken:
            return ""
        if self._expects == START:
            return object_arguments(arguments)
        if not self._open:
            # Something follows the object.
            return ""
        member = f'"invalid_json":{msgspec.json.encode(arguments[self._sent :]).decode()}}}'
        return self._end_of_member() + member

    def _end_of_member(self) -> str:
        """Up to where another member of the outermost object can be written."""
        expects, end = self._expects, ""
        if self._string is not None:
            expects, end = self._string, '"'
        if expects == COLON:
            end += ":null"
        elif expects == VALUE:
            end += "null"
        elif expects == KEY and len(self._open) > 1:
            end += '"":null'
        is_first = len(self._open) == 1 and expects in (FIRST_KEY, KEY)
        return end + "".join(reversed(self._open[1:])) + ("" if is_first else ",")

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _read(self, text: str) -> int:
        """How far it is the beginning of an object."""
        at, length = 0, len(text)
        while at < length:
            if self._string is not None:
                at = _end(_TEXT, text, at)
                if at == length:
                    return at
                if text[at] != '"':
                    self._is_broken = _HALF_ESCAPE.fullmatch(text, at) is None
                    return at
                self._expects, self._string = self._string, None
                at += 1
            elif (at := _end(_SPACE, text, at)) < length:
                if (end := self._read_token(text, at)) is None:
                    return at
                at = end
        return at

    def _read_token(self, text: str, at: int) -> int | None:
        """Where it ends. None: it is not whole yet, or it must not be there."""
        kind = text[at] if text[at] in PUNCTUATION else "w"
        if kind not in self._expects:
            self._is_broken = True
            return None
        match kind:
            case "w":
                return self._read_word(text, at)
            case '"':
                self._string = COLON if self._expects in (FIRST_KEY, KEY) else self._after_value()
            case "{":
                self._open.append("}")
                self._expects = FIRST_KEY
            case "[":
                self._open.append("]")
                self._expects = FIRST_VALUE
            case ":":
                self._expects = VALUE
            case ",":
                self._expects = KEY if self._open[-1] == "}" else VALUE
            case _:
                self._open.pop()
                self._expects = self._after_value()
        return at + 1

    def _read_word(self, text: str, at: int) -> int | None:
        end = _end(_WORD, text, at)
        if at < end == len(text):
            return None
        if _VALUE_WORD.fullmatch(text, at, end) is None:
            self._is_broken = True
            return None
        self._expects = self._after_value()
        return end

    def _after_value(self) -> str:
        return f",{self._open[-1]}" if self._open else END


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Of what matches there. `at`, if nothing does."""
    found = pattern.match(text, at)
    return at if found is None else found.end()
