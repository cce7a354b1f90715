"""That the validators find what is wrong, name it, and exempt only what is listed."""

import json
from typing import Any

import msgspec
import pytest
from conformance.deviations import DEVIATIONS
from conformance.recorder import Recorder
from conformance.responses import ResponsesWatcher
from conformance.schemas.trim import to_lines, trimmed
from conformance.validators import FOLDER, documents
from support.engine import text
from support.exchanges import run_answers

OPENAI, OPEN_RESPONSES = documents()
CREATED = run_answers({}, text("Hi"))[0]


def violations(event: dict[str, Any]) -> list[str]:
    recorder = Recorder()
    ResponsesWatcher(recorder).event(msgspec.json.encode(event))
    return recorder.take_violations()


@pytest.mark.parametrize("name", ["openai", "open_responses"])
def test_the_documents_are_trimmed(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    assert to_lines(trimmed(json.loads(text))) == text


def test_an_event_of_both_documents_is_valid() -> None:
    assert violations(CREATED) == []
    assert CREATED["type"] in OPENAI.events.keys() & OPEN_RESPONSES.events.keys()


def test_a_wrong_member_is_named_by_its_path() -> None:
    wrong = {**CREATED, "response": {**CREATED["response"], "status": "sleeping"}}
    assert violations(wrong)[0].startswith('openai ResponseCreatedEvent: response.status: "sleeping" is not one of')


def test_a_member_that_is_missing_in_one_variant_of_a_union_is_named() -> None:
    part = {"type": "output_text", "text": "Hi", "logprobs": []}
    event = {"type": "response.content_part.added", "item_id": "m", "output_index": 0, "content_index": 0, "part": part}
    assert violations({**event, "sequence_number": 1})[0] == (
        'openai ResponseContentPartAddedEvent: part: "annotations" is a required property'
    )


def test_open_responses_asks_for_what_openai_does_not() -> None:
    shorter = {name: value for name, value in CREATED["response"].items() if name != "store"}
    assert 'open_responses ResponseCreatedStreamingEvent: response: "store" is a required property' in violations(
        {**CREATED, "response": shorter}
    )


def test_an_item_of_an_unknown_type_is_a_violation() -> None:
    added = {"type": "response.output_item.added", "output_index": 0, "sequence_number": 2}
    found = violations({**added, "item": {"type": "guess", "id": "g_1"}})
    assert any(message.startswith('openai ResponseOutputItemAddedEvent: item.type: "guess"') for message in found)


def test_an_event_of_an_unknown_type_is_a_violation() -> None:
    assert violations({"type": "response.smell", "sequence_number": 1}) == ["the API has no event response.smell"]


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda deviation: f"{deviation.document} {deviation.path}")
def test_a_deviation_has_a_reason_and_a_document(deviation: Any) -> None:
    assert deviation.document in {document.name for document in documents()}
    assert deviation.reason.endswith(".")


def test_a_deviation_covers_only_its_values() -> None:
    failed = {**CREATED, "type": "response.failed"}
    for code, expected in (("context_length_exceeded", 0), ("coffee_spilled", 1)):
        response = {**CREATED["response"], "error": {"code": code, "message": "no"}}
        assert len(violations({**failed, "response": response})) == expected
