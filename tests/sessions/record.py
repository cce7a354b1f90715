"""Records a session of the real Claude Code with a scripted engine: `make sessions`, then read the diff.

Claude Code runs as `antiphon claude -- -p` starts it, with all of its tools, and is told one thing after another: ten turns
with rounds of tools, a sub-agent, and a file that somebody else changes meanwhile. A second session in the same folder shows
what two sessions have in common. What is kept, and what stands for Claude Code's own texts: session.py and scrub.py.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
from sessions.scrub import Scrubber
from sessions.session import CLAUDE_CODE, Request, same, written
from support.claude import Claude, bash, calls, installed, use
from support.engine import MockEngine, chunk, text
from support.gateway import CHECKER, running_gateway, started

from antiphon.app.parts import Extensions
from antiphon.core.protocols.messages.read import AGENT
from antiphon.gateway.runs.observers import Arrival, Observer

# What stands for the folders of the machine.
PROJECT, HOME = "/garden", "/ada"

NOTES = "".join(f"Bed {bed}: {plant}, {litres} litres a day.\n" for bed, plant, litres in [
    (1, "roses", 12), (2, "beans", 8), (3, "peas", 6), (4, "herbs", 3), (5, "onions", 4), (6, "sunflowers", 15),
])  # fmt: skip
PROGRAM = '''"""Adds up how much water the beds of the notes need."""

import re
import sys

LINE = re.compile(r"Bed (\\d+): (\\w+), (\\d+) litres a day")


def litres(text):
    """By bed."""
    return {int(bed): int(amount) for bed, _, amount in LINE.findall(text)}


def main():
    with open(sys.argv[1]) as file:
        amounts = litres(file.read())
    for bed, amount in sorted(amounts.items()):
        print(f"{bed:3} {amount:5}")
    print(f"all {sum(amounts.values()):5}")


if __name__ == "__main__":
    main()
'''
TESTS = """from water import litres


def test_the_litres_of_each_bed_are_read():
    assert litres("Bed 1: roses, 12 litres a day.\\nBed 2: beans, 8 litres a day.\\n") == {1: 12, 2: 8}


def test_other_lines_say_nothing():
    assert litres("It has rained.\\n") == {}
"""
TASK = "Count the lines of notes.txt that mention litres, and say which bed needs most."
SINCE = "It has rained since yesterday."
LOG = 'for day in $(seq 1 60); do echo "day $day: watered beds 1 to 6, $((40 + day % 9)) litres, tank at $((100 - day))"; done'


@dataclass(frozen=True)
class Turn:
    said: str
    answers: Sequence[bytes]
    # What somebody else does first, in the folder.
    before: Callable[[Path], Any] = lambda folder: None


def thinking(thought: str, *chunks: bytes) -> bytes:
    return calls(chunk({"reasoning": thought}), *chunks)


def turns(folder: Path) -> list[Turn]:
    notes, program, tests = (str(folder / name) for name in ("notes.txt", "water.py", "test_water.py"))
    run = "python3 water.py notes.txt"
    return [
        Turn(
            "What is in this folder?",
            [
                thinking("I list the files, and read the notes at once.", bash("ls", id="call_1"),
                         use("Read", id="call_2", index=1, file_path=notes)),
                text("There is one file, notes.txt. It says how much water each of the six beds needs in a day."),
            ],
        ),
        Turn(
            "Write a program water.py that adds up the litres, and run it.",
            [
                thinking("A pattern for the lines will do.", use("Write", id="call_3", file_path=program, content=PROGRAM)),
                calls(bash(run, id="call_4")),
                text("water.py reads the notes and adds up the litres: the beds need 48 litres a day."),
            ],
        ),
        Turn(
            "Leave out a bed with 0 litres, and say it in the docstring.",
            [
                calls(use("Edit", id="call_5", file_path=program, old_string='    """By bed."""',
                          new_string='    """By bed. A bed that needs none is left out."""')),
                calls(use("Edit", id="call_6", file_path=program, old_string="in LINE.findall(text)}",
                          new_string="in LINE.findall(text) if int(amount)}")),
                calls(bash(run, id="call_7")),
                text("A bed with 0 litres is left out now. The sum is the same, because there is none yet."),
            ],
        ),
        Turn(
            "Does it work for a file that is not there?",
            [
                thinking("I try it.", bash("python3 water.py missing.txt", id="call_8")),
                text("No: it ends with a FileNotFoundError, which names the file. I would leave it at that."),
            ],
        ),
        Turn(
            "Have somebody check which bed needs most.",
            [
                calls(use("Agent", id="call_9", description="Check the beds", prompt=TASK, subagent_type="general-purpose",
                          run_in_background=False)),
                calls(bash("grep -c litres notes.txt", id="call_10")),
                calls(use("Read", id="call_11", file_path=notes)),
                text("Six lines mention litres. Bed 6, the sunflowers, needs most: 15 litres a day."),
                text("The other agent has read the notes: bed 6 needs most, 15 litres a day."),
            ],
        ),
        Turn("Thank you. Is that much for sunflowers?", [text("No. On a hot day, six large ones drink as much as that.")]),
        Turn(
            "I have changed the notes. What is new?",
            [
                thinking("The file has changed, so I read it again.", use("Read", id="call_12", file_path=notes)),
                text(f"The last line is new. {SINCE}"),
            ],
            lambda folder: (folder / "notes.txt").write_text(NOTES + SINCE + "\n"),
        ),
        Turn(
            "Show me what was watered in the last 60 days.",
            [calls(bash(LOG, id="call_13")), text("Every day, beds 1 to 6 got between 40 and 48 litres. The tank is at 40.")],
        ),
        Turn(
            "Write two tests, and run them.",
            [
                calls(use("Write", id="call_14", file_path=tests, content=TESTS)),
                calls(bash("python3 -c 'import test_water as t; [f() for n, f in vars(t).items() if n[:5] == \"test_\"]'",
                           id="call_15"), bash("wc -l *.py", id="call_16", index=1)),
                text("Both tests pass."),
            ],
        ),
        Turn("Sum up what you did.", [text("I wrote water.py and two tests. The beds need 48 litres a day, bed 6 most.")]),
    ]  # fmt: skip


ANOTHER_SESSION = Turn(
    "Is there a test for the program?", [calls(bash("ls", id="call_1")), text("Yes: test_water.py has two.")]
)


class Recording:
    """What arrives while Claude Code runs."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._agents: dict[str, int] = {}
        self.session = self.turn = 0

    def __call__(self, arrival: Arrival) -> Observer:
        if arrival.path == "/v1/messages":
            agent = {name.lower(): value for name, value in arrival.headers.items()}.get(AGENT)
            number = self._agents.setdefault(agent, len(self._agents) + 1) if agent else 0
            self.requests.append(Request(self.session, self.turn, number, msgspec.json.decode(arrival.body)))
        return Observer()


