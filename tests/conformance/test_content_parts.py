"""Every content part of an input message: what the engine gets of it, or why it is a 400."""

from typing import Any

import pytest
from openai import AsyncOpenAI
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

Part = dict[str, Any]
PIXEL = "data:image/png;base64,iVBORw0KGgo="

# In which role, the part, and the content that the engine gets.
CASES: dict[str, tuple[str, Part, Any]] = {
    "input_text": ("user", {"type": "input_text", "text": "Hi"}, "Hi"),
    "input_image": (
        "user",
        {"type": "input_image", "image_url": PIXEL, "detail": "low"},
        [{"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}],
    ),
    "input_file": (
        "user",
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
        '<file name="a.txt">\nhello\n</file>',
    ),
    "input_audio": (
        "user",
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}],
    ),
    "output_text": ("assistant", {"type": "output_text", "text": "Hello", "annotations": []}, "Hello"),
    "refusal": ("assistant", {"type": "refusal", "refusal": "I cannot."}, "I cannot."),
}


@pytest.mark.parametrize("kind", CASES)
async def test_a_part_reaches_the_engine(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    role, part, content = CASES[kind]
    await gateway.create([{"role": "user", "content": "Hi"}, {"role": role, "content": [part]}])
    assert engine.last["messages"][-1] == {"role": role, "content": content}


# The part, and what the file contains.
UPLOADED: dict[str, tuple[bytes, Any]] = {
    "input_image": (b"\x89PNG\r\n\x1a\n", [{"type": "image_url", "image_url": {"url": PIXEL}}]),
    "input_file": (b"hello", '<file name="a.txt">\nhello\n</file>'),
}


@pytest.mark.parametrize("kind", UPLOADED)
async def test_a_part_in_an_uploaded_file_reaches_the_engine(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    content, expected = UPLOADED[kind]
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="none") as client:
        file = await client.files.create(file=("a.txt", content), purpose="user_data")
    await gateway.create([{"role": "user", "content": [{"type": kind, "file_id": file.id}]}])
    assert engine.last["messages"][-1] == {"role": "user", "content": expected}


@pytest.mark.parametrize("kind", UPLOADED)
async def test_a_part_in_a_file_that_is_not_there_is_a_400(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    part = {"type": kind, "file_id": "file-none"}
    status, body = await gateway.post({"model": "mock", "input": [{"role": "user", "content": [part]}]})
    assert (status, body["error"]["param"]) == (400, "input[0].content[0].file_id")
    assert not engine.requests


async def test_a_part_of_an_unknown_type_is_a_400(gateway: GatewayUnderTest) -> None:
    content = [{"type": "input_smell", "smell": "roses"}]
    status, body = await gateway.post({"model": "mock", "input": [{"role": "user", "content": content}]})
    assert (status, body["error"]["param"]) == (400, "input[0].content[0].type")
