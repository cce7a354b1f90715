"""docs/soak.md: the figures of the last run."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

PAGE = Path(__file__).parent.parent / "docs" / "soak.md"
HEAD = """\
# Under load for a long time

`make soak` runs a gateway, an engine and its clients, each in a process of its own. Clients read at once or slowly, never read
and vanish, leave in the middle, or ask in the background and follow or cancel. Of the calls of the store, 1 in 200 fails; half
of those have been done all the same. In the end a new process reads every response back that was acknowledged: one that a
client saw end as completed, and every one that was accepted in the background. These are the figures of the last run.
"""


class Figures(msgspec.Struct):
    minutes: float
    streams: int
    # What became of the requests, by the kind of client.
    outcomes: dict[str, int]
    acknowledged: int
    lost: int
    # By the part of the run, in percent.
    memory_mb: dict[int, int]
    descriptors_before: int
    descriptors_most: int
    descriptors_after: int
    # That the gateway logged.
    bugs: int


def page(found: Figures) -> str:
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Figures) -> Iterator[str]:
    yield HEAD
    yield from ("| | |", "| --- | --- |")
    yield f"| minutes | {found.minutes:g} |"
    yield f"| clients at once | {found.streams:,} |"
    yield f"| requests | {sum(found.outcomes.values()):,} |"
    yield f"| acknowledged responses | {found.acknowledged:,} |"
    yield f"| lost | {found.lost} |"
    yield f"| bugs in the log | {found.bugs} |"
    counts = (found.descriptors_before, found.descriptors_most, found.descriptors_after)
    yield f"| descriptors before, most, after | {', '.join(f'{count:,}' for count in counts)} |"
    yield "\n| part of the run | " + " | ".join(f"{part} %" for part in found.memory_mb) + " |"
    yield "| --- |" + " --- |" * len(found.memory_mb)
    yield "| memory of the gateway, MB | " + " | ".join(map(str, found.memory_mb.values())) + " |"
    yield "\n| client: outcome | requests |"
    yield "| --- | --- |"
    for outcome, count in found.outcomes.items():
        yield f"| {outcome} | {count:,} |"
