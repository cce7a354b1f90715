"""What the tests of the store share: a clock that they set, and functions that make records."""

import msgspec

from antiphon.store.records import Conversation, Event, Item, Record
from antiphon.store.sql import responses
from antiphon.store.sql.operations import Operation, Statement, placeholders

DAY = 86_400
BEGINNING = 1_800_000_000


class Clock:
    """Shows the same time until a test changes it."""

    def __init__(self) -> None:
        self.now = float(BEGINNING)

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


def record(id: str, owner: str = "ada", **members: object) -> Record:
    defaults: dict[str, object] = {
        "created_at": BEGINNING,
        "expires_at": BEGINNING + 30 * DAY,
        "status": "completed",
        "input": msgspec.json.encode([{"id": f"in_{id}", "type": "message"}]),
        "output": msgspec.json.encode([{"id": f"out_{id}", "type": "message"}]),
        "settings": msgspec.json.encode({"id": id, "model": "m"}),
    }
    return msgspec.convert({"id": id, "owner": owner, **defaults, **members}, Record)


def put_as_before(record: Record) -> Operation[None]:
    """A put of the versions that had no index of items."""
    values = placeholders(1, len(responses.FIELDS))
    yield Statement(f"INSERT INTO responses ({responses.COLUMNS}) VALUES ({values})", responses.record_values(record))


def finish_as_before(record: Record) -> Operation[None]:
    yield Statement("DELETE FROM jobs WHERE id = $1", (record.id,))
    columns, values = responses.COLUMNS, placeholders(1, len(responses.FIELDS))
    yield Statement(f"UPDATE responses SET ({columns}) = ({values}) WHERE id = $1", responses.record_values(record))


def delete_as_before(id: str) -> Operation[None]:
    yield Statement("DELETE FROM responses WHERE id = $1", (id,))


def queued(id: str, owner: str = "ada", **members: object) -> Record:
    return record(id, owner, **{"status": "queued", "output": b"[]", "background": True, **members})


def conversation(id: str, owner: str = "ada", **members: object) -> Conversation:
    defaults: dict[str, object] = {"created_at": BEGINNING, "expires_at": BEGINNING + 30 * DAY}
    return msgspec.convert({"id": id, "owner": owner, **defaults, **members}, Conversation)


def item(id: str, text: str = "") -> Item:
    return Item(id, msgspec.json.encode({"id": id, "text": text}))


def items(*ids: str) -> list[Item]:
    return [item(id) for id in ids]


def events(*numbers: int) -> list[Event]:
    return [Event(number, f"data: {number}\n\n".encode()) for number in numbers]
