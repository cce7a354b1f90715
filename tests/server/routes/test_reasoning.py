"""Reasoning, as clients see it and as the engine gets it back."""

from typing import Any

import pytest
from support.background import Background
from support.engine import DONE, MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, standing_before
from support.sockets import connected

SUMMARY = {"summary": "auto"}
# In pieces that a client sees one by one; the first line is a heading, which the summary shows as a bold one.
PIECES = ("## Look", " around\nI see", "\n# x", " and", " more")
THOUGHT = "".join(PIECES)
SHOWN = "**Look around**\nI see\n# x and more"
SEALED = "include[]=reasoning.encrypted_content"


def thinking(*pieces: str) -> bytes:
    return answer(*(chunk({"reasoning": piece}) for piece in pieces), chunk({"content": "Yes"}))


def returned(engine: MockEngine) -> list[str]:
    """The thoughts that the engine got back with its last request."""
    return [message["reasoning"] for message in engine.last["messages"] if "reasoning" in message]


# ---- what is shown ---------------------------------------------------------------------------------------------------


async def test_a_requested_summary_is_the_only_form_of_the_thought(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(thinking("Let", " me", " see"))
    events = await gateway.stream(reasoning=SUMMARY)
    kinds = [event["type"] for event in events if event.get("output_index") == 0]
    assert kinds == [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        *["response.reasoning_summary_text.delta"] * 3,
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]
    item = events[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Let me see"}]
    assert "content" not in item


async def test_without_a_summary_the_thought_is_raw_text(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(thinking("Let", " me", " see"))
    events = await gateway.stream(reasoning={"effort": "low"})
    assert not any("summary" in event["type"] for event in events)
    item = events[-1]["response"]["output"][0]
    assert (item["summary"], item["content"]) == ([], [{"type": "reasoning_text", "text": "Let me see"}])


async def test_a_setting_sends_every_thought_as_a_summary(engine: MockEngine) -> None:
    engine.will(*[thinking("Let", " me", " see")] * 2)
    async with running_gateway(engine, reasoning_summary="always") as gateway:
        events = await gateway.stream()
        whole = (await gateway.create())["output"][0]
    assert not any("reasoning_text" in event["type"] for event in events)
    for item in (events[-1]["response"]["output"][0], whole):
        assert item["summary"] == [{"type": "summary_text", "text": "Let me see"}]
        assert "content" not in item


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["<think>", " is a tag", " that models use."], "<think> is a tag that models use."),
        (["<think>", "Let me", " see", "</think>", "Yes."], "Yes."),
        (["<think>Let me", " be brief: <think>", " opens it."], "<think>Let me be brief: <think> opens it."),
    ],
)
async def test_text_that_begins_with_a_tag_is_left_out_only_if_it_repeats_the_thought(
    gateway: GatewayUnderTest, engine: MockEngine, pieces: list[str], shown: str, stream: bool
) -> None:
    thought = [chunk({"reasoning_content": piece}) for piece in ("Let", " me", " see")]
    engine.will(answer(*thought, *(chunk({"content": piece}) for piece in pieces)))
    response = (await gateway.stream())[-1]["response"] if stream else await gateway.create()
    reasoning, message = response["output"]
    assert reasoning["content"][0]["text"] == "Let me see"
    assert message["content"][0]["text"] == shown


