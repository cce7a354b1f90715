"""The result of a command or a patch, as Codex reports it, in words that a small model understands.

Codex puts lines in front of every output: an id, the time, the exit code, the number of tokens. A small model does not see in
them that its call has succeeded, and makes it again.
"""

import re
from collections.abc import Collection

_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]*\n"
    r"|(?:Exit code: |Process exited with code )(?P<code>-?\d+)\n)+Output:\n?"
)
NO_OUTPUT = " There was no output."
# Without it the small coder went on calling tools after its work was done, in half of the tasks that it was given.
WHAT_NEXT = "If nothing is left to do, say so to the user."


# What Codex says of a patch whose old lines are not in the file. The small coder took a word for a line, and tried it again.
_NO_SUCH_LINES = re.compile(
    r"(?:apply_patch verification failed: )?Failed to find expected lines in (?P<path>[^\n]+):\n(?P<lines>.*)", re.DOTALL
)
NO_SUCH_LINES = "Failed. Nothing was changed: these are not whole lines of {path}:\n{lines}\n{advice}"
READ_FIRST = "Read the file, and use whole lines exactly as they are in it."
READ_OR_REPLACE = (
    "Use replace_text to change a part of a line. To change whole lines, use read_file first, and copy them exactly."
)
ADVISED = frozenset({"read_file", "replace_text"})


def plain_result(output: str, offered: Collection[str] = ()) -> str:
    """What is written in another way, such as that a command is still running, stays as it is. `offered`: the easy functions
    that the model can use next."""
    head = _HEAD.match(output)
    code = head["code"] if head is not None else None
    rest = output[head.end() :] if head is not None and code is not None else output
    if code != "0" and (missing := _NO_SUCH_LINES.match(rest)) is not None:
        advice = READ_OR_REPLACE if ADVISED.issubset(offered) else READ_FIRST
        return NO_SUCH_LINES.format(path=missing["path"], lines=missing["lines"].rstrip("\n"), advice=advice)
    if code is None:
        return output
    has_output = bool(rest.strip())
    if code == "0":
        done = f"Done.\n{rest.rstrip()}" if has_output else f"Done.{NO_OUTPUT}"
        return f"{done}\n{WHAT_NEXT}"
    return f"Failed with exit code {code}." + (f"\n{rest}" if has_output else NO_OUTPUT)
