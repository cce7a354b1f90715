"""A transcript: what a client asked, what the engine was asked for it, what the engine answered, and what the client got.

    requests.jsonl   a request of the client per line
    chats.jsonl      a chat request per line; one response may take several
    answers.jsonl    the frames of the engine's answers, an empty line after each answer
    events.jsonl     the events of the responses, an empty line after each response

Each object is stored as the difference from the one before it: see differences.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from support.engine import Answer, Refusal
from transcripts.differences import Body, difference, encoded, restored

HERE = Path(__file__).parent
DATA = "data: "
# Times that the engine took.
UNSTABLE = "timings"

Frame = Body | str


@dataclass(frozen=True)
class RecordedAnswer:
    frames: list[Frame]
    # Other than 200: its only frame is the body of the error.
    status: int = 200

    @classmethod
    def of_stream(cls, raw: bytes) -> "RecordedAnswer":
        return cls([_frame(each) for each in raw.decode().split("\n\n") if each])

    def for_mock(self) -> Answer:
        if self.status != 200:
            return Refusal(self.status, self.frames[0])
        return "".join(f"{_frame_text(each)}\n\n" for each in self.frames).encode()


def _frame(text: str) -> Frame:
    try:
        chunk = msgspec.json.decode(text.removeprefix(DATA))
    except msgspec.DecodeError:
        return text
    if not text.startswith(DATA) or not isinstance(chunk, dict):
        return text
    return {name: value for name, value in chunk.items() if name != UNSTABLE}


def _frame_text(frame: Frame) -> str:
    return frame if isinstance(frame, str) else DATA + encoded(frame).decode()


@dataclass
class Transcript:
    requests: list[Body] = field(default_factory=list)
    answers: list[RecordedAnswer] = field(default_factory=list)
    chats: list[Body] = field(default_factory=list)
    events: list[list[Body]] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> "Transcript":
        return cls(
            requests=_read_objects((folder / "requests.jsonl").read_text()),
            answers=_read_answers((folder / "answers.jsonl").read_text()),
        )

    def files(self) -> dict[str, str]:
        """The text of each file."""
        return {
            "requests.jsonl": _object_lines(self.requests),
            "answers.jsonl": _answer_lines(self.answers),
            "chats.jsonl": _object_lines(self.chats),
            "events.jsonl": _event_lines(self.events),
        }

    def write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for name, text in self.files().items():
            (folder / name).write_text(text)


def recorded() -> list[Path]:
    return sorted(path.parent for path in HERE.glob("*/requests.jsonl"))


# ---- the lines -------------------------------------------------------------------------------------------------------


def _lines(values: Iterable[Any]) -> str:
    return "".join(f"{encoded(value).decode()}\n" for value in values)


def _groups(text: str) -> list[list[Any]]:
    return [[msgspec.json.decode(line) for line in group.splitlines()] for group in text.split("\n\n") if group]


def _object_lines(objects: Iterable[Body]) -> str:
    before: Body = {}
    found = []
    for each in objects:
        found.append(difference(each, before))
        before = each
    return _lines(found)


def _read_objects(text: str) -> list[Body]:
    before: Body = {}
    found = []
    for line in text.splitlines():
        before = restored(msgspec.json.decode(line), before)
        found.append(before)
    return found


def _answer_lines(answers: Iterable[RecordedAnswer]) -> str:
    """The first line of an answer is its status."""
    before: Body = {}
    found = []
    for answer in answers:
        lines: list[Any] = [answer.status]
        for frame in answer.frames:
            lines.append(frame if isinstance(frame, str) else difference(frame, before))
            before = before if isinstance(frame, str) else frame
        found.append(_lines(lines))
    return "".join(f"{each}\n" for each in found)


def _read_answers(text: str) -> list[RecordedAnswer]:
    before: Body = {}
    found = []
    for status, *lines in _groups(text):
        frames: list[Frame] = []
        for line in lines:
            before = before if isinstance(line, str) else restored(line, before)
            frames.append(line if isinstance(line, str) else before)
        found.append(RecordedAnswer(frames, status))
    return found


def _event_lines(responses: Iterable[list[Body]]) -> str:
    """Each is compared with the last one of its type, and its response with the last response."""
    last: dict[str, Body] = {}
    response: Body = {}
    found = []
    for events in responses:
        lines = []
        for event in events:
            same_response = {"response": response} if "response" in event else {}
            before = last.get(event["type"], {"type": event["type"]}) | same_response
            lines.append({"type": event["type"]} | difference(event, before))
            last[event["type"]], response = event, event.get("response", response)
        found.append(_lines(lines))
    return "".join(f"{each}\n" for each in found)


# ---- what is the same in all transcripts -----------------------------------------------------------------------------


class RecordedEngine(msgspec.Struct, frozen=True):
    model: str
    # Path → what the engine answered there.
    documents: dict[str, Any]
    # What its probes have shown: members of its dialect.
    facts: dict[str, Any]


ENGINE = HERE / "engine.json"


def read_engine() -> RecordedEngine:
    return msgspec.json.decode(ENGINE.read_bytes(), type=RecordedEngine)


def write_engine(engine: RecordedEngine) -> None:
    ENGINE.write_bytes(msgspec.json.format(encoded(engine), indent=1) + b"\n")
