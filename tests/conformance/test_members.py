"""That what OpenAI's servers never send is found, and that only what is listed is exempt."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conformance.deviations import ALSO_SENT, MEMBER_DEVIATIONS, NOT_SENT, MemberDeviation
from conformance.members import FACTS, differences, facts_of, is_known_order, orders_of, recorded, to_toml, typed_objects
from conformance.recorder import Recorder
from conformance.responses import ResponsesWatcher
from support.engine import answer, call, text
from support.exchanges import run_answers
from support.mcp_tools import Conversation

FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
LISTED = next(event for event in Conversation().run({}, text("Hi")) if event["type"] == "response.output_item.done")


def found(value: Any) -> list[str]:
    return [f"{each.object}: {each.member} {each.kind}" for each in differences(value)]


def violations(event: dict[str, Any]) -> list[str]:
    recorder = Recorder()
    ResponsesWatcher(recorder).event(msgspec.json.encode(event))
    return recorder.take_violations()


def changed(**members: Any) -> dict[str, Any]:
    return {**LISTED, "item": {**LISTED["item"], **members}}


def test_a_null_that_openai_never_sends_is_a_violation_though_the_document_allows_it() -> None:
    assert violations(LISTED) == []
    tools = [{**LISTED["item"]["tools"][0], "annotations": None}]
    assert violations(changed(tools=tools)) == [
        "mcp_list_tools.tools in done: annotations is null; no recorded server sends it so"
    ]


def test_a_member_that_openai_always_sends_may_not_be_missing() -> None:
    tool = {name: value for name, value in LISTED["item"]["tools"][0].items() if name != "annotations"}
    assert found(changed(tools=[tool])) == ["mcp_list_tools.tools in done: annotations missing"]


def test_a_member_that_openai_never_sends_is_found() -> None:
    assert found(changed(tools=[], colour="green")) == ["mcp_list_tools in done: colour extra"]


def test_where_an_object_stands_makes_a_difference() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "in_progress"}
    event = {"output_index": 0, "sequence_number": 2, "item": item}
    assert found({"type": "response.output_item.added", **event}) == []
    assert "image_generation_call in done: result missing" in found({"type": "response.output_item.done", **event})


def test_an_unfinished_response_has_its_items_as_they_were_added() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "in_progress"}
    response = {**run_answers({}, text("Hi"))[0]["response"], "status": "in_progress", "output": [item]}
    event = {"type": "response.in_progress", "sequence_number": 1, "response": response}
    assert violations(event) == []
    item["status"] = "completed"
    assert any("result is missing" in each for each in violations(event))


@pytest.mark.parametrize("deviation", MEMBER_DEVIATIONS, ids=lambda each: f"{each.kind} {each.object} {each.members}")
def test_a_deviation_has_a_reason_and_is_about_something_recorded(deviation: MemberDeviation) -> None:
    assert deviation.kind in ("null", "missing", "extra")
    assert deviation.reason.endswith(".")
    assert any(re.fullmatch(deviation.object, name) for name in recorded()["members"])


def test_a_deviation_covers_only_its_members() -> None:
    kept = next(each for each in MEMBER_DEVIATIONS if each.members == "output_text")
    assert kept.covers("extra", "response", "output_text")
    assert not kept.covers("null", "response", "output_text")
    assert not kept.covers("extra", "response", "output_texts")


# ---- events ----------------------------------------------------------------------------------------------------------

CALLED = ["function_call_arguments.delta", "function_call_arguments.done"]


def test_the_events_of_an_item_are_those_that_openai_sends() -> None:
    events = run_answers({"tools": [FUNCTION]}, answer(call("look", "{}"), finish="tool_calls"))
    ((item, order),) = orders_of(events)
    assert (item, list(order)) == ("function_call", CALLED)
    assert is_known_order(item, order)


@pytest.mark.parametrize("kinds", [[], CALLED[:1], CALLED[::-1], [*CALLED, "function_call_arguments.sung"]])
def test_other_events_or_another_order_are_found(kinds: list[str]) -> None:
    assert not is_known_order("function_call", kinds)


def test_each_part_of_an_item_has_its_events() -> None:
    command = [f"shell_call_command.{kind}" for kind in ("added", "delta", "done")]
    empty = [command[0], command[2]]
    assert is_known_order("shell_call", [*empty, *command, *empty])
    assert not is_known_order("shell_call", [*command, command[0]])


def test_what_may_be_absent_may_be_absent() -> None:
    assert is_known_order("function_call", CALLED[1:])
    assert is_known_order("apply_patch_call", [])
    assert NOT_SENT.keys() <= {kind for orders in recorded()["orders"].values() for order in orders for kind in order}
    assert all(item in recorded()["orders"] and reason.endswith(".") for item, _, reason in ALSO_SENT)


# ---- how the facts are read ------------------------------------------------------------------------------------------


def test_facts_say_what_is_always_there_and_what_is_null() -> None:
    answers: list[dict[str, Any]] = [
        {"type": "cat", "name": "Tom", "owner": None, "toy": "ball"},
        {"type": "cat", "name": "Kit", "owner": "Ann", "tail": None},
    ]
    objects = [each for answer in answers for each in typed_objects(answer)]
    assert facts_of(objects) == {
        "cat": {"always": ["name", "type"], "null": ["owner"], "optional_null": ["tail"], "optional": ["toy"]}
    }


def test_a_recording_that_was_cut_by_hand_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"object": "response", "id": "resp_1"}')
    assert "[members." not in to_toml(tmp_path)


def test_the_table_names_its_source() -> None:
    assert "vercel/ai at 857f50f1" in FACTS.read_text().split("[members", 1)[0]
    assert len(recorded()["members"]) > 100
