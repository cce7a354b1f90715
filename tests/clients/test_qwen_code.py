"""Qwen Code, the coding agent: `qwen` on an engine that writes calls as text. It sends thoughts back as `reasoning_content`."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.client_conversations import THOUGHT, THOUGHT_SENT_BACK, messages, renumbered, written
from support.clients import contents, node_packages, run
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

Qwen = Callable[..., Awaitable[list[dict[str, Any]]]]


@pytest.fixture(scope="session")
def program() -> Path:
    return node_packages() / "node_modules" / ".bin" / "qwen"


@pytest.fixture
def qwen(program: Path, gateway: GatewayUnderTest, tmp_path: Path) -> Qwen:
    """Runs it to its end, and returns the blocks of the messages that it shows."""
    environment = {"OPENAI_BASE_URL": f"{gateway.url}/v1", "OPENAI_API_KEY": "any", "OPENAI_MODEL": "mock"}

    async def qwen(*given: str) -> list[dict[str, Any]]:
        command = [str(program), "--auth-type", "openai", "--yolo", "--output-format", "json", *given]
        done = await run(command, tmp_path, **environment)
        assert done.code == 0, done.errors
        shown = [each for each in json.loads(done.output) if each["type"] in ("assistant", "user")]
        return [block for each in shown for block in each["message"]["content"]]

    return qwen


async def test_files_are_written_by_calls_in_text_and_the_session_is_continued(
    qwen: Qwen, engine: MockEngine, tmp_path: Path
) -> None:
    files = {str(tmp_path / f"{number}.txt"): number for number in ("one", "two")}
    calls = [("write_file", {"file_path": path, "content": content}) for path, content in files.items()]
    engine.will(written(*calls), text("Both are ", "there."), text("Yes."))

    blocks = await qwen("Create the files")
    assert contents(files) == files
    assert [block["type"] for block in blocks] == ["thinking", "tool_use", "tool_use", "tool_result", "tool_result", "text"]
    assert (blocks[0]["thinking"].strip(), blocks[-1]["text"]) == (THOUGHT, "Both are there.")
    asked, called, *results = renumbered(messages(engine.last))[1:]
    assert asked["content"].endswith("Create the files")
    assert called["content"] == THOUGHT_SENT_BACK
    assert [(made["function"]["name"], made["function"]["arguments"]) for made in called["tool_calls"]] == calls
    assert [(each["role"], each["tool_call_id"]) for each in results] == [("tool", "call_1"), ("tool", "call_2")]

    blocks = await qwen("--continue", "Are they there?")
    assert blocks[-1]["text"] == "Yes."
    continued = messages(engine.requests[2])
    assert [each["role"] for each in continued[2:]] == ["assistant", "tool", "tool", "assistant", "user"]
    assert continued[2]["content"] == THOUGHT_SENT_BACK
    assert continued[-1]["content"].endswith("Are they there?")
