"""image_generation on a real MCP server, which the settings start: what the model sees, and what the client gets."""

import base64
import json
from typing import Any

import msgspec
import pytest
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import running_gateway
from support.image_mcp_server import png
from support.images import PAINT, TOOL, drawing, wanted
from support.inspector import opened, rows
from support.sockets import connected
from support.streams import check_stream

from antiphon.app.hosted_tools import check_tools
from antiphon.core.recording.file import file_to_recording
from antiphon.core.recording.rerun import run_again
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.tables import ImageGenerationSettings, ToolSettings

MADE = "The image was made and is shown to the user."
CAT = wanted("A cat")
PICTURE = base64.b64encode(png()).decode()
ITEM = {
    "type": "image_generation_call",
    "status": "completed",
    "result": PICTURE,
    "revised_prompt": "A cat",
    "action": "generate",
    "background": "auto",
    "output_format": "png",
    "quality": "auto",
    "size": "3x2",
}


def results(engine: MockEngine) -> list[str]:
    """What the model saw of its calls."""
    return [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]


# ---- a call ----------------------------------------------------------------------------------------------------------

EVENTS = [
    "response.output_item.added",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.generating",
    "response.image_generation_call.completed",
    "response.output_item.done",
]


async def test_a_call_is_one_item_with_its_events_in_order(engine: MockEngine) -> None:
    engine.will(CAT, text("Here it is."))
    async with drawing(engine) as gateway:
        events = await gateway.stream("Draw.", tools=[TOOL])
    of_call = [event for event in events if event.get("output_index") == 0]
    assert [event["type"] for event in of_call] == EVENTS
    added, *between, done = of_call
    id = added["item"]["id"]
    assert id.startswith("ig_")
    assert added["item"] == {"type": "image_generation_call", "id": id, "status": "in_progress"}
    assert done["item"] == {**ITEM, "id": id}
    for event in between:
        assert event.keys() == {"type", "item_id", "output_index", "sequence_number"}
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["image_generation_call", "message"]
    assert response["tool_usage"]["image_gen"]["total_tokens"] == 0
    assert "antiphon_notices" not in response
    assert not any("mcp" in event["type"] for event in events)


async def test_the_model_sees_one_function_and_never_the_image(engine: MockEngine) -> None:
    engine.will(CAT, text("Here it is."))
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
    (tool,) = engine.requests[0]["tools"]
    assert tool["function"]["name"] == "image_generation"
    assert list(tool["function"]["parameters"]["properties"]) == ["prompt"]
    assert results(engine) == [MADE]
    assert PICTURE not in json.dumps(engine.requests)
    defaults = {"background": "auto", "moderation": "auto", "output_compression": 100, "output_format": "png"}
    assert response["tools"] == [{"type": "image_generation", **defaults, "quality": "auto", "size": "auto"}]


async def test_every_way_to_ask_gives_the_same_item(engine: MockEngine) -> None:
    outputs = []
    async with drawing(engine) as gateway:
        _, conversation = await gateway.post({}, "/v1/conversations")
        for way in ("whole", "streamed", "websocket", "background", "conversation"):
            engine.will(CAT, text("Here it is."))
            if way == "whole":
                response = await gateway.create(tools=[TOOL])
            elif way == "streamed":
                response = check_stream(await gateway.stream(tools=[TOOL]))
            elif way == "websocket":
                async with connected(gateway) as socket:
                    response = await socket.create(tools=[TOOL])
            elif way == "background":
                response = await Background(gateway).made(tools=[TOOL])
            else:
                response = await gateway.create(tools=[TOOL], conversation=conversation["id"])
            outputs.append({**response["output"][0], "id": ""})
        _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    assert outputs == [{**ITEM, "id": ""}] * 5
    assert {**items["data"][1], "id": ""} == outputs[0]


async def test_an_image_in_a_resource_is_one_too(engine: MockEngine) -> None:
    engine.will(wanted("resource"), text("Here it is."))
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0] == {**ITEM, "id": response["output"][0]["id"], "revised_prompt": "resource"}


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("fail", "Error executing tool draw"),
        ("words", "The tool made no image. It said: I am a poet."),
        ("nothing", "The tool made no image."),
        ("huge", "4,194,304 bytes"),
    ],
)
async def test_a_call_without_an_image_fails_and_the_model_gets_the_reason(
    engine: MockEngine, prompt: str, problem: str
) -> None:
    engine.will(wanted(prompt), text("I cannot draw."), text("No."))
    async with drawing(engine) as gateway:
        events = await gateway.stream(tools=[TOOL])
        before = engine.last["messages"]
        await gateway.create("Why?", tools=[TOOL], previous_response_id=events[-1]["response"]["id"])
    item = events[-1]["response"]["output"][0]
    assert (item["status"], item["result"], item["revised_prompt"]) == ("failed", None, prompt)
    assert item["error"]["type"] == "image_generation_error"
    assert "response.image_generation_call.completed" not in [event["type"] for event in events]
    (seen,) = [message["content"] for message in before if message["role"] == "tool"]
    assert problem in seen
    assert item["error"]["message"] == seen
    assert events[-1]["response"]["status"] == "completed"
    # And it is said again, word for word.
    assert engine.last["messages"][: len(before)] == before


