"""Writes docs/faults.md from the fault matrix: `python tests/faults/page.py`."""

import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "faults.md"
sys.path.insert(0, str(TESTS))

from faults.rows import GROUPS, Expected, Row  # noqa: E402

HEAD = """\
# When an engine fails

What an engine may do wrong, and what the client gets. This page is made from `tests/faults/rows.py`. A test plays every row
over real sockets: streamed, whole, over a WebSocket, in the background, followed and polled, as messages of Anthropic's API and
as chat completions, streamed and whole. It also checks that there is exactly one answer with one terminal event, that no task,
connection or descriptor is left, and that the next request is served.

- **streamed**: the event that ends the stream, with the code of its error; or the HTTP error, if the stream had not begun. A
  WebSocket gets the same, with an `error` event in place of the HTTP error.
- **whole**: the HTTP answer to a request that is not streamed, with the code of its error.
- Messages get the same status and the same end, with Anthropic's types of errors, an `error` event, and 529 in place of 503. A
  chat completion that fails in the middle ends with a chunk that is an error object.
- **background**: the last event, and what polling shows.
- **again**: whether the gateway asks the engine once more before the client hears of it. The tests allow one further attempt.
- **Retry-After**: whether the HTTP error has this header. "no use": it has `x-should-retry: false` instead.
"""
COLUMNS = ("fault", "streamed", "whole", "background", "again", "Retry-After")


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD.rstrip()
    for title, rows in GROUPS.items():
        yield f"\n## {title}\n"
        yield f"| {' | '.join(COLUMNS)} |"
        yield "| " + " | ".join("---" for _ in COLUMNS) + " |"
        for row in rows:
            yield f"| {' | '.join(_cells(row))} |"


def _cells(row: Row) -> tuple[str, ...]:
    expected = row.expected
    again = "yes" if row.tried_again else ""
    if expected.ended != "failed":
        return row.name, f"`response.{expected.ended}`", "200", expected.ended, again, ""
    event = f"`response.failed`, {expected.event_code}"
    error = f"{expected.status}, {expected.code}" if expected.code else str(expected.status)
    return row.name, event if expected.begun else error, error, event, again, _wait(expected)


def _wait(expected: Expected) -> str:
    return "no use" if expected.futile else "yes" if expected.retry_after else ""


if __name__ == "__main__":
    PAGE.write_text(page())