async def test_an_answer_of_a_model_that_thinks_unasked_comes_once_if_it_did_not_think(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    """The template has opened the thought, as far as is known. A client that waits for the whole answer gets it as text."""
    engine.will(text("I should look.</think>Paris."), text("Par", "is."), text("Let me th", finish="length"))
    first, second, third = [await gateway.create() for _ in range(3)]
    assert [item["type"] for item in first["output"]] == ["reasoning", "message"]
    assert [item["type"] for item in second["output"]] == ["message"]
    assert second["output_text"] == "Paris."
    assert [item["type"] for item in third["output"]] == ["reasoning"], "a thought that was cut off stays one"
    engine.will(text("Par", "is."))
    streamed = (await gateway.stream())[-1]["response"]
    assert [item["type"] for item in streamed["output"]] == ["reasoning", "message"], "it had been streamed as a thought"
    assert streamed["output"][1]["content"][0]["text"] == "Paris."


async def test_a_heading_becomes_the_bold_first_line_of_the_summary(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(thinking(*PIECES))
    item = (await gateway.stream(reasoning=SUMMARY))[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": SHOWN}]


async def test_a_stored_summary_is_shown_as_it_was_streamed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*[thinking("Let", " me"), thinking(*PIECES)])
    for _ in range(2):
        made = (await gateway.stream(reasoning=SUMMARY))[-1]["response"]
        _, fetched = await gateway.get(f"/v1/responses/{made['id']}")
        assert fetched["output"] == made["output"]


# ---- what the engine gets back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [PIECES, ("Let", " me", " see"), ("**Bold** from the start\n", "and on")])
async def test_every_history_has_the_exact_thought(pieces: tuple[str, ...]) -> None:
    async with standing_before("vllm", *[thinking(*pieces)] * 4) as (gateway, engine):
        chain = await gateway.create(reasoning=SUMMARY)
        await gateway.create(previous_response_id=chain["id"], reasoning=SUMMARY)
        assert returned(engine) == ["".join(pieces)]
        conversation = (await gateway.post({}, "/v1/conversations"))[1]["id"]
        await gateway.create(conversation=conversation, reasoning=SUMMARY)
        await gateway.create(conversation=conversation, reasoning=SUMMARY)
        assert returned(engine) == ["".join(pieces)]


@pytest.mark.parametrize("store", [True, False])
async def test_the_history_of_a_connection_has_the_exact_thought(store: bool) -> None:
    async with standing_before("vllm", *[thinking(*PIECES)] * 2) as (gateway, engine), connected(gateway) as socket:
        first = await socket.create("One", store=store, reasoning=SUMMARY)
        await socket.create("Two", store=store, reasoning=SUMMARY, previous_response_id=first["id"])
        assert returned(engine) == [THOUGHT]


@pytest.mark.parametrize("fields", [{}, {"store": False}, {"include": ["reasoning.encrypted_content"]}])
async def test_an_output_that_a_client_sends_back_has_the_exact_thought(fields: dict[str, Any]) -> None:
    async with standing_before("vllm", thinking(*PIECES)) as (gateway, engine):
        output = (await gateway.create(reasoning=SUMMARY, **fields))["output"]
        await gateway.create([{"role": "user", "content": "Hi"}, *output, {"role": "user", "content": "And?"}])
        assert returned(engine) == [THOUGHT]


@pytest.mark.parametrize("pieces", [PIECES, ("Let", " me", " see")])
async def test_the_seal_of_a_stored_summary_has_the_exact_thought(pieces: tuple[str, ...]) -> None:
    async with standing_before("vllm", *[thinking(*pieces)] * 2) as (gateway, engine):
        made = await gateway.create(reasoning=SUMMARY)
        background = Background(gateway)
        ended = await background.ended((await background.create(reasoning=SUMMARY))["id"])
        for id in (made["id"], ended["id"]):
            _, fetched = await gateway.get(f"/v1/responses/{id}?{SEALED}")
            kept = {"type": "reasoning", "summary": [], "encrypted_content": fetched["output"][0]["encrypted_content"]}
            await gateway.create([{"role": "user", "content": "Hi"}, kept, {"role": "assistant", "content": "Yes"}])
            assert returned(engine) == ["".join(pieces)]


# ---- calls in a thought ----------------------------------------------------------------------------------------------

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "a.txt"}}\n</tool_call>'
OTHER_SHAPES = [
    "<function=look>\n<parameter=at>\na.txt\n</parameter>\n</function>",
    '[TOOL_CALLS][{"name": "look", "arguments": {"at": "a.txt"}}]',
    '<|python_tag|>{"name": "look", "parameters": {"at": "a.txt"}}',
]


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


@pytest.mark.parametrize("call", [CALL, *OTHER_SHAPES])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_ends_a_lone_thought_is_made(
    gateway: GatewayUnderTest, engine: MockEngine, call: str, stream: bool
) -> None:
    pieces = ("I must look.\n", *call, "\n")
    engine.will(answer(*(chunk({"reasoning_content": piece}) for piece in pieces)))
    made = (await gateway.stream(tools=[TOOL]))[-1]["response"] if stream else await gateway.create(tools=[TOOL])
    assert (made["status"], kinds(made)) == ("completed", ["reasoning", "function_call"])
    assert (made["output"][1]["name"], made["output"][1]["arguments"].replace(" ", "")) == ("look", '{"at":"a.txt"}')
    assert made["output"][1]["status"] == "completed"


@pytest.mark.parametrize("end", ["", "</think>", "\n</think>\n\n"])
async def test_a_call_in_a_tagged_thought_is_made(gateway: GatewayUnderTest, engine: MockEngine, end: str) -> None:
    engine.will(*[text("<think>I must", f" look.\n{CALL}", end)] * 2)
    for made in (await gateway.create(tools=[TOOL]), (await gateway.stream(tools=[TOOL]))[-1]["response"]):
        assert kinds(made) == ["reasoning", "function_call"]


