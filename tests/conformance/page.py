"""Writes docs/conformance.md from the manifest and the deviations: `python tests/conformance/page.py`."""

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "conformance.md"
sys.path.insert(0, str(TESTS))

from conformance.deviations import ALSO_SENT, DEVIATIONS, MEMBER_DEVIATIONS, NOT_SENT, MemberDeviation  # noqa: E402
from conformance.manifest import POLICIES, Row, rows  # noqa: E402

HEAD = """\
# Conformance

What Antiphon does with each field, item, content part, tool, event and route of OpenAI's Responses API. This page is made from
`tests/conformance/manifest.toml`. Each row has tests, and counts only if they really put the thing on the wire. A new version
of the openai SDK with a name that is not here fails the tests. Everything that any test emits is validated against OpenAI's
schemas, and against those of Open Responses.
"""
TITLES = {
    "request field": "Request fields",
    "input item": "Input items",
    "content part": "Content parts",
    "tool": "Tools",
    "tool choice": "Tool choices",
    "output item": "Output items",
    "event": "Events",
    "client message": "WebSocket messages of a client",
    "route": "Routes",
    "parameter": "Parameters of the other routes",
}
DIFFERENCES = """\
## Where schemas disagree

OpenAI's schema wins over that of Open Responses, the SDK over a document that contradicts itself, and a real client over both.
"""
RECORDED = """\
## What OpenAI's servers really send

Everything that any test emits is also compared with answers that were recorded from OpenAI's servers: which members an object
has, which are null, and which events an item has in which order (`tests/conformance/members.toml`). Whether a member is null or
absent follows the recordings; what OpenAI's document declares is not left out because no recording has it. These are the
differences that remain. (The answer to a `DELETE` also calls itself a `response`. It has three members, as in the document.)
"""
KINDS = {"null": "null here", "missing": "absent here", "extra": "only here"}
DOCUMENTS = {"openai": "OpenAI", "open_responses": "Open Responses"}


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    yield from _table(("", "meaning"), ((f"`{does}`", meaning) for does, meaning in POLICIES.items()))
    for kind, group in groupby(rows(), key=lambda row: row.kind):
        yield f"\n## {TITLES[kind]}\n"
        yield from _table(("", "Antiphon", ""), ((f"`{row.name}`", row.does, _sentence(row)) for row in group))
    yield f"\n{DIFFERENCES}"
    known = ((DOCUMENTS[row.document], row.reason) for row in DEVIATIONS)
    yield from _table(("schema of", "difference"), known)
    yield f"\n{RECORDED}"
    yield from _table(("object", "member", "", "reason"), map(_member_cells, MEMBER_DEVIATIONS))
    yield ""
    events = [(f"`{name}`", "not sent", reason) for name, reason in NOT_SENT.items()]
    events += [(f"{item}: {_names(order)}", "only here", reason) for item, order, reason in ALSO_SENT]
    yield from _table(("events", "", "reason"), events)


def _names(order: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in order) or "none"


def _member_cells(row: MemberDeviation) -> tuple[str, ...]:
    """Patterns as a reader would write them."""
    object = row.object.replace("\\.", ".").replace(".*", "…").replace(" in …", "").replace(" in (done|response)", " when done")
    members = ", ".join(f"`{member}`" for member in row.members.replace(".*", "…").split("|"))
    return f"`{object}`", members, KINDS[row.kind], row.reason


def _sentence(row: Row) -> str:
    return f"{row.says} (Of {row.beyond}.)".strip() if row.beyond else row.says


def _table(titles: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield "| " + " | ".join("---" for _ in titles) + " |"
    for cells in lines:
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
