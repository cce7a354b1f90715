"""image_generation without I/O: the images in results, the arguments of a server's tool, and what histories say of images."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversions import converted, messages
from support.image_mcp_server import png

from antiphon.core.hosted.image_generation import ImageGeneration, MadeImage, content_to_image, takes
from antiphon.core.prompt.documents import without_images
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.core.toolbox.request_tools import tools_to_box

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(10) + b"\xff\xc2\x00\x11\x08\x00\x20\x00\x40\x03" + bytes(20)
GIF = b"GIF89a\x05\x00\x04\x00" + bytes(10)
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 "
SVG = b"\n<svg xmlns='http://www.w3.org/2000/svg'/>"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("data", "format", "size"),
    [
        (png(640, 480), "png", "640x480"),
        (JPEG, "jpeg", "64x32"),
        (JPEG[:24], "jpeg", None),
        (GIF, "gif", "5x4"),
        (WEBP, "webp", None),
        (SVG, "svg", None),
        (b"BM something", None, None),
        (png()[:20], "png", None),
    ],
)
def test_an_image_is_what_it_is_and_not_what_the_server_calls_it(data: bytes, format: str | None, size: str | None) -> None:
    block = {"type": "image", "data": encoded(data), "mimeType": "image/png"}
    assert content_to_image([block]) == MadeImage(encoded(data), format, size)


RESOURCE = {"uri": "file:///a", "mimeType": "application/octet-stream"}


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ({"type": "image", "data": f"data:image/png;base64,{encoded(GIF)}", "mimeType": "image/gif"}, GIF),
        ({"type": "image", "data": "\n".join(encoded(GIF)), "mimeType": "image/gif"}, GIF),
        ({"type": "resource", "resource": {**RESOURCE, "blob": encoded(GIF)}}, GIF),
        ({"type": "resource", "resource": {**RESOURCE, "blob": encoded(b"MZ")}}, None),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "GIF89a"}}, None),
        ({"type": "audio", "data": encoded(GIF), "mimeType": "audio/wav"}, None),
        ({"type": "image", "data": "not base64!", "mimeType": "image/gif"}, None),
        ({"type": "image", "data": "", "mimeType": "image/gif"}, None),
        ({"type": "image", "data": 5, "mimeType": "image/gif"}, None),
        ({"type": "text", "text": encoded(GIF)}, None),
        ({}, None),
    ],
)
def test_the_first_image_that_can_be_read_counts(block: dict[str, Any], found: bytes | None) -> None:
    later = {"type": "image", "data": encoded(png()), "mimeType": "image/png"}
    image = content_to_image([block, later])
    assert image is not None
    assert base64.b64decode(image.data) == (png() if found is None else found)


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b""]), st.binary(max_size=60))
def test_no_bytes_break_the_reading_of_sizes(beginning: bytes, rest: bytes) -> None:
    image = content_to_image([{"type": "image", "data": encoded(beginning + rest), "mimeType": "image/png"}])
    assert image is None or base64.b64decode(image.data) == beginning + rest


@pytest.mark.parametrize(
    ("argument", "value", "taken"),
    [
        ({"type": "string"}, "1024x1024", True),
        ({}, "1024x1024", True),
        ({"type": ["string", "null"]}, "1024x1024", True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "1024x1024", True),
        ({"enum": ["512x512"]}, "1024x1024", False),
        ({"enum": ["512x512"]}, "512x512", True),
        ({"type": "integer"}, "1024x1024", False),
        ({"type": "number"}, 50, True),
        ({"type": "string"}, 50, False),
        ({"type": 5, "enum": 5}, 50, True),
        ({"anyOf": [5]}, 50, False),
        ("size", "1024x1024", False),
    ],
)
def test_an_option_goes_where_it_fits(argument: Any, value: Any, taken: bool) -> None:
    assert takes({"properties": {"size": argument}}, "size", value) is taken


@pytest.mark.parametrize("schema", [None, 5, {}, {"properties": None}, {"properties": {"width": {}}}])
def test_a_tool_without_the_argument_does_not_take_it(schema: Any) -> None:
    assert not takes(schema, "size", "1024x1024")


# ---- in a history ----------------------------------------------------------------------------------------------------


def in_history(**members: Any) -> list[dict[str, Any]]:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "revised_prompt": "A cat", **members}
    return messages([{"role": "user", "content": "Hi"}, item])


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"result": encoded(png())}, "The image was made and is shown to the user."),
        ({"status": None}, "The image was made and is shown to the user."),
        ({"status": "failed", "error": {"message": "No paint."}}, "No paint."),
        ({"status": "failed", "error": "No paint."}, "(the call failed)"),
        ({"status": "failed", "error": {"message": None}}, "(the call failed)"),
        ({"status": "generating"}, "(the call failed)"),
    ],
)
def test_in_a_history_it_is_the_call_and_what_came_of_it(members: dict[str, Any], words: str) -> None:
    _, called, made = in_history(**members)
    (call,) = called["tool_calls"]
    assert call["function"] == {"name": "image_generation", "arguments": '{"prompt":"A cat"}'}
    assert made == {"role": "tool", "tool_call_id": call["id"], "content": words}


def test_the_prompt_does_not_depend_on_the_items_id() -> None:
    assert in_history() == in_history(id="ig_2") == in_history(id=None)


@pytest.mark.parametrize("prompt", [None, "", 5])
def test_without_a_prompt_it_is_a_note(prompt: Any) -> None:
    _, note = in_history(revised_prompt=prompt, result=encoded(png()))
    assert note["role"] == "assistant"
    assert note["content"].startswith("[image_generation_call: {")
    assert encoded(png()) not in note["content"]


def test_an_item_that_is_only_an_id_and_not_stored_is_left_out_with_a_notice() -> None:
    bare = {"type": "image_generation_call", "id": "ig_1"}
    conversion = converted([{"role": "user", "content": "Hi"}, bare])
    assert len(conversion.chat.messages) == 1
    assert "input[1]: image_generation_call 'ig_1' is not stored here, and was left out" in conversion.notices


def test_a_recording_does_not_have_the_images_of_items() -> None:
    data = b'[{"type": "image_generation_call", "result": "' + b"QUJD" * 100 + b'", "revised_prompt": "A cat"}]'
    kept = without_images(data)
    assert b"QUJD" not in kept
    assert b"not/kept/400/characters" in kept
    assert kept.endswith(b'", "revised_prompt": "A cat"}]')
    assert without_images(data.replace(b"_call", b"")) == data.replace(b"_call", b"")


# ---- definitions -----------------------------------------------------------------------------------------------------


def test_it_counts_once_and_only_among_the_tools_of_the_request() -> None:
    tool = {"type": "image_generation"}
    definitions = {**DEFINITIONS, "image_generation": ImageGeneration().define}
    box = tools_to_box([tool, {**tool, "model": "other"}], definitions=definitions)
    assert list(box.offered.functions) == ["image_generation"]
    assert box.notices == ["tool image_generation was offered twice: the first definition counts"]
    found = tools_to_box([], [("input[0].tools[0]", tool)], definitions)
    assert not found.offered.functions
    assert found.notices == ["tool image_generation was left out: it counts only in `tools`, not in an input item"]
