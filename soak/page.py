"""docs/soak.md: the figures of the last run."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

SECTION = "\n## "
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


GATEWAYS_TITLE = "Three gateways, one killed each minute"
GATEWAYS_HEAD = """\
`make soak-gateways` runs three gateways on one Postgres behind nginx. Clients talk in turns, half of them in a conversation and
half by `previous_response_id`; half stream, half ask in the background and follow. Each minute one gateway is killed
(`SIGKILL`) and started again. Its streams are cut, and their clients try again; where it had locked a conversation, that
takes up to a minute. Background responses go to another gateway, and all must complete. In the end every response that a
client saw complete is read from each of the three, and every conversation is checked turn by turn.
"""


class Gateways(msgspec.Struct):
    minutes: float
    # In the background, and as many that are streamed.
    conversations: int
    kills: int
    # That their clients saw complete.
    turns: int
    outcomes: dict[str, int]
    # Streams that broke when no gateway had been killed.
    unexplained_cuts: int
    # Of the turns: not to be read from each gateway as they were, not after the one before, not exactly once in a conversation.
    unreadable: int
    out_of_order: int
    doubled: int
    # Answers that are stored, though the gateway was killed before their client saw the end.
    stored_though_cut: int
    # What is queued, running or locked in the end.
    left: dict[str, int]
    bugs: int


MIXED_TITLE = "Thirty thousand mixed requests"
MIXED_HEAD = """\
`make soak-mixed`, a part of `make soak`, sends requests of every route, with every tool and by every protocol. A tenth of them
are hostile, and half of the first 3,000, which are the warm-up: they are large, and fill what a gateway keeps of requests up to
its bounds. What the gateway has after the warm-up and a garbage collection is compared with what it has in the end: its memory
may have grown by 20 MB, the database has what is stored, and nothing else may have grown at all.
"""


class Mixed(msgspec.Struct):
    requests: int
    minutes: float
    outcomes: dict[str, int]
    # What nobody may see, and for which request.
    wrong: dict[str, int]
    # A census of the gateway after the warm-up, and in the end.
    before: dict[str, float]
    after: dict[str, float]
    # In the end: its file, and what its rows have.
    database_mb: float
    contents_mb: float
    stored: dict[str, int]
    bugs: int


def mixed_section(found: Mixed) -> str:
    return "\n".join(_mixed_lines(found)) + "\n"


def _mixed_lines(found: Mixed) -> Iterator[str]:
    yield f"## {MIXED_TITLE}\n\n{MIXED_HEAD}"
    yield from ("| | after the warm-up | in the end |", "| --- | --- | --- |")
    for name, shown in CENSUS_NAMES.items():
        yield f"| {shown} | {found.before[name]:,.0f} | {found.after[name]:,.0f} |"
    yield from ("\n| | |", "| --- | --- |")
    yield f"| requests | {found.requests:,} |"
    yield f"| minutes | {found.minutes:g} |"
    yield f"| stored in the end | {', '.join(f'{count:,} {name}' for name, count in found.stored.items())} |"
    yield f"| size of the database, MB | {found.database_mb:g}, for {found.contents_mb:g} in its rows |"
    yield f"| hung, broken off, or HTTP 500 | {sum(found.wrong.values())} |"
    yield f"| bugs in the log | {found.bugs} |"
    yield "\n| outcome | requests |\n| --- | --- |"
    for outcome, count in found.outcomes.items():
        yield f"| {outcome} | {count:,} |"


CENSUS_NAMES = {
    "memory_mb": "memory, MB",
    "descriptors": "descriptors",
    "threads": "threads, each pool as one",
    "tasks": "tasks",
    "temporary": "temporary files and folders",
}


def page(found: Figures, before: str = "") -> str:
    """The sections, which other runs write, stay as they were on the page before."""
    _, begins, sections = before.partition(SECTION)
    return "\n".join(_lines(found)) + "\n" + begins + sections


def with_section(before: str, title: str, section: str) -> str:
    """In its place, or as the last one."""
    head, *others = before.split(SECTION)
    new = section.removeprefix(SECTION.lstrip())
    kept = [new if each.startswith(f"{title}\n") else each for each in others]
    return SECTION.join(part.rstrip() + "\n" for part in (head, *kept, *([] if new in kept else [new])))


def gateways_section(found: Gateways) -> str:
    return "\n".join(_gateway_lines(found)) + "\n"


def _gateway_lines(found: Gateways) -> Iterator[str]:
    yield f"## {GATEWAYS_TITLE}\n\n{GATEWAYS_HEAD}"
    yield from ("| | |", "| --- | --- |")
    yield f"| minutes, with the reading in the end | {found.minutes:g} |"
    yield f"| conversations | {found.conversations:,} streamed, {found.conversations:,} in the background |"
    yield f"| gateways killed | {found.kills} |"
    yield f"| turns completed | {found.turns:,} |"
    yield f"| not readable from every gateway, or not as the client saw them | {found.unreadable} |"
    yield f"| not after the turn before, missing or twice in a conversation | {found.out_of_order + found.doubled} |"
    yield f"| streams that broke without a kill | {found.unexplained_cuts} |"
    yield f"| stored, though cut before the client saw the end | {found.stored_though_cut} |"
    yield f"| left in the end | {', '.join(f'{count} {name}' for name, count in found.left.items())} |"
    yield f"| bugs in the logs | {found.bugs} |"
    yield "\n| client: outcome | requests |\n| --- | --- |"
    for outcome, count in found.outcomes.items():
        yield f"| {outcome} | {count:,} |"


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
