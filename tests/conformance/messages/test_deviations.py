"""That what Anthropic's servers never send, and what their SDK does not know, is found, and only what is listed is exempt."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conformance.deviations import MemberDeviation
from conformance.messages.deviations import MEMBER_DEVIATIONS
from conformance.messages.members import FACTS, NOT_RECORDED, recorded, to_toml
from conformance.messages.watcher import MessagesWatcher, request_to_seen
from conformance.recorder import Recorder, Seen

USAGE = {"input_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
ENDED: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE}


def violations(event: dict[str, Any]) -> list[str]:
    recorder = Recorder()
    MessagesWatcher(recorder).event(msgspec.json.encode(event))
    return recorder.take_violations()


def test_what_the_sdk_knows_and_servers_send_is_right() -> None:
    assert violations(ENDED) == []


def test_a_member_that_the_sdk_does_not_know_is_found() -> None:
    found = violations({**ENDED, "usage": {**USAGE, "smell": 1}})
    assert found == [
        "message_delta: the SDK has no member usage.smell",
        "message_delta.usage: smell is there; no recorded server sends it so",
    ]


def test_a_member_that_is_null_or_missing_is_found() -> None:
    usage = {"output_tokens": 1, "cache_read_input_tokens": None}
    found = violations({**ENDED, "usage": usage})
    assert "message_delta.usage: cache_read_input_tokens is null; no recorded server sends it so" in found
    assert "message_delta.usage: input_tokens is missing; no recorded server sends it so" in found


def test_a_wrong_value_is_found() -> None:
    (wrong,) = violations({**ENDED, "delta": {"stop_reason": "tired", "stop_sequence": None}})
    assert wrong.startswith("message_delta: delta.stop_reason: Input should be 'end_turn'")


def test_a_request_is_seen_with_all_that_is_in_it() -> None:
    inside = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}
    body = {
        "messages": [{"role": "user", "content": [inside]}],
        "tools": [{"type": "bash_20250124", "name": "bash", "strict": True}],
        "context_management": {"edits": [{"type": "compact_20260112", "instructions": "x"}]},
    }
    assert {
        ("request field", "messages"),
        ("member", "messages.role"),
        ("input block", "tool_result"),
        ("block member", "tool_result.tool_use_id"),
        ("input block", "image"),
        ("source", "image url"),
        ("tool", "bash_20250124"),
        ("tool member", "bash.strict"),
        ("context edit", "compact_20260112"),
        ("member", "compact_20260112.instructions"),
    } <= set(request_to_seen(body))


def test_an_answer_is_seen_with_all_that_is_in_it() -> None:
    recorder = Recorder()
    MessagesWatcher(recorder).event(msgspec.json.encode(ENDED))
    expected = {("event", "message_delta"), ("stop reason", "end_turn"), ("usage member", "output_tokens")}
    assert {Seen("messages", *each) for each in expected} <= recorder.seen[""]


@pytest.mark.parametrize("deviation", MEMBER_DEVIATIONS, ids=lambda each: f"{each.kind} {each.object} {each.members}")
def test_a_deviation_has_a_reason_and_is_about_something_recorded(deviation: MemberDeviation) -> None:
    assert deviation.kind in ("null", "missing", "extra")
    assert deviation.reason.endswith(".")
    assert any(re.fullmatch(deviation.object, name) for name in recorded())


def test_the_table_names_its_source(tmp_path: Path) -> None:
    assert "vercel/ai at 857f50f1" in FACTS.read_text().split("[members", 1)[0]
    assert len(recorded()) > 80
    (tmp_path / f"anthropic-{NOT_RECORDED[0]}.json").write_text('{"type": "message"}')
    assert "[members." not in to_toml(tmp_path)
