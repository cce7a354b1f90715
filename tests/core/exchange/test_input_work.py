"""What has to be read or compiled before an engine is asked: once, and for others only what they may know."""

from typing import Any

import msgspec
from support.exchanges import make_environment

from antiphon.core.checks.work import CheckOutcome, DefinitionWork, DocumentWork, Flaw, StoredFileWork
from antiphon.core.exchange.input_work import TOO_SLOW, InputWork
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.prompt.documents import work_digest
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.wire.responses import CreateResponse

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
STRICT = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}
DEFINITION = msgspec.json.encode(SCHEMA)


def begun(work: InputWork, **fields: Any) -> InputWork:
    request = msgspec.convert({"model": "m", "input": "Hi", **fields}, CreateResponse)
    work.begin(request_to_chat(ChatInputs(request, request_to_items(request), PLAIN, "m")))
    return work


def test_a_request_without_documents_and_definitions_has_no_work() -> None:
    work = begun(InputWork(make_environment()))
    assert not work.is_pending
    assert work.next() is None


def test_what_one_request_has_compiled_is_not_compiled_for_the_next() -> None:
    environment = make_environment()
    first = begun(InputWork(environment), text=STRICT)
    found = first.next()
    assert isinstance(found, DefinitionWork)
    first.done(found, CheckOutcome())
    assert not first.is_outdated
    assert begun(InputWork(environment), text=STRICT).next() is None


def test_what_was_not_finished_is_known_for_this_request_only() -> None:
    environment = make_environment()
    work = InputWork(environment)
    work.done(DefinitionWork(DEFINITION), CheckOutcome(unfinished=True))
    assert work.flaw_of(DEFINITION) == TOO_SLOW
    assert work.is_outdated
    assert InputWork(environment).flaw_of(DEFINITION) is None


def test_why_a_definition_does_not_compile_is_known_to_the_next_request() -> None:
    environment = make_environment()
    InputWork(environment).done(DefinitionWork(DEFINITION), CheckOutcome(complaint="no"))
    assert InputWork(environment).flaw_of(DEFINITION) == Flaw("no")


def test_an_uploaded_file_is_read_for_each_request_and_a_document_once() -> None:
    environment = make_environment()
    document, uploaded = DocumentWork(b"text"), StoredFileWork("file_1")
    for each in (document, uploaded):
        work = InputWork(environment)
        work.done(each, CheckOutcome("text"))
        assert work.outcome_of(work_digest(each)) == CheckOutcome("text")
    assert InputWork(environment).outcome_of(work_digest(document)) == CheckOutcome("text")
    assert InputWork(environment).outcome_of(work_digest(uploaded)) is None
