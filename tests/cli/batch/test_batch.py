"""`antiphon batch`: requests and prompts from a file, interrupted and followed again, cancelled, and what is refused."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import batches
from support.batches import jsonl, line, sdk
from support.commands import ANTIPHON, bare_environment, shown_by
from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest
from support.terminal_commands import in_terminal
from support.ways_in import Doors, until


async def begun(gateway: GatewayUnderTest, *arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *ANTIPHON, "batch", *arguments, "--url", gateway.url, stdout=pipe, stderr=pipe, env=bare_environment()
    )


async def batch(gateway: GatewayUnderTest, *arguments: str) -> tuple[int, str]:
    code, _, err = await shown_by("batch", *arguments, "--url", gateway.url, env=bare_environment())
    return code, err


def results(file: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(each) for each in file.read_bytes().splitlines()]


async def test_prompts_are_answered_in_their_order(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    engine.otherwise = lambda body: (
        Refusal(400, {"error": {"message": "no"}})
        if body["messages"][0]["content"] == "bad"
        else text(f"{body['model']}: {body['messages'][0]['content']}")
    )
    file = tmp_path / "prompts.txt"
    file.write_text("one\n\nzwei ü\nbad\n")
    code, said = await batch(gateway, str(file), "--model", "mock")
    assert code == 1
    assert "2 of 3 requests were answered, 1 failed." in said
    one, two, bad = results(tmp_path / "prompts.out.jsonl")
    assert (one, two) == ({"prompt": "one", "text": "mock: one"}, {"prompt": "zwei ü", "text": "mock: zwei ü"})
    assert bad["error"]["message"].endswith("no")
    assert sorted(os.listdir(tmp_path)) == ["prompts.out.jsonl", "prompts.txt"]


async def test_requests_are_answered_also_if_the_command_is_interrupted(
    gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path
) -> None:
    doors, file, out = Doors(engine), tmp_path / "in.jsonl", tmp_path / "results.jsonl"
    chat = line("chat", {"messages": [{"role": "user", "content": "Hi"}]}, "/v1/chat/completions")
    file.write_bytes(jsonl([line("b"), line("a"), chat, line("c", {"input": "no model"})]))
    process = await begun(gateway, str(file), "-o", str(out), "--model", "mock")
    await until(lambda: doors.waiting == 3)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert b"goes on" in err
    assert not out.exists()
    doors.open(100)
    code, said = await batch(gateway, str(file), "-o", str(out), "--model", "mock")
    assert (code, len(engine.requests)) == (1, 3)
    assert "3 of 4 requests" in said
    assert [each["custom_id"] for each in results(out)] == ["b", "a", "chat", "c"]
    assert {request["model"] for request in engine.requests} == {"mock"}


async def test_a_batch_is_cancelled(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    doors, file = Doors(engine), tmp_path / "in.txt"
    file.write_text("\n".join(map(str, range(6))))
    code, said = await batch(gateway, str(file), "--cancel")
    assert (code, "No batch of" in said) == (2, True)
    process = await begun(gateway, str(file))
    await until(lambda: doors.waiting == 4)
    process.kill()
    await process.wait()
    cancelling = asyncio.create_task(batch(gateway, str(file), "--cancel"))
    async with sdk(gateway) as client:
        await batches.in_state(client, (await client.batches.list()).data[0].id, {"cancelling"})
    doors.open(100)
    code, said = await cancelling
    assert (code, "was cancelled. 4 of 6" in said) == (1, True)
    assert len(results(tmp_path / "in.out.jsonl")) == 6


async def test_a_terminal_shows_a_bar(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    doors, file = Doors(engine), tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    async with in_terminal("batch", str(file), "--url", gateway.url) as (process, terminal):
        doors.open(1)
        await terminal.shows("1/2")
        doors.open(1)
        await terminal.shows("2 of 2 requests were answered")
        assert await terminal.ends(process) == 0


@pytest.mark.parametrize(("content", "says"), [("", "has no lines"), ("\n\n", "has no lines")])
async def test_a_file_without_lines_is_refused(content: str, says: str, gateway: GatewayUnderTest, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text(content)
    code, said = await batch(gateway, str(file))
    assert (code, says in said) == (2, True)
