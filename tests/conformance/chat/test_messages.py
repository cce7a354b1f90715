"""Every message of a chat request, each part of its content and each call: what the engine gets, or where the request goes."""

import base64
from typing import Any

import pytest
from support.chat import USER, WEATHER
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

PATH = "/v1/chat/completions"
Body = dict[str, Any]
PNG = "data:image/png;base64,iVBORw=="
TALE = "data:text/plain;base64," + base64.b64encode(b"Once.").decode()
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."}
NAMES = "the names of participants"
BREAKPOINT = "field prompt_cache_breakpoint of a part has no effect"


def system(content: str) -> Body:
    return {"role": "system", "content": content}


def assistant(content: str, *calls: Body) -> Body:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def sent_call(name: str, arguments: str, id: str = "call_1") -> Body:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(**members: Any) -> Body:
    return {"role": "assistant", **members}


# Messages → what the engine gets for them, and what the client is told.
MESSAGES: dict[str, tuple[list[Body], list[Body], str]] = {
    "system": ([system("Be brief."), USER], [system("Be brief."), USER], ""),
    "developer": ([{"role": "developer", "content": "Be brief."}, USER], [system("Be brief."), USER], ""),
    "user": ([USER], [USER], ""),
    "names": (
        [
            {"role": "developer", "content": "Be brief.", "name": "d"},
            {**system("Be kind."), "name": "s"},
            {**USER, "name": "ada"},
            said(content="Yes?", name="bot"),
            USER,
        ],
        [system("Be brief.\n\nBe kind."), USER, assistant("Yes?"), USER],
        NAMES,
    ),
    "assistant": ([USER, said(content="Yes?"), USER], [USER, assistant("Yes?"), USER], ""),
    "refusal": ([USER, said(content=None, refusal="No."), USER], [USER, assistant("No."), USER], ""),
    "thought": (
        [USER, said(content="Yes?", reasoning_content="Hm."), USER],
        [USER, assistant("<think>\nHm.\n</think>\n\nYes?"), USER],
        "",
    ),
    "other thought": (
        [USER, said(content="Yes?", reasoning="Hm."), USER],
        [USER, assistant("<think>\nHm.\n</think>\n\nYes?"), USER],
        "",
    ),
    "call": (
        [USER, said(content=None, tool_calls=[CALL]), RESULT],
        [USER, assistant("", sent_call("get_weather", '{"city": "Rome"}')), RESULT],
        "",
    ),
    "custom call": (
        [USER, said(content=None, tool_calls=[CUSTOM]), {**RESULT, "tool_call_id": "call_2"}],
        [USER, assistant("", sent_call("run", '{"input":"ls"}', "call_2")), {**RESULT, "tool_call_id": "call_2"}],
        "",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_message_reaches_the_engine(gateway: GatewayUnderTest, engine: MockEngine, name: str) -> None:
    messages, expected, notice = MESSAGES[name]
    status, completion = await gateway.post({"messages": messages, "tools": [WEATHER]}, path=PATH)
    assert status == 200, completion
    assert engine.last["messages"] == expected
    assert notice in gateway.notice


# What cannot be said in the hub's format.
PASSED: dict[str, Body] = {
    "audio": said(audio={"id": "audio_1"}),
    "function call": said(content=None, function_call={"name": "f", "arguments": "{}"}),
    "function": {"role": "function", "name": "f", "content": "1"},
}


@pytest.mark.parametrize("name", PASSED)
async def test_a_message_sends_the_whole_request_to_the_engine(
    gateway: GatewayUnderTest, engine: MockEngine, name: str
) -> None:
    engine.objects_to = lambda body: None
    body = {"model": "mock", "messages": [USER, PASSED[name], USER], "tools": [WEATHER]}
    status, _ = await gateway.post(body, path=PATH)
    assert (status, gateway.headers["antiphon-way"], engine.last) == (200, "pass", body)
    assert "messages" in gateway.notice


# A part of a message → what the engine gets as its content, and what the client is told.
PARTS: dict[str, tuple[Body, Any, str]] = {
    "text": ({"type": "text", "text": "Hi"}, "Hi", ""),
    "image": (
        {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
        [{"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}],
        "",
    ),
    "audio": (
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}],
        "",
    ),
    "file": (
        {"type": "file", "file": {"file_data": TALE, "filename": "tale.txt"}},
        '<file name="tale.txt">\nOnce.\n</file>',
        "",
    ),
    "breakpoint": ({"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}, "Hi", BREAKPOINT),
}


@pytest.mark.parametrize("name", PARTS)
async def test_a_part_reaches_the_engine(gateway: GatewayUnderTest, engine: MockEngine, name: str) -> None:
    part, expected, notice = PARTS[name]
    status, completion = await gateway.post({"messages": [{"role": "user", "content": [part]}], "tools": [WEATHER]}, path=PATH)
    assert status == 200, completion
    assert engine.last["messages"] == [{"role": "user", "content": expected}]
    assert notice in gateway.notice


async def test_a_refusal_among_parts_reaches_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    spoken = said(content=[{"type": "text", "text": "Hm."}, {"type": "refusal", "refusal": "No."}])
    await gateway.post({"messages": [USER, spoken, USER], "tools": [WEATHER]}, path=PATH)
    assert engine.last["messages"] == [USER, assistant("Hm.\nNo."), USER]


async def test_a_part_of_an_uploaded_file_reaches_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    form = {"purpose": "user_data", "file": b"Once."}
    async with gateway.client.post(f"{gateway.url}/v1/files", data=form) as uploaded:
        file = await uploaded.json()
    part = {"type": "file", "file": {"file_id": file["id"]}}
    status, completion = await gateway.post({"messages": [{"role": "user", "content": [part]}], "tools": [WEATHER]}, path=PATH)
    assert status == 200, completion
    assert "Once." in engine.last["messages"][0]["content"]
