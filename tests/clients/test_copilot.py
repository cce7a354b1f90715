"""Copilot CLI, the coding agent, with the gateway as its own provider, over HTTP and over a WebSocket.

It sends its history whole, thoughts sealed. A session that is resumed has none of its thoughts.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.client_conversations import THOUGHT, THOUGHT_SENT_BACK, messages, over_websockets, two_commands
from support.clients import node_packages, run
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

Event = dict[str, Any]
Copilot = Callable[..., Awaitable[list[Event]]]


@pytest.fixture(scope="session")
def program() -> Path:
    return node_packages() / "node_modules" / ".bin" / "copilot"


@pytest.fixture(params=["http", "websockets"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copilot(program: Path, gateway: GatewayUnderTest, tmp_path: Path, transport: str) -> Copilot:
    """Runs it to its end, and returns the events that it shows."""
    environment = {
        "COPILOT_HOME": str(tmp_path / "home"),
        "COPILOT_MODEL": "mock",
        "COPILOT_OFFLINE": "true",  # no login, no telemetry, no updates
        "COPILOT_PROVIDER_API_KEY": "any",
        "COPILOT_PROVIDER_BASE_URL": f"{gateway.url}/v1",
        "COPILOT_PROVIDER_TRANSPORT": transport,
        "COPILOT_PROVIDER_WIRE_API": "responses",
    }

    async def copilot(*given: str) -> list[Event]:
        command = [str(program), "--allow-all-tools", "--output-format", "json", "--reasoning-effort", "low", *given]
        done = await run(command, tmp_path, **environment)
        assert done.code == 0, done.errors
        return [json.loads(line) for line in done.output.splitlines() if line]

    return copilot


def shown(events: list[Event], kind: str) -> list[Event]:
    return [event["data"] for event in events if event["type"] == kind]


async def test_commands_are_run_at_once_and_the_session_is_continued(
    copilot: Copilot, gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path, transport: str
) -> None:
    answers = [two_commands(), text("Both are ", "there."), text("Yes.")]
    engine.will(*(over_websockets(gateway, *answers) if transport == "websockets" else answers))

    events = await copilot("--prompt", "Create the files")
    assert [thought["content"] for thought in shown(events, "assistant.reasoning")] == [THOUGHT]
    assert [message["content"] for message in shown(events, "assistant.message")] == ["", "Both are there."]
    assert [(tmp_path / name).read_text() for name in ("1.txt", "2.txt")] == ["one\n", "two\n"]
    asked, called, *results = messages(engine.last)[1:]
    assert asked["content"].endswith("Create the files")
    assert called["content"] == THOUGHT_SENT_BACK
    assert [made["id"] for made in called["tool_calls"]] == ["call_1", "call_2"]
    assert [(each["role"], each["tool_call_id"], each["content"][:4]) for each in results] == [
        ("tool", "call_1", "one\n"),
        ("tool", "call_2", "two\n"),
    ]

    events = await copilot("--continue", "--prompt", "Are they there?")
    assert [message["content"] for message in shown(events, "assistant.message")] == ["Yes."]
    called, *results_again, said, asked = messages(engine.last)[2:]
    assert called["content"] == ""
    assert results_again == results
    assert said == {"role": "assistant", "content": "Both are there."}
    assert asked["content"].endswith("Are they there?")
    assert len(engine.requests) == 3
