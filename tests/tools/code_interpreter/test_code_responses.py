"""code_interpreter in a whole gateway: what the model sees, what the client gets, and how the two fit together."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.background import Background
from support.engine import MockEngine, answer, call, chunk, text
from support.inspector import opened, rows
from support.kernels import ScriptedKernels, interpreting, prints

from antiphon.core.recording.file import file_to_recording
from antiphon.core.recording.rerun import run_again
from antiphon.sandbox.runs import KernelRun
from antiphon.server.parts import APP
from antiphon.settings.tables import ContainerSettings
from antiphon.store import open_store

TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}
INCLUDE = ["code_interpreter_call.outputs"]
PNG = b"\x89PNG\r\n\x1a\n not really"


def coded(code: str, id: str = "a") -> Any:
    return answer(call("python", json.dumps({"code": code}), id=id), finish="tool_calls")


def results(engine: MockEngine) -> list[str]:
    """What the model saw of its calls."""
    return [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]


# ---- a call ----------------------------------------------------------------------------------------------------------

EVENTS = [
    "response.output_item.added",
    "response.code_interpreter_call.in_progress",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.code_interpreter_call.interpreting",
    "response.code_interpreter_call.completed",
    "response.output_item.done",
]


async def test_a_call_is_one_item_with_its_events_in_order(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("1 + 1"), text("Two."))
    kernels.scripts["1 + 1"] = prints("2")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        events = await gateway.stream("Add.", tools=[TOOL], include=INCLUDE)
    of_call = [event for event in events if event.get("output_index") == 0]
    assert [event["type"] for event in of_call] == EVENTS
    added, *between, done = of_call
    assert added["item"] == {
        "id": added["item"]["id"],
        "type": "code_interpreter_call",
        "status": "in_progress",
        "container_id": added["item"]["container_id"],
        "code": "",
        "outputs": [],
    }
    assert added["item"]["id"].startswith("ci_")
    assert added["item"]["container_id"].startswith("cntr_")
    outputs = [{"type": "logs", "logs": "2"}]
    assert done["item"] == added["item"] | {"status": "completed", "code": "1 + 1", "outputs": outputs}
    assert between[1]["delta"] == between[2]["code"] == "1 + 1"
    for event in between:
        assert event.keys() - {"delta", "code"} == {"type", "item_id", "output_index", "sequence_number"}
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["code_interpreter_call", "message"]
    assert results(engine) == ["2"]


async def test_the_model_sees_one_function(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    (tool,) = engine.last["tools"]
    assert tool["function"]["name"] == "python"
    assert list(tool["function"]["parameters"]["properties"]) == ["code"]
    assert response["tools"] == [TOOL]
    # Nothing was run, so there is no container.
    assert kernels.started == []


async def test_outputs_are_shown_only_where_the_request_includes_them(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("plot()"), text("Done."), coded("plot()"), text("Done."))
    kernels.scripts["plot()"] = prints("drawn", PNG)
    async with interpreting(engine, kernels, tmp_path) as gateway:
        included = await gateway.create(tools=[TOOL], include=INCLUDE)
        plain = await gateway.create(tools=[TOOL])
    logs, image = included["output"][0]["outputs"]
    assert logs == {"type": "logs", "logs": "drawn"}
    assert image["type"] == "image"
    assert image["url"].startswith("data:image/png;base64,")
    assert plain["output"][0]["outputs"] is None


ARGUMENTS = [
    '{"code": "print(1)"}',
    '{"input": "print(1)"}',
    '{"python_code":"print(1)"}',
    '{"language": "python", "code": "print(1)"}',
    '{"whatever": "print(1)"}',
    '{"code": ["print(1)"]}',
    '{"code": "print(1)"',
    "print(1)",
    '"print(1)"',
    "```python\nprint(1)\n```",
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_code_is_found_however_the_model_writes_it(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, arguments: str
) -> None:
    engine.will(answer(call("python", arguments), finish="tool_calls"), text("One."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0]["code"] == "print(1)"
    assert kernels.started[0].runs == ["print(1)"]


async def test_code_arrives_in_pieces_while_the_model_writes(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    whole = json.dumps({"code": 'print("ä\\n")\nx = 1'})
    first = {"index": 0, "id": "a", "type": "function", "function": {"name": "python", "arguments": ""}}
    pieces = [first, *({"index": 0, "function": {"arguments": letter}} for letter in whole)]
    engine.will(answer(*(chunk({"tool_calls": [piece]}) for piece in pieces), finish="tool_calls"), text("Done."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        events = await gateway.stream(tools=[TOOL])
    deltas = [event["delta"] for event in events if event["type"] == "response.code_interpreter_call_code.delta"]
    assert len(deltas) > 10
    assert "".join(deltas) == events[-1]["response"]["output"][0]["code"] == 'print("ä\\n")\nx = 1'


async def test_code_that_was_cut_off_is_not_run(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(answer(call("python", '{"code": "print(1'), finish="length"))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        events = await gateway.stream(tools=[TOOL])
    (item,) = events[-1]["response"]["output"]
    assert (item["status"], item["code"], item["outputs"]) == ("incomplete", "print(1", None)
    assert events[-1]["type"] == "response.incomplete"
    assert "response.code_interpreter_call.interpreting" not in [event["type"] for event in events]
    assert kernels.started == []


async def test_an_error_of_the_code_is_in_its_logs(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("1/0"), text("Oh."))
    kernels.scripts["1/0"] = lambda folder: KernelRun("ZeroDivisionError: division by zero", failed=True)
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL], include=INCLUDE)
    assert response["output"][0]["status"] == "completed"
    assert response["output"][0]["outputs"][0]["logs"] == "ZeroDivisionError: division by zero"
    assert results(engine) == ["ZeroDivisionError: division by zero"]


async def test_code_that_takes_too_long_is_a_call_that_failed(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("loop()"), text("Oh."))
    kernels.scripts["loop()"] = lambda folder: KernelRun("stopped after 60 seconds", failed=True, timed_out=True)
    async with interpreting(engine, kernels, tmp_path) as gateway:
        events = await gateway.stream(tools=[TOOL])
    assert events[-1]["response"]["output"][0]["status"] == "failed"
    assert "response.code_interpreter_call.completed" not in [event["type"] for event in events]
    assert events[-1]["type"] == "response.completed"


async def test_too_many_containers_are_for_the_model_to_read_and_no_fault_of_the_gateway(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine.will(coded("1"), text("Oh."))
    async with interpreting(engine, kernels, tmp_path, ContainerSettings(most_per_key=1)) as gateway:
        await gateway.post({"name": "mine"}, "/v1/containers")
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert results(engine)[0].startswith("There are too many containers here now: at most 1 at a time for one key.")
    assert "tool_failed" not in caplog.text


async def test_a_container_that_is_deleted_while_code_runs_has_no_files(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("loop()"), text("Oh."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        containers = gateway.app[APP].resources.containers
        assert containers is not None

        def deleted(folder: Path) -> KernelRun:
            containers.all[0].has_expired = True
            return KernelRun("The interpreter has ended. Files are kept.", failed=True)

        kernels.scripts["loop()"] = deleted
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert results(engine)[0].startswith("The container has expired, or was deleted")


# ---- which container -------------------------------------------------------------------------------------------------


async def test_state_lives_on_over_the_responses_of_one_conversation(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("x = 1"), coded("x"), text("One."), coded("x + 1"), text("Two."), coded("x"), text("None."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL])
        second = await gateway.create(tools=[TOOL], previous_response_id=first["id"])
        other = await gateway.create(tools=[TOOL])
    ids = [item["container_id"] for item in (*first["output"], *second["output"]) if item["type"] == "code_interpreter_call"]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert other["output"][0]["container_id"] != ids[0]
    assert [kernel.runs for kernel in kernels.started] == [["x = 1", "x", "x + 1"], ["x"]]


async def test_items_that_come_back_name_their_container(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("x = 1"), text("One."), coded("x"), text("Two."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL], store=False, include=INCLUDE)
        items = [{"role": "user", "content": "Hi"}, *first["output"], {"role": "user", "content": "Go on."}]
        second = await gateway.create(items, tools=[TOOL], store=False)
    assert second["output"][0]["container_id"] == first["output"][0]["container_id"]
    assert len(kernels.started) == 1
    assistant, tool = engine.last["messages"][1:3]
    assert assistant["tool_calls"][0]["function"] == {"name": "python", "arguments": '{"code":"x = 1"}'}
    assert tool["content"] == "ran 'x = 1', run 1"


@pytest.mark.parametrize("include", [[], INCLUDE])
async def test_a_longer_history_begins_with_the_same_messages(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, include: list[str]
) -> None:
    engine.will(coded("x"), coded("y"), coded("x"), text("One."), text("Two."))
    kernels.scripts["y"] = prints("", PNG, plot__csv="a,b")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL], include=include)
        before = engine.last["messages"]
        await gateway.create("Go on.", tools=[TOOL], previous_response_id=first["id"])
    assert engine.last["messages"][: len(before)] == before
    assert results(engine)[0] == "ran 'x', run 1"
    assert results(engine)[2] == "ran 'x', run 3"


async def test_the_output_is_shown_again_after_its_container_is_gone(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("x"), text("One."), text("Two."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL])
        await gateway.get(f"/v1/containers/{first['output'][0]['container_id']}", method="DELETE")
        await gateway.create("Go on.", tools=[TOOL], previous_response_id=first["id"])
    assert results(engine) == ["ran 'x', run 1"]


async def test_the_same_code_twice_in_one_answer_has_two_ids(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    twice = answer(
        call("python", '{"code": "x"}', id="a"), call("python", '{"code": "x"}', id="b", index=1), finish="tool_calls"
    )
    engine.will(twice, text("One."), text("Two."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL])
        before = engine.last["messages"]
        await gateway.create("Go on.", tools=[TOOL], previous_response_id=first["id"])
    assert engine.last["messages"][: len(before)] == before
    assistant, *outputs = before[1:]
    ids = [made["id"] for made in assistant["tool_calls"]]
    assert len(set(ids)) == 2
    assert [output["tool_call_id"] for output in outputs] == ids
    assert results(engine) == ["ran 'x', run 1", "ran 'x', run 2"]


async def test_each_branch_has_the_output_of_its_own_calls(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("x += 1"), text("One."), coded("x += 1"), text("Two."), text("It was one."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL])
        await gateway.create("Again.", tools=[TOOL], previous_response_id=first["id"])
        await gateway.create("What was it?", tools=[TOOL], previous_response_id=first["id"])
    assert results(engine) == ["ran 'x += 1', run 1"]


@pytest.mark.parametrize("include", [[], INCLUDE])
async def test_stored_items_that_come_back_have_the_output_as_the_model_read_it(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, include: list[str]
) -> None:
    engine.will(coded("y"), text("One."), text("Two."))
    kernels.scripts["y"] = prints("drawn", PNG, plot__csv="a,b")
    question = {"role": "user", "content": "Hi"}
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create([question], tools=[TOOL], include=include)
        before = engine.last["messages"]
        second = await gateway.create([question, *first["output"], question], tools=[TOOL])
        _, listed = await gateway.get(f"/v1/responses/{second['id']}/input_items")
    assert engine.last["messages"][: len(before)] == before
    assert "Files that were written." in results(engine)[0]
    assert "Files that were written." not in str(listed)


async def test_a_named_container_is_used(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("x"), text("One."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        _, made = await gateway.post({"name": "mine"}, "/v1/containers")
        response = await gateway.create(tools=[{"type": "code_interpreter", "container": made["id"]}])
        _, listed = await gateway.get("/v1/containers")
    assert response["output"][0]["container_id"] == made["id"]
    assert [each["id"] for each in listed["data"]] == [made["id"]]


async def test_a_container_that_is_gone_is_an_error_that_names_the_field(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    async with interpreting(engine, kernels, tmp_path) as gateway:
        tool = {"type": "code_interpreter", "container": "cntr_gone"}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [tool]})
    assert status == 400
    assert body["error"]["param"] == "tools[0].container"
    assert body["error"]["message"].startswith("Container is expired.")


async def test_another_keys_container_is_not_found(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    ada, ben = ({"Authorization": f"Bearer {name}"} for name in ("key-ada", "key-ben"))
    engine.will(coded("x"), text("One."), coded("x"), text("Two."))
    async with interpreting(engine, kernels, tmp_path, api_key=("key-ada", "key-ben")) as gateway:
        _, made = await gateway.post({"name": "mine"}, "/v1/containers", headers=ada)
        tool = {"type": "code_interpreter", "container": made["id"]}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [tool]}, headers=ben)
        assert (status, body["error"]["code"]) == (400, "container_expired")
        gone = {"type": "code_interpreter", "container": "cntr_gone"}
        _, other = await gateway.post({"model": "mock", "input": "Hi", "tools": [gone]}, headers=ben)
        assert other["error"]["message"].replace("cntr_gone", made["id"]) == body["error"]["message"]
        # Nor is it used because an item names it.
        _, first = await gateway.post({"model": "mock", "input": "Hi", "tools": [TOOL]}, headers=ada)
        items = [{"role": "user", "content": "Hi"}, *first["output"], {"role": "user", "content": "Go on."}]
        _, second = await gateway.post({"model": "mock", "input": items, "tools": [TOOL]}, headers=ben)
    assert second["output"][0]["container_id"] != first["output"][0]["container_id"]
    assert len(kernels.started) == 2


# ---- where code cannot be run ----------------------------------------------------------------------------------------


async def test_a_sandbox_that_does_not_hold_refuses_the_tool_with_the_reason(engine: MockEngine, tmp_path: Path) -> None:
    kernels = ScriptedKernels(reason="bubblewrap is not installed.")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        body = {"model": "mock", "input": "Hi", "tools": [{"type": "function", "name": "f"}, TOOL]}
        status, refused = await gateway.post(body)
        made, no_container = await gateway.post({"name": "mine"}, "/v1/containers")
        listed, _ = await gateway.get("/v1/containers")
    assert status == 400
    assert refused["error"]["param"] == "tools[1]"
    assert "bubblewrap is not installed." in refused["error"]["message"]
    assert (made, listed) == (400, 400)
    assert "bubblewrap is not installed." in no_container["error"]["message"]
    assert kernels.started == []


async def test_a_gateway_that_switches_code_off_leaves_the_tool_out_with_a_notice(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    async with interpreting(engine, kernels, tmp_path, containers=ContainerSettings(enabled=False)) as gateway:
        response = await gateway.create(tools=[TOOL])
        status, body = await gateway.get("/v1/containers")
    assert "tools" not in engine.last
    assert any("code_interpreter" in notice for notice in response["antiphon_notices"])
    assert (status, body["error"]["code"]) == (400, "containers_unavailable")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "tools[0].container"),
    ({"container": {"type": "auto", "memory_limit": "64g"}}, "tools[0].container.memory_limit"),
    ({"container": {"type": "auto", "memory_limit": "2g"}}, "tools[0].container"),
    (
        {"container": {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["example.com"]}}},
        "tools[0].container.network_policy",
    ),
    ({"container": {"type": "auto", "file_ids": ["file-none"]}}, "tools[0].container.file_ids"),
    ({"container": 5}, "tools[0].container"),
]


@pytest.mark.parametrize(("members", "param"), WRONG)
async def test_what_a_container_cannot_have_is_refused_with_its_field(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, members: dict[str, Any], param: str
) -> None:
    async with interpreting(engine, kernels, tmp_path) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [{"type": "code_interpreter", **members}]})
    assert status == 400
    assert str(body["error"]["param"]).startswith(param), body


# ---- choices and limits ----------------------------------------------------------------------------------------------


async def test_the_tool_can_be_required(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("x"), text("One."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL], tool_choice={"type": "code_interpreter"})
    assert response["tool_choice"] == {"type": "code_interpreter"}
    assert [item["type"] for item in response["output"]] == ["code_interpreter_call", "message"]
    assert engine.requests[0]["tool_choice"] != "auto"
    assert engine.last["tool_choice"] == "auto"


async def test_calls_above_max_tool_calls_are_not_run(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("x"), coded("y"), text("One."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL], max_tool_calls=1)
    assert [item["type"] for item in response["output"]] == ["code_interpreter_call", "message"]
    assert kernels.started[0].runs == ["x"]


async def test_the_same_code_again_and_again_is_not_run(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("x"), coded("x"), coded("x"), text("One."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert kernels.started[0].runs == ["x", "x"]
    assert [item.get("status") for item in response["output"]] == ["completed", "completed", "failed", "completed"]


async def test_a_small_model_in_a_loop_reads_nothing_of_code_that_was_not_run(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("x"), coded("x"), coded("x"), text("One."))
    async with interpreting(engine, kernels, tmp_path, help="full") as gateway:
        await gateway.create(tools=[TOOL])
    roles = [message["role"] for message in engine.requests[-1]["messages"]]
    assert roles[-5:] == ["assistant", "tool", "assistant", "tool", "user"]
    assert "not carried out" not in str(engine.requests[-1])


async def test_two_calls_of_one_answer_run_one_after_another(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    both = answer(
        call("python", '{"code": "x"}', id="a"), call("python", '{"code": "y"}', id="b", index=1), finish="tool_calls"
    )
    engine.will(both, text("One."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert [item["type"] for item in response["output"]] == ["code_interpreter_call", "code_interpreter_call", "message"]
    assert [kernel.runs for kernel in kernels.started] == [["x", "y"]]


async def test_a_client_that_leaves_stops_the_run(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("loop()"))
    kernels.waits = asyncio.Event()
    async with interpreting(engine, kernels, tmp_path) as gateway:
        asking = asyncio.create_task(gateway.create(tools=[TOOL]))
        await kernels.waits.wait()
        asking.cancel()
        await asyncio.wait({asking})
        async with asyncio.timeout(10):
            await kernels.started[0].closed.wait()
    assert not kernels.started[0].is_alive


# ---- files -----------------------------------------------------------------------------------------------------------


async def test_a_link_to_a_file_that_code_wrote_is_cited_exactly(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(
        coded("save()"), text("Here: [the plo", "t](sandbox:/mnt/da", "ta/plot.csv", "), or sandbox:/mnt/data/none.csv.")
    )
    kernels.scripts["save()"] = prints("", plot__csv="a,b")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        events = await gateway.stream(tools=[TOOL])
        response = events[-1]["response"]
        container = response["output"][0]["container_id"]
        _, files = await gateway.get(f"/v1/containers/{container}/files")
    (part,) = response["output"][1]["content"]
    (file,) = files["data"]
    assert (file["path"], file["source"], file["bytes"]) == ("/mnt/data/plot.csv", "assistant", 3)
    (cited,) = part["annotations"]
    assert cited == {
        "type": "container_file_citation",
        "container_id": container,
        "file_id": file["id"],
        "filename": "plot.csv",
        "start_index": part["text"].index("sandbox:"),
        "end_index": part["text"].index(")"),
    }
    assert "response.output_text.annotation.added" in [event["type"] for event in events]
    assert results(engine)[0].endswith("[plot.csv](sandbox:/mnt/data/plot.csv)\n- plot.csv")


async def test_the_model_is_asked_for_a_link_that_is_one_in_markdown(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("save()"), text("See [it](sandbox:/mnt/data/a%20b.csv)."))
    kernels.scripts["save()"] = prints("", **{"a b__csv": "1"})
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert "[a b.csv](sandbox:/mnt/data/a%20b.csv)" in results(engine)[0]
    assert [cited["filename"] for cited in response["output"][1]["content"][0]["annotations"]] == ["a b.csv"]


async def test_a_file_of_an_earlier_response_is_cited_though_no_code_is_run(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("save()"), text("Done."), text("Again: sandbox:/mnt/data/plot.csv"))
    kernels.scripts["save()"] = prints("", plot__csv="a,b")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL])
        response = await gateway.create("Again.", tools=[TOOL], previous_response_id=first["id"])
        _, files = await gateway.get(f"/v1/containers/{first['output'][0]['container_id']}/files")
        latest = max(row["number"] for row in await rows(gateway))
        async with gateway.client.get(f"{gateway.url}/inspector/requests/{latest}/recording") as answered:
            again = run_again(file_to_recording(await answered.read()))
    (cited,) = response["output"][0]["content"][0]["annotations"]
    assert again.response is not None
    assert msgspec.to_builtins(again.response.output)[0]["content"][0]["annotations"] == [cited]
    assert (cited["type"], cited["file_id"]) == ("container_file_citation", files["data"][0]["id"])


async def test_an_image_is_a_file_too(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("plot()"), text("See sandbox:/mnt/data/image.png"))
    kernels.scripts["plot()"] = prints("", PNG, PNG)
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
        (cited,) = response["output"][1]["content"][0]["annotations"]
        path = f"/v1/containers/{cited['container_id']}/files/{cited['file_id']}/content"
        async with gateway.client.get(gateway.url + path) as content:
            assert (content.status, content.content_type) == (200, "image/png")
            assert await content.read() == PNG
    assert "- image.png\n- image_2.png" in results(engine)[0]


# ---- what else a response can be -------------------------------------------------------------------------------------


async def test_a_call_of_a_gateway_that_died_is_not_run_again(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(coded("pay()"))
    kernels.waits = asyncio.Event()
    async with (
        open_store(f"sqlite:{tmp_path / 'responses.db'}") as store,
        interpreting(engine, kernels, tmp_path, shares=store, background_workers=0) as idle,
    ):
        background = Background(idle)
        async with interpreting(engine, kernels, tmp_path, shares=store, shutdown_timeout=0.05):
            id = (await background.create(tools=[TOOL]))["id"]
            await kernels.waits.wait()
        kernels.waits = None
        engine.will(coded("pay()", id="b"), text("It may have been paid."))
        async with interpreting(engine, kernels, tmp_path, shares=store):
            response = await background.ended(id)
    assert [kernel.runs for kernel in kernels.started] == [["pay()"]]
    assert [item.get("status") for item in response["output"]] == ["failed", "completed"]


async def test_the_inspector_runs_it_again_exactly(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(coded("save()"), text("See sandbox:/mnt/data/plot.csv"))
    kernels.scripts["save()"] = prints("saved", PNG, plot__csv="a,b")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        await gateway.stream(tools=[TOOL], include=INCLUDE)
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
        async with gateway.client.get(f"{gateway.url}/inspector/requests/{row['number']}/recording") as answered:
            recording = file_to_recording(await answered.read())
    assert (row["tool_calls"], view["exact"]) == (1, True)
    again = run_again(recording)
    assert again.trouble is None
    assert again.response is not None
    item, message = msgspec.to_builtins(again.response.output)
    assert item["outputs"][0]["logs"] == "saved"
    assert message["content"][0]["annotations"][0]["filename"] == "plot.csv"
