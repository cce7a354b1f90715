"""Which members the typed objects of OpenAI's servers really have, and whether ours have the same.

A schema says that a member may be null or absent. Clients are written against what is really sent, and some accept nothing
else. `members.toml` has the facts: for each type of object and each place where it stands, which members are always there,
which are never null, and which are absent at times. It also has the events between an item's `added` and `done`, in their
order. The facts were read from recorded answers; `python tests/conformance/members.py FOLDER` reads them anew.
"""

import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from conformance.deviations import ALSO_SENT, NOT_SENT  # noqa: E402

Object = dict[str, Any]
FACTS = TESTS / "conformance" / "members.toml"
# Members whose values clients, models and servers make up.
FREE = frozenset("arguments schema parameters input_schema properties metadata logit_bias input attributes env headers".split())
# Tools, choices and formats of a response are the request's own.
ECHOED = frozenset({"response.tools", "response.tool_choice", "response.text"})
ADDED, DONE = "response.output_item.added", "response.output_item.done"
SOURCE = """\
# Facts about what OpenAI's servers send, read by members.py from answers that were recorded from them: the fixtures of the
# Vercel AI SDK (vercel/ai at 857f50f1, 2026-08-22, packages/openai), without those that were written or cut by hand.
# always: in every object, and never null. null: in every object, null at times. optional: absent at times, never null.
# optional_null: absent at times, null at times.
"""


class Typed(NamedTuple):
    """An object and what it is called: its type, or the member that it stands in; and where: in `added`, in `done`, in a
    response."""

    name: str
    value: Object


def typed_objects(value: Any, stands_in: str = "", where: str = "") -> Iterator[Typed]:
    if isinstance(value, list):
        for each in value:
            yield from typed_objects(each, stands_in, where)
    if not isinstance(value, dict) or stands_in in ECHOED:
        return
    kind = value.get("type", value.get("object"))
    name = kind if isinstance(kind, str) else stands_in
    if name in (ADDED, DONE, "response"):
        where = name.rpartition(".")[2]
    elif where == "response" and name.endswith("_call") and value.get("status") == "in_progress":
        # An unfinished response has its items as they were added.
        where = "added"
    if name:
        yield Typed(name if not where or name.startswith("response") else f"{name} in {where}", value)
    for member, inner in value.items():
        if member not in FREE:
            yield from typed_objects(inner, f"{name}.{member}", where)


# ---- what was recorded -----------------------------------------------------------------------------------------------


def documents_in(path: Path) -> list[Any]:
    """A whole answer, or the events of a stream, one a line."""
    if path.suffix == ".json":
        return [json.loads(path.read_text())]
    return [json.loads(line) for line in path.read_text().split("\n") if line.startswith("{")]


def _is_cut(documents: Iterable[Any]) -> bool:
    """Whether somebody shortened it by hand: a response always lists its tools."""
    objects = (each for document in documents for each in typed_objects(document))
    return any(each.name == "response" and "tools" not in each.value for each in objects)


def facts_of(objects: Iterable[Typed]) -> dict[str, dict[str, list[str]]]:
    seen: defaultdict[str, list[Object]] = defaultdict(list)
    for name, value in objects:
        seen[name].append(value)
    return {name: _facts(values) for name, values in sorted(seen.items())}


def _facts(values: list[Object]) -> dict[str, list[str]]:
    present = Counter(member for value in values for member in value)
    null = {member for value in values for member in value if value[member] is None}
    found: dict[str, list[str]] = {}
    for member, count in sorted(present.items()):
        kind = ("null" if member in null else "always") if count == len(values) else "optional" + "_null" * (member in null)
        found.setdefault(kind, []).append(member)
    return found


def orders_of(events: Iterable[Object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Items by type: the events between added and done, each type once, in the order in which they first come."""
    order: list[str] = []
    for event in events:
        if event["type"] == ADDED:
            order = []
        elif event["type"] == DONE:
            yield event["item"]["type"], tuple(order)
        elif (kind := event["type"].removeprefix("response.")) not in order:
            order.append(kind)


def to_toml(folder: Path) -> str:
    files = [documents_in(path) for path in sorted(folder.iterdir())]
    objects = (each for file in files if not _is_cut(file) for document in file for each in typed_objects(document))
    lines = [SOURCE, *facts_to_lines(objects)]
    orders: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for file in files:
        for item, order in orders_of(each for each in file if "sequence_number" in each):
            orders[item].add(order)
    lines += ["# The events between `added` and `done` of an item, each type once.", "[orders]"]
    lines += [f"{item} = {json.dumps(sorted(found))}" for item, found in sorted(orders.items())]
    return "\n".join(lines) + "\n"


def facts_to_lines(objects: Iterable[Typed]) -> Iterator[str]:
    for name, facts in facts_of(objects).items():
        yield f"[members.{json.dumps(name)}]"
        yield from (f"{kind} = {json.dumps(members)}" for kind, members in facts.items())
        yield ""


# ---- what is emitted -------------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """`kind`: "null", "missing" or "extra"."""

    kind: str
    object: str
    member: str

    def __str__(self) -> str:
        said = {"null": "is null", "missing": "is missing", "extra": "is there"}[self.kind]
        return f"{self.object}: {self.member} {said}; no recorded server sends it so"


@cache
def recorded() -> dict[str, Any]:
    return tomllib.loads(FACTS.read_text())


def differences(value: Any) -> Iterator[Difference]:
    """Of an event or an answer. What says that a response was deleted is not one."""
    if isinstance(value, dict) and "deleted" in value:
        return
    yield from differences_of(typed_objects(value), recorded()["members"])


def differences_of(objects: Iterable[Typed], facts: Mapping[str, dict[str, list[str]]]) -> Iterator[Difference]:
    """`facts`: of what was recorded. What was never recorded has none."""
    for name, found in objects:
        if (known := facts.get(name)) is not None:
            yield from _differences(name, found, known)


def _differences(name: str, found: Object, facts: dict[str, list[str]]) -> Iterator[Difference]:
    nullable = {*facts.get("null", ()), *facts.get("optional_null", ())}
    required = {*facts.get("always", ()), *facts.get("null", ())}
    known = nullable | required | {*facts.get("optional", ())}
    for member, inner in found.items():
        if member not in known:
            yield Difference("extra", name, member)
        elif inner is None and member not in nullable:
            yield Difference("null", name, member)
    for member in sorted(required - found.keys()):
        yield Difference("missing", name, member)


def is_known_order(item: str, kinds: Iterable[str]) -> bool:
    """Whether a completed item of this type may have these events between added and done. Deltas and annotations may be
    missing: there may be none."""
    orders = recorded()["orders"].get(item)
    if orders is None:
        return True
    known = [*orders, *(order for type, order, _ in ALSO_SENT if type == item)]
    return all(any(_follows(part, order) for order in known) for part in _parts(kinds))


def _parts(kinds: Iterable[str]) -> list[list[str]]:
    """An item may have several parts, or commands: each begins with the same event as the first."""
    parts: list[list[str]] = [[]]
    for kind in kinds:
        if kind.endswith(".added") and kind in parts[-1][:1]:
            parts.append([])
        if kind not in parts[-1]:
            parts[-1].append(kind)
    return parts


def _follows(kinds: list[str], order: Sequence[str]) -> bool:
    return [kind for kind in order if kind in kinds] == kinds and all(
        kind in kinds or kind in NOT_SENT or kind.endswith((".delta", "annotation.added")) for kind in order
    )


if __name__ == "__main__":
    FACTS.write_text(to_toml(Path(sys.argv[1])))
