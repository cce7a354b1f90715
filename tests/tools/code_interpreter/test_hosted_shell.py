"""shell in a container of the gateway: its items, its events, and the container that it shares."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.bubblewrap import bubblewrap
from support.engine import MockEngine, answer, call, text
from support.kernels import ScriptedKernels, interpreting, prints

from antiphon.sandbox.runs import ShellRun

TOOL = {"type": "shell", "environment": {"type": "container_auto"}}
INTERPRETER = {"type": "code_interpreter", "container": {"type": "auto"}}
EXIT = {"type": "exit", "exit_code": 0}


def ran(*commands: str, **more: Any) -> Any:
    return answer(call("shell", json.dumps({"commands": commands, **more}), id="call_a"), finish="tool_calls")


EVENTS = [
    "response.output_item.added",
    "response.shell_call_command.added",
    "response.shell_call_command.delta",
    "response.shell_call_command.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.shell_call_output_content.delta",
    "response.shell_call_output_content.done",
    "response.output_item.done",
]


async def test_a_call_and_its_output_are_two_items_with_their_events_in_order(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(ran("ls", max_output_length=100), text("One file."))
    kernels.commands["ls"] = ShellRun("a.txt\n", "", 0)
    async with interpreting(engine, kernels, tmp_path) as gateway:
        events = await gateway.stream("Look.", tools=[TOOL])
        _, containers = await gateway.get("/v1/containers")
    assert [event["type"] for event in events if event.get("output_index") in (0, 1)] == EVENTS
    called, output, _ = events[-1]["response"]["output"]
    (container,) = containers["data"]
    assert called == {
        "id": called["id"],
        "type": "shell_call",
        "call_id": "call_a",
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": 100},
        "status": "completed",
        "environment": {"type": "container_reference", "container_id": container["id"]},
    }
    assert output == {
        "id": output["id"],
        "type": "shell_call_output",
        "call_id": "call_a",
        "output": [{"stdout": "a.txt\n", "stderr": "", "outcome": EXIT}],
        "status": "completed",
        "max_output_length": 100,
    }
    assert output["id"].startswith("sho_")
    assert events[-1]["response"]["tools"] == [TOOL]


async def test_several_commands_run_one_after_another_and_may_fail(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(ran("a", "b", "c"), text("Done."))
    kernels.commands = {"a": ShellRun("", "no such file\n", 2), "b": ShellRun("", "", None)}
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert kernels.started[0].runs == ["a", "b", "c"]
    outputs = [
        {"stdout": "", "stderr": "no such file\n", "outcome": {"type": "exit", "exit_code": 2}},
        {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
        {"stdout": "ran c\n", "stderr": "", "outcome": EXIT},
    ]
    assert response["output"][1]["output"] == outputs
    assert json.loads(engine.last["messages"][-1]["content"]) == outputs


async def test_commands_above_the_limit_say_that_they_were_not_run(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(ran(*(f"command {number}" for number in range(22))), text("Done."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    outputs = response["output"][1]["output"]
    assert (len(kernels.started[0].runs), len(outputs)) == (20, 22)
    assert [output["outcome"]["exit_code"] for output in outputs[19:]] == [0, 1, 1]
    assert outputs[-1]["stderr"].startswith("This command was not run: one call may have 20 commands.")


async def test_a_longer_history_begins_with_the_same_messages(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(ran("a"), text("One."), ran("b"), text("Two."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL])
        before = engine.last["messages"]
        await gateway.create("Go on.", tools=[TOOL], previous_response_id=first["id"])
    assert engine.last["messages"][: len(before)] == before
    # The second response has found the container of the first.
    assert [kernel.runs for kernel in kernels.started] == [["a", "b"]]


async def test_items_that_come_back_in_another_order_are_the_same_prompt(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    engine.will(ran("ls"), text("One file."), text("Yes."))
    question = {"role": "user", "content": "Look."}
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = await gateway.create([question], tools=[TOOL], store=False)
        before = engine.last["messages"]
        items = json.loads(json.dumps([question, *first["output"], question], sort_keys=True))
        await gateway.create(items, tools=[TOOL], store=False)
    assert engine.last["messages"][: len(before)] == before


async def test_shell_and_code_interpreter_share_a_container(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path
) -> None:
    coded = answer(call("python", '{"code": "save()"}'), finish="tool_calls")
    engine.will(coded, ran("ls"), text("See sandbox:/mnt/data/a.txt"))
    kernels.scripts["save()"] = prints("", a__txt="1")
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[INTERPRETER, TOOL])
    python, shell, _, message = response["output"]
    assert shell["environment"]["container_id"] == python["container_id"]
    assert [kernel.runs for kernel in kernels.started] == [["save()", "ls"]]
    assert message["content"][0]["annotations"][0]["filename"] == "a.txt"


async def test_a_container_can_be_named(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(ran("ls"), text("Done."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        _, made = await gateway.post({"name": "mine"}, "/v1/containers")
        environment = {"type": "container_reference", "container_id": made["id"]}
        response = await gateway.create(tools=[{"type": "shell", "environment": environment}])
        assert response["output"][0]["environment"] == environment
        gone = {"type": "container_reference", "container_id": "cntr_gone"}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [{"type": "shell", "environment": gone}]})
    assert (status, body["error"]["param"]) == (400, "tools[0].environment.container_id")
    assert body["error"]["message"].startswith("Container is expired.")


async def test_the_clients_own_shell_stays_the_clients(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(ran("ls"))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[{"type": "shell", "environment": {"type": "local"}}])
    (called,) = response["output"]
    assert (called["type"], called["environment"]) == ("shell_call", {"type": "local"})
    assert kernels.started == []


async def test_the_tool_can_be_required(engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path) -> None:
    engine.will(ran("ls"), text("Done."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL], tool_choice={"type": "shell"})
    assert [item["type"] for item in response["output"]] == ["shell_call", "shell_call_output", "message"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "container_auto", "memory_limit": "64g"}, "tools[0].environment.memory_limit"),
    ({"type": "container_auto", "skills": [{"type": "skill_reference"}]}, "tools[0].environment.skills"),
    ({"type": "container_auto", "file_ids": ["file-none"]}, "tools[0].environment.file_ids[0]"),
    ({"type": "container_reference"}, "tools[0].environment.container_id"),
    (
        {"type": "container_auto", "network_policy": {"type": "allowlist", "allowed_domains": ["example.com"]}},
        "tools[0].environment.network_policy",
    ),
]


@pytest.mark.parametrize(("environment", "param"), WRONG)
async def test_what_a_container_cannot_have_is_refused_with_its_field(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, environment: dict[str, Any], param: str
) -> None:
    async with interpreting(engine, kernels, tmp_path) as gateway:
        body = {"model": "mock", "input": "Hi", "tools": [{"type": "shell", "environment": environment}]}
        status, refused = await gateway.post(body)
    assert (status, refused["error"]["param"]) == (400, param), refused


async def test_commands_run_in_the_real_sandbox(engine: MockEngine, tmp_path: Path) -> None:
    bubblewrap()
    engine.will(ran("echo hello > a.txt; pwd", "cat a.txt"), text("See sandbox:/mnt/data/a.txt"))
    async with interpreting(engine, None, tmp_path) as gateway:
        response = await gateway.create(tools=[TOOL])
    outputs = response["output"][1]["output"]
    assert [(each["stdout"], each["outcome"]) for each in outputs] == [("/mnt/data\n", EXIT), ("hello\n", EXIT)]
    assert response["output"][2]["content"][0]["annotations"][0]["filename"] == "a.txt"
