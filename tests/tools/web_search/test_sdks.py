"""The openai SDK and the Agents SDK: whole conversations with a search in them."""

from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, WebSearchTool
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionWebSearch
from openai.types.responses.response_output_text import AnnotationURLCitation
from support.engine import MockEngine, answer, call, text
from support.search_services import SearchServices, searching

SEARCHED = answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls")
QUIET = RunConfig(tracing_disabled=True)


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_openai_sdk_reads_the_search_and_its_citations(
    engine: MockEngine, services: SearchServices, streamed: bool
) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."), text("You are welcome."))
    asked: Any = {"model": "mock", "tools": [{"type": "web_search"}], "include": ["web_search_call.action.sources"]}
    async with (
        searching(engine, services) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        if streamed:
            async with client.responses.stream(input="Capital?", **asked) as stream:
                kinds = [event.type async for event in stream]
                response: Any = await stream.get_final_response()
            assert "response.web_search_call.searching" in kinds
            assert "response.output_text.annotation.added" in kinds
        else:
            response = await client.responses.create(input="Capital?", **asked)
        again = await client.responses.create(input="Thanks", previous_response_id=response.id, **asked)
    found, message = response.output
    assert isinstance(found, ResponseFunctionWebSearch)
    assert found.action.type == "search"
    assert [source.url for source in found.action.sources or ()] == ["https://docs.example.com/a", "https://example.org/b"]
    (cited,) = message.content[0].annotations
    assert isinstance(cited, AnnotationURLCitation)
    assert cited.url in response.output_text[cited.start_index : cited.end_index]
    assert response.tool_usage.web_search.num_requests == 1
    assert again.output_text == "You are welcome."


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_agents_sdk_searches_and_goes_on(engine: MockEngine, services: SearchServices, streamed: bool) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."), text("You are welcome."))
    tool = WebSearchTool(search_context_size="low", user_location={"type": "approximate", "city": "Berlin"})
    async with (
        searching(engine, services) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        model = OpenAIResponsesModel(model="mock", openai_client=client)
        agent = Agent(name="Guide", instructions="Search.", tools=[tool], model=model)
        first: Any
        if streamed:
            first = Runner.run_streamed(agent, "Capital?", run_config=QUIET)
            assert [event async for event in first.stream_events()]
        else:
            first = await Runner.run(agent, "Capital?", run_config=QUIET)
        assert first.final_output == "It is Rome ([docs.example.com](https://docs.example.com/a))."
        items = [*first.to_input_list(), {"role": "user", "content": "Thanks"}]
        second = await Runner.run(agent, items, run_config=QUIET)
    assert second.final_output == "You are welcome."
    roles = [message["role"] for message in engine.last["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
