"""Models that make the same call again and again, through the gateway: what the engine is asked, and what the client gets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.engine import OWN_FIELDS, Answer, MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway, started
from support.items import call_output, developer, function_call, user

Item = dict[str, Any]

STDIN = {
    "type": "function",
    "name": "write_stdin",
    "description": "Writes to a running command.",
    "parameters": {
        "type": "object",
        "properties": {"session_id": {"type": "number"}, "chars": {"type": "string"}},
        "required": ["session_id"],
    },
}
RUN = {
    "type": "function",
    "name": "run_tests",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
CODEX = {"tools": [STDIN, RUN], "tool_choice": "auto", "store": False, "include": ["reasoning.encrypted_content"]}
UNKNOWN = "write_stdin failed: Unknown process id 1"
AGAIN = answer(call("write_stdin", '{"session_id": 1, "chars": ""}'), finish="tool_calls")
TESTS = answer(call("run_tests", '{"path": "."}'), finish="tool_calls")


def history(times: int) -> list[Item]:
    """As Codex sends it."""
    calls = [
        item
        for at in range(times)
        for item in (
            function_call(f"call_{at}", "write_stdin", '{"session_id": 1, "chars": ""}'),
            call_output(f"call_{at}", UNKNOWN),
        )
    ]
    return [developer("You are a coding agent."), user("Fix the tests."), *calls]


@asynccontextmanager
async def small_model(
    *answers: Answer, owned_by: str = "somebody", **settings: Any
) -> AsyncIterator[tuple[GatewayUnderTest, MockEngine]]:
    engine = MockEngine(own_fields=OWN_FIELDS.get(owned_by, ()))
    engine.lists("tiny-1.5b")
    engine._models["data"][0]["owned_by"] = owned_by
    engine.will(*answers)
    async with started(engine), running_gateway(engine, **settings) as gateway:
        yield gateway, engine


async def ask(gateway: GatewayUnderTest, items: list[Item], *, stream: bool, **fields: Any) -> Item:
    if not stream:
        return await gateway.create(items, **{**CODEX, **fields})
    response: Item = (await gateway.stream(items, **{**CODEX, **fields}))[-1]["response"]
    return response


both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


NOT_EDITED = [
    user("Correct Helo in a.txt."),
    {
        "type": "custom_tool_call",
        "call_id": "c1",
        "name": "apply_patch",
        "input": "*** Begin Patch\n*** Update File: a.txt\n@@\n-Helo\n+Hello\n*** End Patch\n",
    },
    {
        "type": "custom_tool_call_output",
        "call_id": "c1",
        "output": "apply_patch verification failed: Failed to find expected lines in /r/a.txt:\nHelo\n",
    },
]
ADVICE = "Use replace_text to change a part of a line. To change whole lines, use read_file first, and copy them exactly."


@both_ways
async def test_the_advice_in_a_result_is_not_passed_on_as_an_answer(stream: bool) -> None:
    pieces = [f"I could not do it. {ADVICE}"[at : at + 7] for at in range(0, 200, 7)]
    async with small_model(text(*filter(None, pieces))) as (gateway, engine):
        response = await ask(gateway, NOT_EDITED, stream=stream, tools=[APPLY_PATCH, EXEC_COMMAND])
        assert engine.last["messages"][-1]["content"].endswith(ADVICE)
        assert [part["text"] for part in response["output"][0]["content"]] == ["I could not do it."]


@both_ways
async def test_the_third_failure_is_shown_to_the_model_with_what_to_do_instead(stream: bool) -> None:
    async with small_model(text("It does not run.")) as (gateway, engine):
        response = await ask(gateway, history(3), stream=stream)
        results = [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]
        assert results[:2] == [UNKNOWN, UNKNOWN]
        assert results[2].startswith(f"{UNKNOWN}\nThis call has failed 3 times with the same arguments. Do not make it again.")
        assert any("write_stdin ends a loop" in notice for notice in response["antiphon_notices"])
        assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["write_stdin", "run_tests"]


@both_ways
async def test_a_tool_that_is_called_once_more_is_withheld_and_another_answer_is_shown(stream: bool) -> None:
    async with small_model(AGAIN, TESTS) as (gateway, engine):
        response = await ask(gateway, history(4), stream=stream)
        assert [item["name"] for item in response["output"]] == ["run_tests"]
        first, second = engine.requests
        assert [tool["function"]["name"] for tool in first["tools"]] == ["write_stdin", "run_tests"]
        assert second["messages"][-1]["role"] == "user"
        assert second["messages"][-1]["content"] == (
            "Do not call write_stdin now, because the same call of it has failed 4 times. Do something else instead."
        )
        # This engine constrains nothing.
        assert [tool["function"]["name"] for tool in second["tools"]] == ["run_tests"]
        assert any(notice.startswith("write_stdin may not be called") for notice in response["antiphon_notices"])


@both_ways
async def test_an_engine_that_constrains_answers_is_held_to_the_other_tools(stream: bool) -> None:
    constrained = text('{"name": "run_tests", "arguments": {"path": "."}}')
    async with small_model(AGAIN, constrained, owned_by="llamacpp") as (gateway, engine):
        response = await ask(gateway, history(4), stream=stream)
        assert [item["name"] for item in response["output"]] == ["run_tests"]
        second = engine.last
        assert second["tools"] == engine.requests[0]["tools"]
        assert "run_tests" in second["grammar"]
        assert "write_stdin" not in second["grammar"]


@both_ways
async def test_a_withheld_call_beside_another_one_is_left_out(stream: bool) -> None:
    """Asked again, the model would make the other one twice."""
    tests = call("run_tests", '{"path": "."}', id="c1", index=0)
    again = call("write_stdin", '{"session_id": 1, "chars": ""}', id="c2", index=1)
    async with small_model(answer(tests, again, finish="tool_calls")) as (gateway, engine):
        response = await ask(gateway, history(4), stream=stream)
        assert [item["name"] for item in response["output"]] == ["run_tests"]
        assert len(engine.requests) == 1
        assert any(notice.startswith("a call of write_stdin was left out") for notice in response["antiphon_notices"])


SAID = '{"name": "say", "arguments": {"text": "It cannot be tested."}}'


@both_ways
@pytest.mark.parametrize(
    ("owned_by", "written"),
    [("llamacpp", SAID), ("vllm", SAID), ("vllm", f"```json\n{SAID}\n```")],
    ids=["by a grammar", "by a schema", "not constrained"],
)
async def test_a_call_that_is_not_allowed_may_become_an_answer_in_words(owned_by: str, written: str, stream: bool) -> None:
    said = text(written)
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "write_stdin"}]}
    async with small_model(TESTS, said, owned_by=owned_by) as (gateway, engine):
        response = await ask(gateway, history(0), stream=stream, tool_choice=allowed)
        assert [item["content"][0]["text"] for item in response["output"]] == ["It cannot be tested."]
        assert "write_stdin" in str(engine.last.get("grammar") or engine.last["response_format"])


@both_ways
async def test_a_model_that_does_not_stop_gets_an_end_and_no_error(stream: bool) -> None:
    async with small_model(AGAIN, AGAIN) as (gateway, engine):
        response = await ask(gateway, history(4), stream=stream)
        assert (response["status"], response["output"]) == ("completed", [])
        assert "a call of write_stdin was left out" in str(response["antiphon_notices"])
        assert len(engine.requests) == 2


@both_ways
async def test_a_withheld_call_in_the_text_is_not_shown_as_text(stream: bool) -> None:
    written = '<tool_call>\n{"name": "write_stdin", "arguments": {"session_id": 1, "chars": ""}}\n</tool_call>'
    async with small_model(text(written), text("I cannot go on.")) as (gateway, _):
        response = await ask(gateway, history(4), stream=stream)
        assert [item["content"][0]["text"] for item in response["output"]] == ["I cannot go on."]


COMMAND = '{"cmd": "cat x"}'


def reads(times: int) -> list[Item]:
    """The same failing command, as Codex sends it. The model knows it as a call of read_file."""
    calls = [
        item
        for at in range(times)
        for item in (function_call(f"call_{at}", "exec_command", COMMAND), call_output(f"call_{at}", "cat: x: no such file"))
    ]
    return [user("What is in x?"), *calls]


@both_ways
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("exec_command", COMMAND), ("shell", '{"command": "cat x"}'), ("read_file", '{"path": "x"}')],
    ids=["own name", "another function", "same function"],
)
async def test_a_call_is_withheld_under_every_name(name: str, arguments: str, stream: bool) -> None:
    again = answer(call(name, arguments), finish="tool_calls")
    async with small_model(again, text("There is no such file.")) as (gateway, engine):
        response = await ask(gateway, reads(4), stream=stream, tools=[EXEC_COMMAND])
        assert [item["content"][0]["text"] for item in response["output"]] == ["There is no such file."]
        assert engine.last["messages"][-1]["content"].startswith("Do not call read_file now, because the same call of it")


@both_ways
async def test_another_command_by_the_tools_own_name_is_made(stream: bool) -> None:
    listing = answer(call("exec_command", '{"cmd": "ls"}'), finish="tool_calls")
    async with small_model(listing) as (gateway, engine):
        response = await ask(gateway, reads(4), stream=stream, tools=[EXEC_COMMAND])
        assert [item["arguments"] for item in response["output"]] == ['{"cmd": "ls"}']
        assert len(engine.requests) == 1


async def test_a_call_by_the_tools_own_name_is_streamed_as_long_as_nothing_is_withheld() -> None:
    listing = answer(call("exec_command", '{"cmd": "ls"}'), finish="tool_calls")
    async with small_model(listing) as (gateway, _):
        events = await gateway.stream(reads(3), **{**CODEX, "tools": [EXEC_COMMAND]})
        deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        assert len(deltas) == 2


@both_ways
async def test_a_call_is_withheld_that_leaves_out_its_namespace(stream: bool) -> None:
    tools = [{"type": "namespace", "name": "mine", "description": "", "tools": [RUN]}]
    calls = [
        item
        for at in range(4)
        for item in (
            {**function_call(f"call_{at}", "run_tests", '{"path": "."}'), "namespace": "mine"},
            call_output(f"call_{at}", "failed: no such folder"),
        )
    ]
    async with small_model(TESTS, text("I give up.")) as (gateway, _):
        response = await ask(gateway, [user("Test it."), *calls], stream=stream, tools=tools)
        assert [item["type"] for item in response["output"]] == ["message"]


async def test_a_text_after_a_loop_ends_it() -> None:
    async with small_model(text("The command has ended.")) as (gateway, engine):
        response = await ask(gateway, history(5), stream=True)
        assert [item["type"] for item in response["output"]] == ["message"]
        assert len(engine.requests) == 1


async def test_a_call_that_the_client_requires_is_made() -> None:
    async with small_model(AGAIN) as (gateway, engine):
        response = await ask(gateway, history(4), stream=True, tool_choice={"type": "function", "name": "write_stdin"})
        assert [item["name"] for item in response["output"]] == ["write_stdin"]
        assert len(engine.requests) == 1


async def test_a_loop_is_seen_through_a_chain_of_stored_responses() -> None:
    async with small_model(TESTS, TESTS, TESTS, text("I give up.")) as (gateway, engine):
        response = await gateway.create("Fix the tests.", tools=[STDIN, RUN])
        seen: list[Item] = []
        for _ in range(3):
            output = call_output(response["output"][-1]["call_id"], "failed: no such folder")
            response = await gateway.create([output], tools=[STDIN, RUN], previous_response_id=response["id"])
            assert engine.last["messages"][: len(seen)] == seen
            seen = engine.last["messages"]
        assert "Do not make it again" in seen[-1]["content"]


@pytest.mark.parametrize("model", ["tiny-1.5b", "large-70b"])
async def test_without_help_the_request_is_what_it_was(model: str) -> None:
    help = "off" if model == "tiny-1.5b" else "auto"
    async with small_model(AGAIN, help=help) as (gateway, engine):
        engine.lists(model)
        await gateway.gateway.pool.engines[0].identify()
        response = await gateway.create(history(6), model=model, **CODEX)
        assert [item["name"] for item in response["output"]] == ["write_stdin"]
        assert {message["content"] for message in engine.last["messages"] if message["role"] == "tool"} == {UNKNOWN}
        assert "antiphon_notices" not in response
