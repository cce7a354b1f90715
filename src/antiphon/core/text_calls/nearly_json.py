"""Text that is almost JSON, as small models write it."""

import json
import re

# Repairing is slow, and delays all other requests.
LONGEST_REPAIRED = 64 * 1024

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
# The backslash before a line break is a character of the script, not of JSON.
_CONTROL = re.compile(r"\\?[\x00-\x1f]|\\.")
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape_control_characters(text: str) -> str:
    """The same JSON, with the line breaks and tabs inside its strings escaped: models paste whole scripts."""
    return _STRING.sub(lambda string: _CONTROL.sub(_escape, string[0]), text)


def _escape(found: re.Match[str]) -> str:
    character = found[0][-1]
    if character >= " ":
        return found[0]
    return "\\\\" * (len(found[0]) - 1) + _ESCAPES.get(character, f"\\u{ord(character):04x}")


def repaired(text: str) -> str | None:
    """The JSON that a text which is almost JSON most likely means."""
    if len(text) > LONGEST_REPAIRED:
        return None
    # Imported here: it is rarely needed, and large.
    import json_repair

    try:
        return json.dumps(json_repair.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
