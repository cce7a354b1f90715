"""Which members the objects of Anthropic's servers really have, and whether ours have the same: `conformance.members`, for
Messages. `python tests/conformance/messages/members.py FOLDER` reads the facts anew from recorded answers."""

import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

from conformance.members import Difference, Typed, differences_of, documents_in, facts_to_lines  # noqa: E402

FACTS = Path(__file__).parent / "members.toml"
# What clients and models make up; and the steps of a server, each with a usage of its own.
FREE = frozenset({"input", "input_schema", "iterations"})
# Recordings that were written by hand, or come from another server.
NOT_RECORDED = ("fallback", "refusal", "message-delta-input-tokens")
SOURCE = """\
# Facts about what Anthropic's servers send, read by members.py from answers that were recorded from them: the fixtures of the
# Vercel AI SDK (vercel/ai at 857f50f1, 2026-08-22, packages/anthropic), without those that were written by hand.
# always: in every object, and never null. null: in every object, null at times. optional: absent at times, never null.
# optional_null: absent at times, null at times.
"""


def typed_objects(value: Any, stands_in: str = "", where: str = "") -> Iterator[Typed]:
    """Each with its name: its type, or the member that it stands in. What a stream begins with has other members."""
    if isinstance(value, list):
        for each in value:
            yield from typed_objects(each, stands_in, where)
    if not isinstance(value, dict):
        return
    kind = value.get("type")
    name = kind if isinstance(kind, str) else stands_in
    if name in ("message_start", "content_block_start"):
        where = " in start"
    if name:
        yield Typed(name + where if name not in ("message_start", "content_block_start") else name, value)
    for member, inner in value.items():
        if member not in FREE:
            yield from typed_objects(inner, f"{name}.{member}", where)


@cache
def recorded() -> dict[str, Any]:
    facts: dict[str, Any] = tomllib.loads(FACTS.read_text())["members"]
    return facts


def differences(value: Any) -> Iterator[Difference]:
    yield from differences_of(typed_objects(value), recorded())


def to_toml(folder: Path) -> str:
    files = (path for path in sorted(folder.iterdir()) if not any(name in path.name for name in NOT_RECORDED))
    objects = (each for path in files for document in documents_in(path) for each in typed_objects(document))
    return "\n".join([SOURCE, *facts_to_lines(objects)])


if __name__ == "__main__":
    FACTS.write_text(to_toml(Path(sys.argv[1])))
