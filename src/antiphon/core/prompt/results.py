"""What the result of a call says about it: whether it succeeded, failed, or still runs.

What its tool reports decides: an exit code, a status, a member of its JSON. Where nothing is reported, a result is a success
unless the whole of it has the form of an error. The word alone means nothing: manuals explain errors, and searches find them.
"""

import re
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from antiphon.errors import UNREADABLE
from antiphon.patterns import late_pattern


class Result(Enum):
    SUCCEEDED = "it did what it was called for, as far as can be seen"
    FAILED = "it failed, whatever the output says"
    LOOKS_FAILED = "the whole output has the form of an error: only the same short output again counts"
    UNUSABLE = "the tool was not run, and would not have been with other arguments"
    WAITS = "something is still running: calling again is how one waits for it"


FAILURES = (Result.FAILED, Result.LOOKS_FAILED, Result.UNUSABLE)


class Sign(NamedTuple):
    pattern: re.Pattern[str]
    result: Result


# The first one in a text is that of the call. Others are part of what it printed.
_EXIT = late_pattern(r"(?:^(?:Exit code:|Process exited with code)|\"exit_code\":) *(-?\d+)\b", re.MULTILINE)
# Only as the first words of an output: a tool that runs may print them, too.
UNUSABLE = late_pattern(
    r"\A\W{0,3}(?:error: )?(?:no usable (?:execution )?environment\b|unsupported call\b|(?:no such|unknown|unsupported) tool\b"
    r"|(?:the |this )?tool(?: [\w.`'\"-]{1,64})? is (?:currently )?"
    r"(?:not (?:available|enabled|supported)|unavailable|disabled)\b)",
    re.IGNORECASE,
)
# How the message of an error begins, and how one of a single sentence ends.
_BEGINS = late_pattern(
    r"\A\W{0,3}(?:\[?\w*(?:error|exception|failure|fatal|panic)\]?(?: \w{1,20}){0,3}\s{0,3}(?::|- |\()"
    r"|traceback \(most recent call last\)|errno\b|(?:it )?(?:failed(?!: 0)|unable|could not|cannot|can't|couldn't)\b"
    r"|(?:no such|unknown|invalid|unsupported|illegal|missing required)(?: [\w`'\"./-]{1,60}){1,4}(?::|\.?\s{0,9}\Z)"
    r"|(?:permission|access) (?:is |was )?denied\b|not (?:found|allowed|permitted|supported)\b|time(?:d)? ?out\b"
    r"|errors?:?\s{0,9}[1-9]|<tool_use_error>|[\w./ -]{1,80}: (?:line \d{1,6}: )?[^\n]{0,200}\b(?:no such (?:file|directory)"
    r"|command not found|permission denied|is a directory|not a directory|file exists|not found)\b"
    r"|(?!\d)[\w.-]{1,80}(?: \w{1,20}){0,2} failed:)",
    re.IGNORECASE,
)
_ENDS = late_pattern(
    r"\A[^\n.]{1,200}\b(?:(?:was|were|is|are|does|do|could|did)(?: not|n't)(?: be)? (?:found|exist|known|allowed|permitted"
    r"|supported|available)|(?<!\d )failed|(?:was |is )?(?:denied|refused|rejected|aborted)|timed out)[.!]?\s{0,9}\Z",
    re.IGNORECASE,
)
SIGNS = (
    Sign(UNUSABLE, Result.UNUSABLE),
    Sign(late_pattern(r"^Process running with session ID|\bstill running\b", re.MULTILINE | re.IGNORECASE), Result.WAITS),
    Sign(late_pattern(r"\"timed_out\": *true|\"status\": *\"(?:in_progress|queued|pending|running)\""), Result.WAITS),
    Sign(_BEGINS, Result.LOOKS_FAILED),
    Sign(_ENDS, Result.LOOKS_FAILED),
)
# Where the signs are looked for: outputs begin with what happened, or end with it. What is longer than both is more than the
# message of an error.
_HEAD, _TAIL = 600, 200
LONGEST_MESSAGE = _HEAD + _TAIL
# Of the JSON that a tool reports.
_FAILED_BY = (("success", False), ("ok", False), ("isError", True), ("is_error", True), ("failed", True))
_FAILED_STATUS = frozenset({"error", "failed", "failure"})


def result_of(output: str, *, reported: bool = False) -> Result:
    """`reported`: its item says that it failed."""
    is_long = len(output) > LONGEST_MESSAGE
    shown = f"{output[:_HEAD]}\n{output[-_TAIL:]}" if is_long else output
    if (code := _EXIT.search(shown)) is not None:
        return Result.SUCCEEDED if code[1] == "0" else Result.FAILED
    if reported:
        return Result.FAILED
    if not is_long and (said := _said_in_json(output)) is not None:
        return said
    result = next((sign.result for sign in SIGNS if sign.pattern.search(shown)), Result.SUCCEEDED)
    return Result.SUCCEEDED if is_long and result in FAILURES else result


def _said_in_json(output: str) -> Result | None:
    """None: it is no object, or has no member that says so."""
    if not output.lstrip().startswith("{"):
        return None
    try:
        members: Any = msgspec.json.decode(output)
    except UNREADABLE:
        return None
    if members.get("error") or any(members.get(name) is value for name, value in _FAILED_BY):
        return Result.LOOKS_FAILED
    status = members.get("status")
    return Result.LOOKS_FAILED if isinstance(status, str) and status.lower() in _FAILED_STATUS else None