async def test_a_large_image_fits(engine: MockEngine) -> None:
    engine.will(wanted("large"), text("Here it is."), text("You are welcome."))
    async with drawing(engine) as gateway:
        first = await gateway.create(tools=[TOOL])
        _, stored = await gateway.get(f"/v1/responses/{first['id']}")
        await gateway.create("Thanks", tools=[TOOL], previous_response_id=first["id"])
    assert len(base64.b64decode(first["output"][0]["result"])) > 2_500_000
    assert stored["output"] == first["output"]
    assert len(json.dumps(engine.last)) < 10_000


async def test_a_call_without_a_prompt_is_asked_for_again(engine: MockEngine) -> None:
    engine.will(answer(call("image_generation", '{"text": "A cat"}'), finish="tool_calls"), CAT, text("Here it is."))
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert [item["type"] for item in response["output"]] == ["image_generation_call", "message"]
    assert response["output"][0]["revised_prompt"] == "A cat"


async def test_a_call_that_is_cut_off_failed(engine: MockEngine) -> None:
    engine.will(answer(call("image_generation", '{"prompt": "A c'), finish="length"), text("Here it is."))
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
        await gateway.create("Go on.", previous_response_id=response["id"])
    assert response["status"] == "incomplete"
    for item in response["output"]:
        assert item == {"type": "image_generation_call", "id": item["id"], "status": "failed", "result": None}


# ---- options ---------------------------------------------------------------------------------------------------------


async def test_options_reach_a_tool_that_has_arguments_for_them(engine: MockEngine) -> None:
    engine.will(CAT, text("Here it is."))
    async with drawing(engine, PAINT) as gateway:
        response = await gateway.create(tools=[{**TOOL, "size": "6x4", "quality": "high", "output_format": "png"}])
    item = response["output"][0]
    assert (item["size"], item["quality"], item["output_format"]) == ("6x4", "high", "png")
    assert base64.b64decode(item["result"]) == png(6, 4)
    assert "antiphon_notices" not in response


async def test_what_the_tool_does_not_take_is_said_once(engine: MockEngine) -> None:
    options = {"size": "6x4", "quality": "medium", "background": "transparent", "output_compression": 50}
    engine.will(CAT, wanted("A dog"), text("Here they are."))
    async with drawing(engine, PAINT) as gateway:
        response = await gateway.create(tools=[{**TOOL, **options}])
    item = response["output"][0]
    assert (item["size"], item["quality"], item["background"]) == ("6x4", "auto", "auto")
    assert response["antiphon_notices"] == [
        "background, output_compression, quality of tool image_generation have no effect: "
        "the tool that makes the images does not take them"
    ]


async def test_an_image_that_is_as_it_was_wanted_needs_no_notice(engine: MockEngine) -> None:
    engine.will(CAT, text("Here it is."), CAT, text("Here it is."))
    async with drawing(engine) as gateway:
        fits = await gateway.create(tools=[{**TOOL, "size": "3x2", "output_format": "png"}])
        differs = await gateway.create(tools=[{**TOOL, "size": "1024x1024"}])
    assert "antiphon_notices" not in fits
    assert differs["antiphon_notices"] == [
        "size of tool image_generation has no effect: the tool that makes the images does not take it"
    ]


async def test_what_no_server_can_do_is_said_before(engine: MockEngine) -> None:
    never: dict[str, Any] = {
        "action": "edit",
        "complexity": "high",
        "frame_count": 3,
        "frame_duration_ms": 100,
        "input_fidelity": "high",
        "input_image_mask": {"file_id": "file-1"},
        "model": "gpt-image-2",
        "moderation": "low",
        "partial_images": 2,
        "svg": {"model": "gpt-5.5"},
    }
    usual = {"size": "auto", "quality": "auto", "background": "auto", "output_compression": 100, "output_format": None}
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[{**TOOL, **never, **usual, "style": "oil"}])
        plain = await gateway.create(tools=[{**TOOL, **usual, "action": "auto", "partial_images": 0, "moderation": "auto"}])
    assert response["antiphon_notices"] == [
        "style of tool image_generation has no effect: it is not known here",
        *(f"{name} of tool image_generation has no effect: an MCP server makes the images" for name in never),
    ]
    assert "antiphon_notices" not in plain


WRONG: list[tuple[str, Any]] = [
    ("action", "erase"),
    ("background", "red"),
    ("complexity", 1),
    ("frame_count", 0),
    ("frame_duration_ms", "fast"),
    ("input_fidelity", "medium"),
    ("input_image_mask", "file-1"),
    ("model", 5),
    ("moderation", "none"),
    ("output_compression", 101),
    ("output_format", "bmp"),
    ("partial_images", 4),
    ("quality", "best"),
    ("size", 1024),
    ("svg", "yes"),
]


@pytest.mark.parametrize(("member", "value"), WRONG)
async def test_a_member_that_is_wrong_is_named(engine: MockEngine, member: str, value: Any) -> None:
    async with drawing(engine) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [{**TOOL, member: value}]})
    assert (status, body["error"]["param"]) == (400, f"tools[0].{member}")


