"""A snapshot of every resolved dialect, which shows every change of an engine's facts."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME, KNOWN
from antiphon.wire.chat import ChatMessage, ChatRequest

SNAPSHOT = Path(__file__).parent / "snapshot.json"


def facts() -> dict[str, Any]:
    resolved: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode({name: structs.asdict(dialect) for name, dialect in BY_NAME.items()})
    )
    return resolved


def test_the_facts_are_those_of_the_snapshot() -> None:
    assert facts() == msgspec.json.decode(SNAPSHOT.read_bytes())


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
def test_a_dialect_names_only_fields_that_can_be_sent(dialect: Dialect) -> None:
    fields = set(ChatRequest.__struct_fields__)
    assert dialect.extra.keys() | dialect.constrained_extra.keys() <= fields
    assert dialect.max_tokens_member in fields
    assert dialect.reasoning_member is None or dialect.reasoning_member in ChatMessage.__struct_fields__


@pytest.mark.parametrize("dialect", KNOWN, ids=[dialect.name for dialect in KNOWN])
def test_a_known_engine_has_signs_and_knows_every_effort(dialect: Dialect) -> None:
    assert dialect.signs
    assert dialect.efforts.keys() >= {"none", "minimal", "low", "medium", "high", "xhigh"}


if __name__ == "__main__":
    SNAPSHOT.write_bytes(msgspec.json.format(msgspec.json.encode(facts())) + b"\n")