async def record(binary: Path, folder: Path) -> list[Request]:
    """The requests of both sessions, scrubbed."""
    recording = Recording()
    extensions = Extensions(checker=CHECKER, observers=[recording])
    async with started(MockEngine()) as engine, running_gateway(engine, extensions=extensions) as gateway:
        claude = Claude(binary, gateway.url, folder)
        (claude.folder / "notes.txt").write_text(NOTES)
        for played in (turns(claude.folder), [ANOTHER_SESSION]):
            recording.session += 1
            await play(claude, engine, recording, played)
    said = {TASK, *(turn.said for turn in (*turns(claude.folder), ANOTHER_SESSION)), *spoken(recording.requests)}
    scrubber = Scrubber(stand_ins(claude), said)
    found = [msgspec.structs.replace(each, body=scrubber.scrubbed(each.body)) for each in recording.requests]
    check(recording.requests, found)
    return found


async def play(claude: Claude, engine: MockEngine, recording: Recording, played: Sequence[Turn]) -> None:
    async with claude.conversation() as say:
        for recording.turn, turn in enumerate(played, 1):
            turn.before(claude.folder)
            engine.will(*turn.answers)
            result = await say(turn.said)
            assert not result["is_error"], result
            assert not engine.answers, "all answers were asked for"


def spoken(requests: Sequence[Request]) -> set[str]:
    """What the engine has said."""
    messages = [message for each in requests for message in each.body["messages"] if message["role"] == "assistant"]
    return {block["text"] for message in messages for block in message["content"] if block["type"] == "text"}


def stand_ins(claude: Claude) -> dict[str, str]:
    """By folder, also as Claude Code writes it into the name of another one. The longest comes first."""
    folders = {claude.folder: PROJECT, claude.person.home: HOME, claude.folder.parent: "/machine"}
    plain = {str(folder.resolve()): instead for folder, instead in folders.items()}
    return plain | {dashed(folder): dashed(instead) for folder, instead in plain.items()}


def dashed(folder: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in folder)


def check(sent: Sequence[Request], found: Sequence[Request]) -> None:
    """Any two requests have as much in common as before."""
    for (one, scrubbed), (other, also) in combinations(zip(sent, found, strict=True), 2):
        for name in ("system", "tools", "messages"):
            assert same(one.body[name], other.body[name]) == same(scrubbed.body[name], also.body[name])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        requests = asyncio.run(record(installed(), Path(folder)))
    CLAUDE_CODE.write_text(written(requests), encoding="utf-8")


if __name__ == "__main__":
    main()