# ---- choices and limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choice", [TOOL, {"type": "allowed_tools", "mode": "required", "tools": [TOOL]}], ids=["named", "allowed"]
)
async def test_the_tool_can_be_required(engine: MockEngine, choice: Any) -> None:
    engine.will(CAT, text("Here it is."))
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[TOOL, {"type": "function", "name": "f"}], tool_choice=choice)
    assert response["tool_choice"] == choice
    assert [item["type"] for item in response["output"]] == ["image_generation_call", "message"]
    assert engine.requests[0]["tool_choice"] != "auto"
    assert engine.last["tool_choice"] == "auto"


async def test_calls_above_max_tool_calls_are_not_run(engine: MockEngine) -> None:
    engine.will(CAT, wanted("A dog"), text("One is enough."))
    async with drawing(engine) as gateway:
        response = await gateway.create(tools=[TOOL], max_tool_calls=1)
    assert [item["type"] for item in response["output"]] == ["image_generation_call", "message"]


async def test_without_the_setting_the_tool_is_left_out_with_a_notice(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert "tools" not in engine.last
    assert any("image_generation" in notice for notice in response["antiphon_notices"])


# ---- later turns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
async def test_a_longer_history_begins_with_the_same_messages(engine: MockEngine, stored: bool) -> None:
    engine.will(CAT, text("Here it is."), text("You are welcome."))
    async with drawing(engine) as gateway:
        first = await gateway.create("Draw.", tools=[TOOL], store=stored)
        before = engine.last["messages"]
        if stored:
            await gateway.create("Thanks", tools=[TOOL], previous_response_id=first["id"])
        else:
            items = [{"role": "user", "content": "Draw."}, *first["output"], {"role": "user", "content": "Thanks"}]
            await gateway.create(items, tools=[TOOL])
    assert engine.last["messages"][: len(before)] == before
    assert PICTURE not in json.dumps(engine.last)


async def test_the_same_image_can_be_made_in_every_turn(engine: MockEngine) -> None:
    engine.will(CAT, CAT, text("Two."), CAT, text("Three."))
    async with drawing(engine) as gateway:
        first = await gateway.create(tools=[TOOL])
        before = engine.last["messages"]
        second = await gateway.create("Again", tools=[TOOL], previous_response_id=first["id"])
    assert [item["type"] for item in first["output"]] == ["image_generation_call", "image_generation_call", "message"]
    assert second["output"][0]["result"] == PICTURE
    assert engine.last["messages"][: len(before)] == before
    assert results(engine) == [MADE] * 3


# ---- the inspector ---------------------------------------------------------------------------------------------------


async def test_the_inspector_runs_it_again_exactly(engine: MockEngine) -> None:
    engine.will(CAT, text("Here it is."))
    async with drawing(engine) as gateway:
        await gateway.stream(tools=[TOOL])
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
        async with gateway.client.get(f"{gateway.url}/inspector/requests/{row['number']}/recording") as answered:
            recording = file_to_recording(await answered.read())
    assert (row["tool_calls"], view["exact"]) == (1, True)
    again = run_again(recording)
    assert again.trouble is None
    assert again.response is not None
    item, _ = msgspec.to_builtins(again.response.output)
    assert item["result"] == PICTURE


async def test_images_count_for_the_memory_of_the_inspector(engine: MockEngine) -> None:
    engine.will(wanted("large"), text("Here it is."), CAT, text("Here it is."))
    async with drawing(engine, inspector_bytes=1024 * 1024) as gateway:
        await gateway.create(tools=[TOOL])
        await gateway.create(tools=[TOOL])
        assert [row["number"] for row in await rows(gateway)] == [2]


async def test_a_recording_has_the_images_that_were_made_and_not_those_of_earlier_turns(engine: MockEngine) -> None:
    engine.will(wanted("large"), text("Here it is."), text("You are welcome."))
    async with drawing(engine) as gateway:
        first = await gateway.create(tools=[TOOL])
        await gateway.create("Thanks", tools=[TOOL], previous_response_id=first["id"])
        second, made = await rows(gateway)
        sizes = []
        for row in (made, second):
            async with gateway.client.get(f"{gateway.url}/inspector/requests/{row['number']}/recording") as answered:
                sizes.append(len(await answered.read()))
    assert sizes[0] > 3_000_000
    assert sizes[1] < 20_000


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (ImageGenerationSettings(), "tools.image_generation.mcp is missing"),
        (ImageGenerationSettings(mcp="images"), "tools.image_generation.tool is missing"),
        (ImageGenerationSettings(tool="draw"), "tools.image_generation.mcp is missing"),
        (ImageGenerationSettings(mcp="images", tool="draw"), "there is no [mcp.servers.images]"),
    ],
)
def test_settings_that_cannot_be_used_say_what_is_missing(chosen: ImageGenerationSettings, words: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        check_tools(Settings(tools=ToolSettings(image_generation=chosen)))
    assert words in str(wrong.value)