async def test_several_calls_that_end_a_thought_are_made(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning_content": f"Both:\n{CALL}\n{CALL.replace('a.txt', 'b.txt')}"})))
    made = await gateway.create(tools=[TOOL])
    assert [item["arguments"].replace(" ", "") for item in made["output"][1:]] == ['{"at":"a.txt"}', '{"at":"b.txt"}']
    assert made["output"][1]["call_id"] != made["output"][2]["call_id"]
    assert "inside its reasoning" in gateway.notice


@pytest.mark.parametrize(
    "thought",
    [
        f"I could write `{CALL}`",
        f'The format is "{CALL}"',
        f"```\n{CALL}\n```",
        f"{CALL}\nNo, better not.",
        CALL.replace("look", "jump"),
        '{"name": "look", "arguments": {"at": "a.txt"}}',
        CALL[:40],
    ],
)
async def test_what_may_not_be_meant_as_a_call_stays_a_thought(
    gateway: GatewayUnderTest, engine: MockEngine, thought: str
) -> None:
    engine.will(answer(chunk({"reasoning_content": thought})))
    assert kinds(await gateway.create(tools=[TOOL])) == ["reasoning"]
    assert gateway.notice == ""


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (answer(chunk({"reasoning_content": CALL}), chunk({"content": "Done."})), ["reasoning", "message"]),
        (answer(chunk({"reasoning_content": CALL}), call("look", "{}")), ["reasoning", "function_call"]),
        (answer(chunk({"reasoning_content": CALL}), finish="length"), ["reasoning"]),
    ],
)
async def test_a_thought_that_is_followed_or_cut_off_makes_no_call(
    gateway: GatewayUnderTest, engine: MockEngine, stream: bytes, expected: list[str]
) -> None:
    engine.will(stream)
    assert kinds(await gateway.create(tools=[TOOL])) == expected


async def test_a_call_in_a_thought_that_broke_off_is_not_made(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(chunk({"reasoning_content": CALL}))
    response = (await gateway.stream(tools=[TOOL]))[-1]["response"]
    assert (response["status"], kinds(response)) == ("failed", ["reasoning"])


@pytest.mark.parametrize("fields", [{"tools": [TOOL], "tool_choice": "none"}, {}])
async def test_a_thought_makes_no_call_where_no_tool_is_offered(
    gateway: GatewayUnderTest, engine: MockEngine, fields: dict[str, Any]
) -> None:
    engine.will(answer(chunk({"reasoning_content": CALL})))
    assert kinds(await gateway.create(**fields)) == ["reasoning"]


async def test_a_call_in_a_thought_is_the_call_that_was_required(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(b"".join([chunk({"reasoning_content": CALL}), DONE]))
    made = await gateway.create(tools=[TOOL], tool_choice="required")
    assert kinds(made) == ["reasoning", "function_call"]
    assert len(engine.requests) == 1


async def test_a_call_in_a_thought_is_checked_like_any_other(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    number = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"], "additionalProperties": False}
    strict = {**TOOL, "parameters": number, "strict": True}
    engine.will(
        answer(chunk({"reasoning_content": CALL.replace('"a.txt"', '{"no": 1}')})), answer(call("look", '{"at": 7}', id="c2"))
    )
    made = await gateway.create(tools=[strict])
    assert [item["arguments"] for item in made["output"] if item["type"] == "function_call"] == ['{"at": 7}']
    assert len(engine.requests) == 2


# ---- its tokens ------------------------------------------------------------------------------------------------------


def counted(total: int, **details: Any) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": total, "total_tokens": 10 + total, **details}
    thought, said = chunk({"reasoning": "t" * 30}), chunk({"content": "s" * 10})
    return b"".join([thought, said, chunk(finish="stop"), chunk(usage=usage), DONE])


@pytest.mark.parametrize(
    ("total", "details", "expected"),
    [
        (100, {}, 75),
        (100, {"completion_tokens_details": None}, 75),
        (100, {"completion_tokens_details": {"reasoning_tokens": 0}}, 75),
        (100, {"completion_tokens_details": {"reasoning_tokens": 60}}, 60),
        (1, {}, 1),
        (0, {}, 0),
    ],
)
async def test_tokens_of_thoughts_that_the_engine_does_not_count_are_estimated(
    gateway: GatewayUnderTest, engine: MockEngine, total: int, details: dict[str, Any], expected: int
) -> None:
    engine.will(counted(total, **details))
    usage = (await gateway.create())["usage"]
    assert usage["output_tokens_details"] == {"reasoning_tokens": expected}
    assert (usage["output_tokens"], usage["total_tokens"]) == (total, 10 + total)


async def test_tokens_of_thoughts_are_part_of_a_usage_that_is_estimated(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(b"".join([chunk({"reasoning": "t" * 30}), chunk({"content": "s" * 10}), chunk(finish="stop"), DONE]))
    usage = (await gateway.create())["usage"]
    assert (usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"]) == (10, 8)


async def test_an_answer_without_a_thought_has_no_tokens_of_one(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert (await gateway.create())["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
