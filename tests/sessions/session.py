"""A recorded session of Claude Code: every request that it sent to `/v1/messages`, in order.

A line of the file is a request: whose it is, how many messages are those of the request before it in the same conversation, the
messages after them, and what differs in the rest of the body from the line before. Claude Code's own texts are not in it:
`‹7:4512›` stands for text 7, which has 4,512 letters, and is read as so many letters of filler.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from transcripts.differences import Body, difference, restored

from antiphon.core.protocols.messages.read import AGENT, SESSION

CLAUDE_CODE = Path(__file__).parent / "claude_code.jsonl"
# Of the session with the many turns.
TURNS = 10

PLACE = re.compile(r"‹(\d+):(\d+)›")
WORDS = (
    "roses beans water litres beds rain soil hoe spade seeds rows peas compost leaves stakes mulch frost weeds roots herbs "
    "onions fence gate shed barrow twine gloves pots trowel rake sun shade"
).split()


class Request(msgspec.Struct, frozen=True):
    """`session` and `turn` count from 1; `agent`: 0 is the main conversation, another number a sub-agent's."""

    session: int
    turn: int
    agent: int
    body: Body

    @property
    def conversation(self) -> tuple[int, int]:
        return self.session, self.agent

    @property
    def headers(self) -> dict[str, str]:
        """Those that count."""
        own = {"anthropic-version": "2023-06-01", SESSION: str(self.session)}
        return own | ({AGENT: str(self.agent)} if self.agent else {})


class _Line(msgspec.Struct):
    session: int
    turn: int
    agent: int
    kept: int
    messages: list[Body]
    rest: Body


def read(path: Path = CLAUDE_CODE, share: float = 1) -> list[Request]:
    """`share`: so much of each text of Claude Code is filled in."""
    before: dict[tuple[int, int], list[Body]] = {}
    rest: Body = {}
    found = []
    for text in path.read_text(encoding="utf-8").splitlines():
        line = msgspec.json.decode(filled(text, share), type=_Line)
        messages = [*before.get((line.session, line.agent), [])[: line.kept], *line.messages]
        rest = restored(line.rest, rest)
        request = Request(line.session, line.turn, line.agent, rest | {"messages": messages})
        before[request.conversation] = messages
        found.append(request)
    return found


def written(requests: Iterable[Request]) -> str:
    """The lines of the file."""
    before: dict[tuple[int, int], list[Body]] = {}
    rest: Body = {}
    lines = []
    for each in requests:
        last, messages = before.get(each.conversation, []), each.body["messages"]
        kept = same(last, messages)
        others = {name: value for name, value in each.body.items() if name != "messages"}
        line = _Line(each.session, each.turn, each.agent, kept, messages[kept:], difference(others, rest))
        lines.append(msgspec.json.encode(line).decode() + "\n")
        before[each.conversation], rest = messages, others
    return "".join(lines)


def same(first: Sequence[Body], second: Sequence[Body]) -> int:
    """How many of them are equal at the beginning."""
    unequal = (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    return next(unequal, min(len(first), len(second)))


# ---- filler ----------------------------------------------------------------------------------------------------------


def place(number: int, letters: int) -> str:
    return f"‹{number}:{letters}›"


def filled(text: str, share: float = 1) -> str:
    return PLACE.sub(lambda found: filler(int(found[1]), round(int(found[2]) * share)), text)


def filler(number: int, letters: int) -> str:
    """Always the same for the same number. It may be within JSON as it is."""
    words, length, state = [f"{number}:"], 0, number + 1
    while length < letters:
        state = (state * 1103515245 + 12345) % 2**31
        words.append(WORDS[state >> 16 & 31])
        length += len(words[-1]) + 1
    return " ".join(words)[:letters]
