"""What the soak of batches has found: what must not be, and its section of docs/soak.md."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

TITLE = "A batch, with people and kills"
HEAD = """\
`make soak-batches` works through a large batch, here of {lines:,} lines, on an engine that gives {slots} answers at once, each
after {answer_ms} ms, first come, first served. Meanwhile {people} people ask, one after another: on one gateway, and on three
over one Postgres, of which one is killed (`SIGKILL`) every {kill_every:g} s and started again. The engine counts how many
answers must end before that of a person begins. Without a batch, it is none.
"""
COSTS = """
On one gateway, with nobody else, a line takes {batch:.1f} ms and {cpu_batch:.2f} ms of CPU. Asked directly, as many at
once, it takes {by_hand:.1f} ms and {cpu_by_hand:.2f} ms."""


class Plan(NamedTuple):
    lines: int
    people: int
    kill_every: float
    slots: int
    answer_ms: int


class Found(NamedTuple):
    """Of one run. `waited`: by the number of answers that had to end before theirs began, how many people. `waits`: seconds
    until the first event, without the batch and with it."""

    gateways: int
    kills: int
    status: str
    lines: int
    twice: int
    missing: int
    asked_again: int
    waited: Mapping[int, int]
    # The batch still ran when the last of them had an answer.
    people_met_batch: bool
    bugs: int
    waits: tuple[Sequence[float], Sequence[float]]


class Costs(NamedTuple):
    """Of a line, in milliseconds."""

    by_hand: float
    batch: float
    cpu_by_hand: float
    cpu_batch: float


def late(found: Found) -> int:
    """People who waited for more than one answer."""
    return sum(persons for answers, persons in found.waited.items() if answers > 1)


def faults(found: Found, plan: Plan) -> Iterator[str]:
    """What must not be."""
    at = f"{found.gateways} gateways" if found.gateways > 1 else "one gateway"
    if found.status != "completed" or found.lines != plan.lines or found.twice or found.missing:
        yield f"{at}: {found.status}, {found.lines} lines, {found.twice} twice, {found.missing} missing"
    # What a gateway ran when it was killed is asked for once more.
    if found.asked_again > plan.slots * found.kills:
        yield f"{at}: {found.asked_again} lines were asked for again after {found.kills} kills"
    # Gateways know of one another within a moment: meanwhile each may begin a line in the same place.
    if late(found) > (0 if found.gateways == 1 else sum(found.waited.values()) // 10):
        yield f"{at}: {late(found)} people of {sum(found.waited.values())} waited for more than one answer"
    if not found.people_met_batch:
        yield f"{at}: the batch had ended before the people had: more lines are needed"
    if found.bugs or (found.gateways > 1 and not found.kills):
        yield f"{at}: {found.bugs} bugs were logged, {found.kills} kills"


def section(found: Sequence[Found], plan: Plan, costs: Costs | None) -> str:
    return "\n".join(_lines(found, plan, costs)) + "\n"


def _lines(found: Sequence[Found], plan: Plan, costs: Costs | None) -> Iterator[str]:
    yield f"## {TITLE}\n"
    yield HEAD.format(**plan._asdict())
    yield "| | " + " | ".join(f"{_words(each.gateways)}" for each in found) + " |"
    yield "| --- |" + " --- |" * len(found)
    yield _row("kills", (each.kills for each in found))
    yield _row("lines in the output", (each.lines for each in found))
    yield _row("of these twice, missing", (f"{each.twice}, {each.missing}" for each in found))
    yield _row("asked for again, because their gateway was killed", (each.asked_again for each in found))
    for answers in sorted({answers for each in found for answers in each.waited}):
        name = {0: "people who waited for no answer", 1: "for one"}.get(answers, f"for {answers}")
        yield _row(name, (each.waited.get(answers, 0) for each in found))
    yield _row("bugs in the logs", (each.bugs for each in found))
    if costs is not None:
        for name, at in (("median", 0.5), ("95 %", 0.95), ("longest", 1.0)):
            pairs = ([_at(waits, at) for waits in each.waits] for each in found)
            yield _row(f"ms to the first event, {name}, without and with", (f"{before}, {during}" for before, during in pairs))
        yield COSTS.format(**costs._asdict())


def _words(gateways: int) -> str:
    return "one gateway" if gateways == 1 else f"{gateways} gateways"


def _row(name: str, values: Iterable[int | str]) -> str:
    return f"| {name} | " + " | ".join(f"{each:,}" if isinstance(each, int) else each for each in values) + " |"


def _at(waits: Sequence[float], share: float) -> int:
    return round(1000 * waits[min(len(waits) - 1, int(len(waits) * share))])
