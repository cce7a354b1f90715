"""The openai SDK and the Agents SDK: whole conversations with a search of files in them."""

from typing import Any

import pytest
from agents import Agent, FileSearchTool, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI, NotFoundError
from openai.types.responses import ResponseFileSearchToolCall
from openai.types.responses.response_output_text import AnnotationFileCitation
from support.engine import MockEngine, answer, call, text
from support.file_stores import FileStores, searching_files

SEARCHED = answer(call("file_search", '{"queries": ["capital of Italy"]}'), finish="tool_calls")
QUIET = RunConfig(tracing_disabled=True)


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_openai_sdk_reads_the_search_and_its_citations(
    engine: MockEngine, stores: FileStores, streamed: bool
) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."), text("You are welcome."))
    tool = {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 5}
    asked: Any = {"model": "mock", "tools": [tool], "include": ["file_search_call.results"]}
    async with (
        searching_files(engine, stores) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        if streamed:
            async with client.responses.stream(input="Capital?", **asked) as stream:
                kinds = [event.type async for event in stream]
                response: Any = await stream.get_final_response()
            assert [kind for kind in kinds if "file_search" in kind] == [
                f"response.file_search_call.{state}" for state in ("in_progress", "searching", "completed")
            ]
            assert "response.output_text.annotation.added" in kinds
        else:
            response = await client.responses.create(input="Capital?", **asked)
        again = await client.responses.create(input="Thanks", previous_response_id=response.id, **asked)
        with pytest.raises(NotFoundError) as refused:
            await client.responses.create(input="Hi", model="mock", tools=[{**tool, "vector_store_ids": ["vs_9"]}])  # type: ignore[list-item]
    found, message = response.output
    assert isinstance(found, ResponseFileSearchToolCall)
    assert found.queries == ["capital of Italy"]
    assert [(each.filename, each.score) for each in found.results or ()] == [("rome.pdf", 0.9), ("tiber.txt", 0.5)]
    (cited,) = message.content[0].annotations
    assert isinstance(cited, AnnotationFileCitation)
    assert (cited.file_id, response.output_text[cited.index :]) == ("file-rome", ".")
    assert again.output_text == "You are welcome."
    assert refused.value.param == "tools[0].vector_store_ids"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("included", [False, True])
async def test_the_agents_sdk_searches_and_goes_on(
    engine: MockEngine, stores: FileStores, streamed: bool, included: bool
) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."), text("You are welcome."))
    tool = FileSearchTool(
        vector_store_ids=["vs_1"],
        max_num_results=3,
        include_search_results=included,
        ranking_options={"ranker": "auto", "score_threshold": 0.1},
        filters={"type": "eq", "key": "year", "value": 2026},
    )
    async with (
        searching_files(engine, stores) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        model = OpenAIResponsesModel(model="mock", openai_client=client)
        agent = Agent(name="Librarian", instructions="Search.", tools=[tool], model=model)
        first: Any
        if streamed:
            first = Runner.run_streamed(agent, "Capital?", run_config=QUIET)
            assert [event async for event in first.stream_events()]
        else:
            first = await Runner.run(agent, "Capital?", run_config=QUIET)
        assert first.final_output == "It is Rome."
        items = [*first.to_input_list(), {"role": "user", "content": "Thanks"}]
        second = await Runner.run(agent, items, run_config=QUIET)
    assert second.final_output == "You are welcome."
    assert stores.searched[0][3].most == 3
    assert stores.searched[0][3].threshold == 0.1
    messages = engine.last["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "Tiber" in messages[3]["content"], "with or without `include`"
