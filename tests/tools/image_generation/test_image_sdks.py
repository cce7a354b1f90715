"""The openai SDK and the Agents SDK: whole conversations with images in them."""

import base64
from typing import Any

import pytest
from agents import Agent, ImageGenerationTool, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI
from openai.types.responses.response_output_item import ImageGenerationCall
from support.engine import MockEngine, text
from support.image_mcp_server import png
from support.images import TOOL, drawing, wanted

CAT = wanted("A cat")
QUIET = RunConfig(tracing_disabled=True)


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_openai_sdk_reads_the_image(engine: MockEngine, streamed: bool) -> None:
    engine.will(CAT, text("Here it is."), text("You are welcome."))
    asked: Any = {"model": "mock", "tools": [TOOL]}
    async with (
        drawing(engine) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        if streamed:
            async with client.responses.stream(input="Draw.", **asked) as stream:
                kinds = [event.type async for event in stream]
                response: Any = await stream.get_final_response()
            assert [kind for kind in kinds if "image" in kind] == [
                f"response.image_generation_call.{state}" for state in ("in_progress", "generating", "completed")
            ]
        else:
            response = await client.responses.create(input="Draw.", **asked)
        # As the SDK's documents do it: the item is sent back by its id.
        items: Any = [{"type": "image_generation_call", "id": response.output[0].id}, {"role": "user", "content": "Thanks"}]
        again = await client.responses.create(input=items, **asked)
        stored = await client.responses.retrieve(response.id)
    made = response.output[0]
    assert isinstance(made, ImageGenerationCall)
    assert (made.status, made.revised_prompt, made.output_format, made.size) == ("completed", "A cat", "png", "3x2")
    assert base64.b64decode(made.result or "") == png()
    assert stored.output[0] == made
    assert again.output_text == "You are welcome."
    assert [message["role"] for message in engine.last["messages"]] == ["assistant", "tool", "user"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_agents_sdk_draws_and_goes_on(engine: MockEngine, streamed: bool) -> None:
    engine.will(CAT, text("Here it is."), wanted("A dog"), text("And a dog."))
    tool = ImageGenerationTool(tool_config={"type": "image_generation", "quality": "auto", "output_format": "png"})
    async with (
        drawing(engine) as gateway,
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
    ):
        model = OpenAIResponsesModel(model="mock", openai_client=client)
        agent = Agent(name="Painter", instructions="Draw.", tools=[tool], model=model)
        first: Any
        if streamed:
            first = Runner.run_streamed(agent, "A cat, please.", run_config=QUIET)
            assert [event async for event in first.stream_events()]
        else:
            first = await Runner.run(agent, "A cat, please.", run_config=QUIET)
        assert first.final_output == "Here it is."
        items = [*first.to_input_list(), {"role": "user", "content": "And a dog."}]
        second = await Runner.run(agent, items, run_config=QUIET)
    assert second.final_output == "And a dog."
    made = [item.raw_item for item in (*first.new_items, *second.new_items) if item.type == "tool_call_item"]
    assert [(each.type, each.revised_prompt) for each in made] == [
        ("image_generation_call", "A cat"),
        ("image_generation_call", "A dog"),
    ]
    assert all(base64.b64decode(each.result) == png() for each in made)
    roles = [message["role"] for message in engine.requests[2]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert engine.requests[2]["messages"][3]["content"] == "The image was made and is shown to the user."
