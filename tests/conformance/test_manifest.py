"""The manifests against the SDKs, and what they say of rows that were not shown."""

from pathlib import Path

import pytest
from conformance.manifest import MANIFESTS, POLICIES, RESPONSES, Manifest
from conformance.page import page
from conformance.recorder import RECORDER, Seen
from support.gateway import GatewayUnderTest

KINDS = [pytest.param(manifest, kind, id=f"{manifest.protocol} {kind}") for manifest in MANIFESTS for kind in manifest.titles]
of_each = pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.protocol)


@pytest.mark.parametrize(("manifest", "kind"), KINDS)
def test_it_has_every_name_of_the_sdk_and_says_who_has_the_others(manifest: Manifest, kind: str) -> None:
    known = manifest.names()[kind]
    listed = {row.name: row.beyond for row in manifest.rows if row.kind == kind}
    assert sorted(known - listed.keys()) == [], "the SDK has them"
    assert sorted(listed.keys() - known) == sorted(name for name, beyond in listed.items() if beyond)


@of_each
def test_every_row_has_a_policy_and_a_test(manifest: Manifest) -> None:
    assert manifest.names().keys() == manifest.titles.keys()
    assert manifest.unknown_tables() == set()
    assert [str(row) for row in manifest.rows if row.does not in POLICIES] == []
    # What is never emitted cannot be shown, but any test that sees it fails the run.
    assert [str(row) for row in manifest.rows if bool(row.tests) is (row.does == "never")] == []
    assert {row.kind for row in manifest.rows if row.does == "never"} <= manifest.emitted


@of_each
def test_the_page_is_up_to_date(manifest: Manifest) -> None:
    assert manifest.page.read_text() == page(manifest), "run python tests/conformance/page.py"


# ---- what tests saw --------------------------------------------------------------------------------------------------


def test_a_row_whose_test_is_missing_is_named() -> None:
    row = next(row for row in RESPONSES.rows if row.name == "response.created")
    file, _, name = row.tests[0].partition("::")
    others = [test for row in RESPONSES.rows for test in row.tests if test.startswith(file) and test != row.tests[0]]
    assert f"responses event response.created: there is no test {file}::{name}" in list(RESPONSES.missing_tests(others))
    assert list(RESPONSES.missing_tests(test for row in RESPONSES.rows for test in row.tests)) == []


def test_a_test_in_a_file_that_was_not_collected_is_not_missing() -> None:
    assert list(RESPONSES.missing_tests([])) == []
    assert list(RESPONSES.missing_tests(["tests/core/events/test_encode.py::test_anything"])) == []


def test_a_row_whose_test_did_not_put_it_on_the_wire_is_named() -> None:
    row = next(row for row in RESPONSES.rows if row.name == "temperature")
    fault = f"responses request field temperature: {row.tests[0]} did not put it on the wire"
    of_another = Seen("chat", "request field", "temperature")
    assert list(RESPONSES.unshown_rows({row.tests[0]: {of_another}})) == [fault]
    assert list(RESPONSES.unshown_rows({row.tests[0]: {Seen("responses", "request field", "temperature")}})) == []
    assert list(RESPONSES.unshown_rows({})) == []


def test_an_event_that_is_never_emitted_or_not_listed_is_named() -> None:
    events = ("response.audio.delta", "response.smell", "response.created")
    seen = {"tests/a.py::test_b": {Seen("responses", "event", name) for name in events} | {Seen("chat", "event", "smell")}}
    assert sorted(fault.partition(":")[0] for fault in RESPONSES.unlisted(seen)) == [
        "responses event response.audio.delta",
        "responses event response.smell",
    ]


def test_a_table_without_a_heading_is_named(tmp_path: Path) -> None:
    file = tmp_path / "manifest.toml"
    file.write_text('[manifest]\ntitles = {event = "Events"}\n[event]\n[smell]\n[beyond]\n')
    assert Manifest("nose", file).unknown_tables() == {"smell"}


async def test_the_recorder_sees_what_a_test_puts_on_the_wire(
    gateway: GatewayUnderTest, request: pytest.FixtureRequest
) -> None:
    await gateway.stream([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], temperature=0.5)
    expected = {
        ("route", "POST /responses"),
        ("request field", "temperature"),
        ("input item", "message"),
        ("content part", "input_text"),
        ("event", "response.output_text.delta"),
        ("output item", "message"),
    }
    assert {Seen("responses", *each) for each in expected} <= RECORDER.seen[request.node.nodeid]
