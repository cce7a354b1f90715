"""The manifest against the openai SDK, and what it says of rows that were not shown."""

import pytest
from conformance import sdk
from conformance.manifest import EMITTED, POLICIES, missing_tests, rows, unlisted, unshown_rows
from conformance.page import PAGE, page
from conformance.recorder import RECORDER
from support.gateway import GatewayUnderTest

KNOWN = sdk.names()


@pytest.mark.parametrize("kind", KNOWN)
def test_it_has_every_name_of_the_sdk(kind: str) -> None:
    listed = {row.name for row in rows() if row.kind == kind}
    assert sorted(KNOWN[kind] - listed) == []


@pytest.mark.parametrize("kind", KNOWN)
def test_every_name_is_one_of_the_sdk_or_belongs_to_somebody_else(kind: str) -> None:
    beyond = {row.name for row in rows() if row.kind == kind and row.beyond}
    listed = {row.name for row in rows() if row.kind == kind}
    assert sorted(listed - KNOWN[kind]) == sorted(beyond)


def test_every_row_has_a_policy_and_a_test() -> None:
    assert {row.kind for row in rows()} == KNOWN.keys()
    assert [str(row) for row in rows() if row.does not in POLICIES] == []
    # What is never emitted cannot be shown, but any test that sees it fails the run.
    assert [str(row) for row in rows() if bool(row.tests) is (row.does == "never")] == []
    assert {row.kind for row in rows() if row.does == "never"} <= EMITTED


def test_a_row_whose_test_is_missing_is_named() -> None:
    row = next(row for row in rows() if row.name == "response.created")
    file, _, name = row.tests[0].partition("::")
    others = [test for row in rows() for test in row.tests if test.startswith(file) and test != row.tests[0]]
    assert f"event response.created: there is no test {file}::{name}" in list(missing_tests(others))
    assert list(missing_tests(test for row in rows() for test in row.tests)) == []


def test_a_test_in_a_file_that_was_not_collected_is_not_missing() -> None:
    assert list(missing_tests([])) == []
    assert list(missing_tests(["tests/core/events/test_encode.py::test_anything"])) == []


def test_a_row_whose_test_did_not_put_it_on_the_wire_is_named() -> None:
    row = next(row for row in rows() if row.name == "temperature")
    fault = f"request field temperature: {row.tests[0]} did not put it on the wire"
    assert list(unshown_rows({row.tests[0]: {("request field", "model")}})) == [fault]
    assert list(unshown_rows({row.tests[0]: {("request field", "temperature")}})) == []
    assert list(unshown_rows({})) == []


def test_an_event_that_is_never_emitted_or_not_listed_is_named() -> None:
    seen = {
        "tests/a.py::test_b": {("event", "response.audio.delta"), ("event", "response.smell"), ("event", "response.created")}
    }
    assert sorted(fault.partition(":")[0] for fault in unlisted(seen)) == ["event response.audio.delta", "event response.smell"]


async def test_the_recorder_sees_what_a_test_puts_on_the_wire(
    gateway: GatewayUnderTest, request: pytest.FixtureRequest
) -> None:
    await gateway.stream([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], temperature=0.5)
    assert {
        ("route", "POST /responses"),
        ("request field", "temperature"),
        ("input item", "message"),
        ("content part", "input_text"),
        ("event", "response.output_text.delta"),
        ("output item", "message"),
    } <= RECORDER.seen[request.node.nodeid]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python tests/conformance/page.py"
