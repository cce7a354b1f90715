"""Code that the gateway runs for Anthropic's clients: its files, its container, and a turn that takes too long."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.engine import MockEngine, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest
from support.kernels import ScriptedKernels, interpreting, prints
from support.messages import HI, PATH, VERSION, Body, body, create, fold, refused, stream

from antiphon.errors import ApiError, OutOfTime, ShuttingDown
from antiphon.sandbox.runs import KernelRun

TOOLS = [{"type": "code_execution_20250825", "name": "code_execution"}]
CODE = "plot()"
RUN = answer(call("python", f'{{"code": "{CODE}"}}'), finish="tool_calls")
PNG = b"\x89PNG\r\n\x1a\n"
KERNELS = {CODE: prints("drawn", PNG, table__csv="a,b")}


async def upload(gateway: GatewayUnderTest, content: bytes, name: str) -> str:
    form = aiohttp.FormData()
    form.add_field("file", content, filename=name)
    async with gateway.client.post(f"{gateway.url}/v1/files", data=form, headers=VERSION) as uploaded:
        return str((await uploaded.json())["id"])


@pytest.mark.parametrize("streams", [False, True])
async def test_what_code_has_written_can_be_downloaded(engine: MockEngine, tmp_path: Path, streams: bool) -> None:
    engine.will(RUN, text("There it is."))
    async with interpreting(engine, ScriptedKernels(KERNELS), tmp_path) as gateway:
        message = fold(await stream(gateway, tools=TOOLS)) if streams else await create(gateway, tools=TOOLS)
        used, ran, said = message["content"]
        assert (used["input"], said["text"]) == ({"code": CODE}, "There it is.")
        result = ran["content"]
        assert (result["type"], result["stdout"], result["return_code"]) == ("code_execution_result", "drawn", 0)
        assert {each["type"] for each in result["content"]} == {"code_execution_output"}
        found: dict[str, bytes] = {}
        for output in result["content"]:
            path = f"/v1/files/{output['file_id']}"
            _, file = await gateway.get(path, headers=VERSION)
            assert (file["type"], file["id"], file["downloadable"]) == ("file", output["file_id"], True)
            async with gateway.client.get(f"{gateway.url}{path}/content", headers=VERSION) as downloaded:
                found[file["filename"]] = await downloaded.read()
            assert (file["size_bytes"], downloaded.content_type) == (len(found[file["filename"]]), file["mime_type"])
        assert found == {"table.csv": b"a,b", "image.png": PNG}
        # OpenAI's clients ask their container for it.
        assert (await gateway.get(path))[0] == 404
        assert (await gateway.get(path, method="DELETE", headers=VERSION))[1]["type"] == "file_deleted"
        status, gone = await gateway.get(path, headers=VERSION)
        assert (status, gone["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("streams", [False, True])
async def test_code_that_raises_has_a_return_code(engine: MockEngine, tmp_path: Path, streams: bool) -> None:
    engine.will(RUN, text("It cannot be drawn."))
    raises = ScriptedKernels({CODE: lambda folder: KernelRun("ZeroDivisionError: division by zero", failed=True)})
    async with interpreting(engine, raises, tmp_path) as gateway:
        message = fold(await stream(gateway, tools=TOOLS)) if streams else await create(gateway, tools=TOOLS)
    result = message["content"][1]["content"]
    assert (result["type"], result["return_code"]) == ("code_execution_result", 1)
    assert result["stdout"] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("printed", ["4", "", "ZeroDivisionError: division by zero"])
async def test_what_the_model_saw_of_its_code_is_sent_again_when_the_history_comes_back(
    engine: MockEngine, tmp_path: Path, printed: str
) -> None:
    engine.will(RUN, text("Done."), text("Yes."))
    kernels = ScriptedKernels({CODE: lambda folder: KernelRun(printed, failed="Error" in printed)})
    async with interpreting(engine, kernels, tmp_path) as gateway:
        message = await create(gateway, tools=TOOLS)
        seen = engine.last["messages"]
        history = [*HI, {"role": "assistant", "content": message["content"]}, *HI]
        await create(gateway, history, tools=TOOLS)
    # The engine has them in its cache.
    assert engine.last["messages"][: len(seen)] == seen


@pytest.mark.parametrize("form", ["id", "object"])
async def test_a_later_request_goes_on_in_the_same_container(engine: MockEngine, tmp_path: Path, form: str) -> None:
    engine.will(RUN, text("One."), RUN, text("Two."), RUN, text("Three."))
    kernels = ScriptedKernels(KERNELS)
    async with interpreting(engine, kernels, tmp_path) as gateway:
        first = (await create(gateway, tools=TOOLS))["container"]
        assert datetime.fromisoformat(first["expires_at"]).tzinfo is not None
        given = first["id"] if form == "id" else {"id": first["id"]}
        second = fold(await stream(gateway, tools=TOOLS, container=given))["container"]
        assert (second["id"], kernels.started[0].runs) == (first["id"], [CODE, CODE])
        third = (await create(gateway, tools=TOOLS))["container"]
        assert third["id"] != first["id"], "a request that names none gets a new one"
        assert "`container` names" in await refused(gateway, tools=TOOLS, container="cntr_none")
        await create(gateway, container=first["id"])
        assert gateway.notice == "container has no effect without the tool code_execution"


async def test_a_file_is_put_into_the_container(engine: MockEngine, tmp_path: Path) -> None:
    seen: list[str] = []

    def look(folder: Path) -> Any:
        seen.extend(sorted(path.name for path in folder.iterdir()))
        return prints("seen")(folder)

    engine.will(RUN, text("One."), RUN, text("Two."), text("Three."))
    async with interpreting(engine, ScriptedKernels({CODE: look}), tmp_path) as gateway:
        block = {"type": "container_upload", "file_id": await upload(gateway, b"1,2", "data.csv")}
        asked = [{"role": "user", "content": [{"type": "text", "text": "Sum it."}, block]}]
        message = await create(gateway, asked, tools=TOOLS)
        assert seen == ["data.csv"]
        assert "(A file was put into the folder of the code.)" in engine.last["messages"][0]["content"]
        await create(gateway, asked, tools=TOOLS, container=message["container"]["id"])
        assert seen == ["data.csv"] * 2
        wrong = [{"role": "user", "content": [{**block, "file_id": "file-none"}]}]
        assert "`messages[0].content[0].file_id`" in await refused(gateway, wrong, tools=TOOLS)
        await create(gateway, asked)
        assert gateway.notice == "container_upload has no effect without the tool code_execution"


# ---- a turn that takes too long ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("streams", "error"),
    [(False, OutOfTime("It took too long.")), (True, ShuttingDown())],
    ids=["out of time", "shutting down"],
)
async def test_a_turn_that_must_end_is_paused_and_goes_on(
    engine: MockEngine, tmp_path: Path, streams: bool, error: ApiError
) -> None:
    begun = asyncio.Event()

    async def silent(write: Writer) -> None:
        await write(chunk({"content": "Let me see"}))
        begun.set()
        await asyncio.Event().wait()

    engine.will(RUN, silent)
    async with interpreting(engine, ScriptedKernels(KERNELS), tmp_path) as gateway:
        asking = asyncio.create_task(folded(gateway) if streams else create(gateway, tools=TOOLS))
        await begun.wait()
        (run,) = gateway.gateway.in_flight.runs
        run.abort(error)
        message = await asking
        kinds = [block["type"] for block in message["content"]]
        assert (kinds[:2], message["stop_reason"]) == (["server_tool_use", "code_execution_tool_result"], "pause_turn")
        assert message["usage"]["output_tokens"] >= 5
        engine.will(text(" it: 42."))
        history: list[Body] = [*HI, {"role": "assistant", "content": message["content"]}]
        assert (await create(gateway, history, tools=TOOLS))["content"] == [{"type": "text", "text": " it: 42."}]
        assert [each["role"] for each in engine.last["messages"]][:3] == ["user", "assistant", "tool"]


async def folded(gateway: GatewayUnderTest) -> Body:
    return fold(await stream(gateway, tools=TOOLS))


async def test_a_turn_without_any_result_fails_as_ever(engine: MockEngine, tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def silent(write: Writer) -> None:
        begun.set()
        await asyncio.Event().wait()

    engine.will(silent)
    async with interpreting(engine, ScriptedKernels(KERNELS), tmp_path) as gateway:
        asking = asyncio.create_task(gateway.post(body(tools=TOOLS), PATH, headers=VERSION))
        await begun.wait()
        await gateway.gateway.in_flight.drain(0)
        status, failed = await asking
        assert (status, failed["error"]["type"]) == (529, "overloaded_error")
