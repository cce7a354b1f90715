"""code_interpreter in the real sandbox: state, errors, files in and out."""

import json
from pathlib import Path
from typing import Any

from aiohttp import FormData
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest
from support.kernels import interpreting

TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}
INCLUDE = ["code_interpreter_call.outputs"]
# A picture of one pixel, without any package.
DRAW = """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head, pixel = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0), zlib.compress(bytes([0, 255, 0, 0]))
with open("/mnt/data/red dot.png", "wb") as file:
    file.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b""))
"""


def coded(code: str) -> Any:
    return answer(call("python", json.dumps({"code": code})), finish="tool_calls")


def logs(response: dict[str, Any]) -> list[str]:
    items = [item for item in response["output"] if item["type"] == "code_interpreter_call"]
    return ["".join(each["logs"] for each in item["outputs"] or ()) for item in items]


def names_below(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*")]


async def upload(gateway: GatewayUnderTest, name: str, content: bytes) -> str:
    form = FormData()
    form.add_field("purpose", "user_data")
    form.add_field("file", content, filename=name)
    async with gateway.client.post(gateway.url + "/v1/files", data=form) as answered:
        id: str = (await answered.json())["id"]
    return id


async def test_state_lives_on_between_calls_and_responses_and_errors_are_in_the_logs(
    engine: MockEngine, tmp_path: Path
) -> None:
    engine.will(coded("x = 20\nx + 1"), coded("1 / 0"), text("Oh."), coded("print(x)\nx * 2"), text("Forty."))
    async with interpreting(engine, None, tmp_path) as gateway:
        first = await gateway.create(tools=[TOOL], include=INCLUDE)
        second = await gateway.create(tools=[TOOL], include=INCLUDE, previous_response_id=first["id"])
    assert logs(first)[0].strip() == "21"
    assert "ZeroDivisionError: division by zero" in logs(first)[1]
    assert logs(second)[0].split() == ["20", "40"]
    # Nothing is left of it.
    assert names_below(tmp_path) == ["containers"]


async def test_an_uploaded_table_is_read_and_a_picture_comes_back_as_a_file(engine: MockEngine, tmp_path: Path) -> None:
    total = "import csv\nsum(int(row['price']) for row in csv.DictReader(open('/mnt/data/prices.csv')))"
    engine.will(coded(total), coded(DRAW), text("It is 42. See [the dot](sandbox:/mnt/data/red%20dot.png)."))
    async with interpreting(engine, None, tmp_path) as gateway:
        table = await upload(gateway, "prices.csv", b"name,price\na,40\nb,2\n")
        tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [table]}}
        response = await gateway.create(tools=[tool], include=INCLUDE)
        container = response["output"][0]["container_id"]
        _, files = await gateway.get(f"/v1/containers/{container}/files?order=asc")
        (cited,) = response["output"][-1]["content"][0]["annotations"]
        path = f"/v1/containers/{container}/files/{cited['file_id']}/content"
        async with gateway.client.get(gateway.url + path) as content:
            picture = await content.read()
    assert logs(response)[0].strip() == "42"
    assert [(each["path"], each["source"]) for each in files["data"]] == [
        ("/mnt/data/prices.csv", "user"),
        ("/mnt/data/red dot.png", "assistant"),
    ]
    assert cited["filename"] == "red dot.png"
    assert picture.startswith(b"\x89PNG")
    assert "- red dot.png" in engine.last["messages"][-1]["content"]
    assert "prices.csv" not in engine.last["messages"][-1]["content"]


async def test_a_file_that_a_message_brings_is_in_the_container(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(coded("open('/mnt/data/note.txt').read()"), text("Hello."))
    async with interpreting(engine, None, tmp_path) as gateway:
        note = await upload(gateway, "note.txt", b"Hello from a file.")
        parts = [{"type": "input_text", "text": "Read it."}, {"type": "input_file", "file_id": note}]
        response = await gateway.create([{"role": "user", "content": parts}], tools=[TOOL], include=INCLUDE)
    assert logs(response) == ["'Hello from a file.'\n"]


async def test_links_out_of_a_container_are_not_followed(engine: MockEngine, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody sees this")
    links = f"import os\nos.symlink({str(secret)!r}, '/mnt/data/link.txt')\nos.symlink('/', '/mnt/data/root')"
    code = f"{links}\nos.mkfifo('/mnt/data/pipe')\nopen('/mnt/data/a.txt', 'w').close()"
    engine.will(coded(code), text("See sandbox:/mnt/data/link.txt and sandbox:/mnt/data/a.txt"))
    async with interpreting(engine, None, tmp_path / "cache") as gateway:
        response = await gateway.create(tools=[TOOL])
        container = response["output"][0]["container_id"]
        _, files = await gateway.get(f"/v1/containers/{container}/files")
    assert [each["path"] for each in files["data"]] == ["/mnt/data/a.txt"]
    assert [each["filename"] for each in response["output"][-1]["content"][0]["annotations"]] == ["a.txt"]
    assert secret.read_text() == "nobody sees this"
