"""Uploaded files in a request: the exchange asks for them, and what they contain counts for it alone."""

from typing import Any

import pytest
from support.exchanges import make_environment

from antiphon.core.checks.work import CheckOutcome, DocumentWork, StoredFileWork
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Check, Done
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.documents import Documents, work_digest
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.errors import ContextLengthExceeded, EngineFailure, InvalidRequest
from antiphon.gateway.runs.check_process import run_check
from antiphon.wire.responses import CreateResponse

FILE, IMAGE = StoredFileWork("file-1"), StoredFileWork("file-1", is_image=True, most_bytes=7)
PARTS: list[dict[str, Any]] = [{"type": "input_file", "file_id": "file-1"}, {"type": "input_image", "file_id": "file-1"}]


def exchange_of(environment: Environment, *parts: dict[str, Any]) -> Exchange:
    request = CreateResponse(model="m", input=[{"role": "user", "content": list(parts)}])
    return Exchange(request, [EngineKnowledge(PLAIN)], environment)


def test_an_exchange_asks_for_each_file_once_and_then_asks_the_engine() -> None:
    environment = make_environment(limits=RequestLimits(image_bytes=7))
    for _ in range(2):
        # The next exchange asks again: the file may be gone by then, or be another owner's.
        exchange = exchange_of(environment, *PARTS, *PARTS)
        asked = []
        while isinstance(step := exchange.step, Check):
            asked.append(step.work)
            is_image = isinstance(step.work, StoredFileWork) and step.work.is_image
            exchange.checked(
                CheckOutcome(images=("data:image/png;base64,aa",)) if is_image else CheckOutcome("Hello", title="n")
            )
        assert asked == [FILE, IMAGE]
        assert isinstance(exchange.step, Ask)
        content = exchange.step.chat.messages[0].content
        assert isinstance(content, list)
        assert (content[0]["text"], content[1]["type"]) == ('<file name="n">\nHello\n</file>', "image_url")


def test_where_there_are_no_files_the_request_fails_and_names_the_field() -> None:
    exchange = exchange_of(make_environment(), PARTS[0])
    assert isinstance(exchange.step, Check)
    exchange.checked(run_check(exchange.step.work))
    assert isinstance(exchange.step, Done)
    assert exchange.error is not None
    assert (exchange.error.param, exchange.error.code) == ("input[0].content[0].file_id", "file_not_found")


def test_a_file_its_image_and_a_document_that_is_called_like_it_are_different_things() -> None:
    assert len({work_digest(FILE), work_digest(IMAGE), work_digest(DocumentWork(b"file-1"))}) == 3


@pytest.mark.parametrize(
    ("code", "shown"), [("unsupported_file",) * 2, ("invalid_file", "unreadable_file"), ("", "unreadable_file")]
)
def test_a_complaint_is_an_error_for_what_is_sent_and_a_note_in_a_history(code: str, shown: str) -> None:
    documents = Documents(lambda digest: CheckOutcome(complaint="it is wrong", code=code))
    with pytest.raises(InvalidRequest) as rejected:
        documents.read(FILE, "input[0].content[0].file_id")
    assert rejected.value.code == shown
    assert documents.read(FILE, "history[0].content[0].file_id").text == "(This file cannot be read: it is wrong.)"
    assert documents.notices == ["`history[0].content[0].file_id` cannot be read: it is wrong."]
    assert documents.sent_files == {"file-1": "input[0].content[0].file_id"}


def test_a_history_that_is_too_long_loses_the_turns_whose_files_are_long() -> None:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": PARTS[:1]},
        *({"role": "user", "content": "b"} for _ in range(9)),
    ]
    request = CreateResponse(model="m", input=turns, truncation="auto")
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment())
    exchange.checked(CheckOutcome("long " * 1000))
    failure = EngineFailure(400, "x", "the prompt has 1000 tokens, 500 tokens are allowed")
    exchange.refused(ContextLengthExceeded("Too long.", failure=failure))
    assert isinstance(exchange.step, Ask)
    assert [message.content for message in exchange.step.chat.messages] == ["b"] * 9
