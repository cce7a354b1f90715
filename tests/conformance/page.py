"""Writes a page for each manifest, with the deviations from what others publish: `python tests/conformance/page.py`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

from conformance.deviations import ALSO_SENT, DEVIATIONS, MEMBER_DEVIATIONS, NOT_SENT, MemberDeviation  # noqa: E402
from conformance.manifest import MANIFESTS, POLICIES, Manifest, Row  # noqa: E402

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


def page(manifest: Manifest) -> str:
    return "\n".join(_lines(manifest)) + "\n"


def _lines(manifest: Manifest) -> Iterator[str]:
    yield manifest.head
    used = {row.does for row in manifest.rows}
    yield from _table(("", "meaning"), ((f"`{does}`", meaning) for does, meaning in POLICIES.items() if does in used))
    for kind, group in groupby(manifest.rows, key=lambda row: row.kind):
        yield f"\n## {manifest.titles[kind]}\n"
        yield from _table(("", "Antiphon", ""), ((f"`{row.name}`", row.does, _sentence(row)) for row in group))
    if (more := SECTIONS.get(manifest.protocol)) is not None:
        yield from more()


def _of_responses() -> Iterator[str]:
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


# By the name of the protocol: what its page has beside its manifest.
SECTIONS: Mapping[str, Callable[[], Iterator[str]]] = {"responses": _of_responses}

if __name__ == "__main__":
    for each in MANIFESTS:
        each.page.write_text(page(each))
