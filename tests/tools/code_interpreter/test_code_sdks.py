"""The openai SDK and the Agents SDK: whole conversations with code in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, CodeInterpreterTool, ModelSettings, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI
from openai.types.responses import ResponseCodeInterpreterToolCall
from openai.types.responses.response_output_text import AnnotationContainerFileCitation
from support.engine import MockEngine, answer, call, text
from support.kernels import ScriptedKernels, interpreting, prints

CODE = "plot(21 * 2)"
CODED = answer(call("python", json.dumps({"code": CODE})), finish="tool_calls")
LINKED = "It is 42: [the plot](sandbox:/mnt/data/plot.csv)."
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture
def kernels() -> ScriptedKernels:
    return ScriptedKernels({CODE: prints("42", plot__csv="42")})


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_openai_sdk_reads_the_call_its_outputs_and_its_file(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, streamed: bool
) -> None:
    engine.will(CODED, text(LINKED), text("You are welcome."))
    tool = {"type": "code_interpreter", "container": {"type": "auto"}}
    asked: Any = {"model": "mock", "tools": [tool], "include": ["code_interpreter_call.outputs"]}
    async with (
        interpreting(engine, kernels, tmp_path) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        if streamed:
            async with client.responses.stream(input="Plot.", **asked) as stream:
                kinds = [event.type async for event in stream]
                response: Any = await stream.get_final_response()
            assert "response.code_interpreter_call_code.delta" in kinds
            assert "response.code_interpreter_call.interpreting" in kinds
            assert "response.output_text.annotation.added" in kinds
        else:
            response = await client.responses.create(input="Plot.", **asked)
        ran, message = response.output
        (cited,) = message.content[0].annotations
        content = await client.containers.files.content.retrieve(cited.file_id, container_id=cited.container_id)
        again = await client.responses.create(input="Thanks", previous_response_id=response.id, **asked)
    assert isinstance(ran, ResponseCodeInterpreterToolCall)
    assert (ran.code, ran.status) == (CODE, "completed")
    assert [each.logs for each in ran.outputs or () if each.type == "logs"] == ["42"]
    assert isinstance(cited, AnnotationContainerFileCitation)
    assert response.output_text[cited.start_index : cited.end_index] == "sandbox:/mnt/data/plot.csv"
    assert (cited.filename, content.read()) == ("plot.csv", b"42")
    assert again.output_text == "You are welcome."


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_agents_sdk_runs_code_and_goes_on(
    engine: MockEngine, kernels: ScriptedKernels, tmp_path: Path, streamed: bool
) -> None:
    engine.will(CODED, text(LINKED), CODED, text("Again."))
    tool = CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})
    async with (
        interpreting(engine, kernels, tmp_path) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        model = OpenAIResponsesModel(model="mock", openai_client=client)
        settings = ModelSettings(response_include=["code_interpreter_call.outputs"])
        agent = Agent(name="Analyst", instructions="Compute.", tools=[tool], model=model, model_settings=settings)
        first: Any
        if streamed:
            first = Runner.run_streamed(agent, "Plot.", run_config=QUIET)
            assert [event async for event in first.stream_events()]
        else:
            first = await Runner.run(agent, "Plot.", run_config=QUIET)
        assert first.final_output == LINKED
        items = [*first.to_input_list(), {"role": "user", "content": "Once more"}]
        second = await Runner.run(agent, items, run_config=QUIET)
    assert second.final_output == "Again."
    # The second run found the container of the first.
    assert [kernel.runs for kernel in kernels.started] == [[CODE, CODE]]
    roles = [message["role"] for message in engine.requests[2]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    read_before, read_again = (engine.requests[at]["messages"][3]["content"] for at in (1, 2))
    assert read_before.startswith("42\n\nFiles that were written.")
    assert read_again == read_before
