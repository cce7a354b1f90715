"""opencode, the coding agent: `opencode run` with a provider at the gateway. It sends its history whole: over the Responses API
with thoughts sealed, over Chat Completions as `reasoning_content`."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.client_conversations import (
    THOUGHT,
    THOUGHT_SENT_BACK,
    messages,
    renumbered,
    result,
    two_commands,
    user,
    written,
)
from support.clients import contents, node_packages, run
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

Part = dict[str, Any]
Opencode = Callable[..., Awaitable[list[Part]]]

MODEL = {"reasoning": True, "tool_call": True, "limit": {"context": 32768, "output": 4096}}
# Its packages for the two APIs, and the options of a model with each.
RESPONSES = ("@ai-sdk/openai", {"reasoningEffort": "low", "reasoningSummary": "auto"})
CHAT = ("@ai-sdk/openai-compatible", {"reasoningEffort": "low"})
QUIET = {
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


@pytest.fixture(scope="session")
def program() -> Path:
    return node_packages() / "node_modules" / ".bin" / "opencode"


@pytest.fixture
def opencode(program: Path, gateway: GatewayUnderTest, tmp_path: Path) -> Opencode:
    """Runs it to its end, and returns the parts that it shows."""
    connection = {"baseURL": f"{gateway.url}/v1", "apiKey": "any"}
    model = {"model": "gateway/mock", "small_model": "gateway/mock"}
    config = {"autoupdate": False, "share": "disabled", **model}

    async def opencode(*given: str, api: tuple[str, dict[str, str]] = RESPONSES) -> list[Part]:
        npm, options = api
        provider = {"npm": npm, "options": connection, "models": {"mock": {**MODEL, "options": options}}}
        environment = {**QUIET, "OPENCODE_CONFIG_CONTENT": json.dumps({**config, "provider": {"gateway": provider}})}
        done = await run([str(program), "run", "--format", "json", "--thinking", *given], tmp_path, **environment)
        assert done.code == 0, done.errors
        return [json.loads(line)["part"] for line in done.output.splitlines()]

    return opencode


def shown(parts: list[Part], kind: str) -> list[str]:
    return [part["text"] for part in parts if part["type"] == kind]


async def test_commands_are_run_at_once_and_the_session_is_continued(
    opencode: Opencode, engine: MockEngine, tmp_path: Path
) -> None:
    engine.will(two_commands(), text("Both are ", "there."), text("Yes."))

    # With a title of its own, the session needs none of the model.
    parts = await opencode("--title", "Files", "Create the files")
    assert shown(parts, "reasoning") == [THOUGHT]
    outputs = {part["callID"]: part["state"]["output"] for part in parts if part["type"] == "tool"}
    assert outputs == {"call_1": "one\n", "call_2": "two\n"}
    assert shown(parts, "text") == ["Both are there."]
    assert [(tmp_path / name).read_text() for name in ("1.txt", "2.txt")] == ["one\n", "two\n"]
    asked, called, *results = messages(engine.last)[1:]
    assert asked == user('"Create the files"')
    assert called["content"] == THOUGHT_SENT_BACK
    assert [made["id"] for made in called["tool_calls"]] == ["call_1", "call_2"]
    assert results == [result("one\n", id="call_1"), result("two\n", id="call_2")]

    parts = await opencode("--continue", "Are they there?")
    assert shown(parts, "text") == ["Yes."]
    before, last = engine.requests[-2:]
    assert last["messages"][: len(before["messages"])] == before["messages"]
    said, asked = messages(last)[len(before["messages"]) :]
    assert said == {"role": "assistant", "content": "Both are there."}
    assert asked == user('"Are they there?"')
    assert len(engine.requests) == 3


async def test_files_are_written_by_calls_in_text_over_chat_completions(
    opencode: Opencode, engine: MockEngine, tmp_path: Path
) -> None:
    files = {str(tmp_path / f"{number}.txt"): number for number in ("one", "two")}
    calls = [("write", {"filePath": path, "content": content}) for path, content in files.items()]
    engine.will(written(*calls), text("Both are ", "there."))

    parts = await opencode("--title", "Files", "Create the files", api=CHAT)
    assert contents(files) == files
    assert [thought.strip() for thought in shown(parts, "reasoning")] == [THOUGHT]
    assert shown(parts, "text") == ["Both are there."]
    asked, called, *results = renumbered(messages(engine.last))[1:]
    assert asked == user('"Create the files"')
    assert called["content"] == THOUGHT_SENT_BACK
    assert [(made["function"]["name"], made["function"]["arguments"]) for made in called["tool_calls"]] == calls
    assert [(each["role"], each["tool_call_id"]) for each in results] == [("tool", "call_1"), ("tool", "call_2")]
    assert len(engine.requests) == 2
