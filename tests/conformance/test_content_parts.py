"""Every content part of an input message: what the engine gets of it, or why it is a 400."""

from typing import Any

import pytest
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


@pytest.mark.parametrize(
    ("part", "member"),
    [
        ({"type": "input_image", "file_id": "file_1", "detail": "auto"}, "image_url"),
        ({"type": "input_file", "file_id": "file_1"}, "file_data"),
    ],
    ids=["input_image", "input_file"],
)
async def test_a_part_in_a_stored_file_is_a_400(part: Part, member: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    status, body = await gateway.post({"model": "mock", "input": [{"role": "user", "content": [part]}]})
    assert (status, body["error"]["param"]) == (400, f"input[0].content[0].{member}")
    assert not engine.requests


async def test_a_part_of_an_unknown_type_is_a_400(gateway: GatewayUnderTest) -> None:
    content = [{"type": "input_smell", "smell": "roses"}]
    status, body = await gateway.post({"model": "mock", "input": [{"role": "user", "content": content}]})
    assert (status, body["error"]["param"]) == (400, "input[0].content[0].type")
