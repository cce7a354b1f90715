"""The result of a command or a patch, as Codex reports it, in words that a small model understands.

Codex puts lines in front of every output: an id, the time, the exit code, the number of tokens. A small model does not see in
them that its call has succeeded, and makes it again.
"""

import re

_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]*\n"
    r"|(?:Exit code: |Process exited with code )(?P<code>-?\d+)\n)+Output:\n?"
)
NO_OUTPUT = " There was no output."
# Without it the small coder went on calling tools after its work was done, in half of the tasks that it was given.
WHAT_NEXT = "If nothing is left to do, say so to the user."


def plain_result(output: str) -> str:
    """What is written in another way, such as that a command is still running, stays as it is."""
    head = _HEAD.match(output)
    if head is None or head["code"] is None:
        return output
    rest = output[head.end() :]
    has_output = bool(rest.strip())
    if head["code"] == "0":
        done = f"Done.\n{rest.rstrip()}" if has_output else f"Done.{NO_OUTPUT}"
        return f"{done}\n{WHAT_NEXT}"
    return f"Failed with exit code {head['code']}." + (f"\n{rest}" if has_output else NO_OUTPUT)
