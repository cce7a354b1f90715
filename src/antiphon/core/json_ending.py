"""The end that a JSON text lacks. Some engines lose the last brackets of a call while they stream it."""

import re

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
CLOSING = {"{": "}", "[": "]"}


def missing_brackets(text: str) -> str:
    """What closes every open bracket; nothing if the text ends inside a string, because half a string must not be used."""
    rest = STRING.sub("", text)
    if '"' in rest:
        return ""
    open_brackets: list[str] = []
    for character in rest:
        if character in CLOSING:
            open_brackets.append(CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
    return "".join(reversed(open_brackets))
