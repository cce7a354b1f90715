"""The end that a JSON text lacks. Some engines lose the last brackets of a call while they stream it."""

import re

from antiphon.patterns import possessive

# A string, or the beginning of one that is cut off. It never starts again inside a string: that would take quadratic time.
STRING = possessive(r'"(?:[^"\\]|\\.)*+(?P<end>"?)', re.DOTALL)
CLOSING = {"{": "}", "[": "]"}


def missing_brackets(text: str) -> str:
    """What closes every open bracket; nothing if the text ends inside a string, because half a string must not be used."""
    if any(not string["end"] for string in STRING.finditer(text)):
        return ""
    open_brackets: list[str] = []
    for character in STRING.sub("", text):
        if character in CLOSING:
            open_brackets.append(CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
    return "".join(reversed(open_brackets))
