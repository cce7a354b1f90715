"""Codex uses an MCP server of the operator that it does not know of."""

import sys
from pathlib import Path

import pytest
from support.codex import Codex, arguments, calls, shell
from support.engine import MockEngine, call, text
from support.gateway import running_gateway

from antiphon.settings.tables import McpServerSettings, McpSettings

pytestmark = pytest.mark.timeout(120, func_only=True)

SERVER = Path(__file__).with_name("notebook_server.py")


async def test_codex_uses_a_server_that_only_the_gateway_knows(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    notebook = McpServerSettings(command=sys.executable, args=(str(SERVER),), cwd=str(tmp_path), always=True)
    engine.will(
        calls(call("notebook__keep", arguments(note="buy milk"), id="a")),
        calls(shell("echo done > done.txt", id="b")),
        text("Noted."),
    )
    async with running_gateway(engine, mcp=McpSettings(servers={"notebook": notebook})) as gateway:
        codex = Codex(binary, gateway.url, tmp_path)
        run = await codex.does("Keep a note: buy milk")
        assert run.last_message == "Noted."
        assert (codex.repository / "done.txt").read_text() == "done\n"
    assert (tmp_path / "note.txt").read_text() == "buy milk"
    # The model saw what came of it, in the same response.
    results = [message["content"] for message in engine.requests[1]["messages"] if message["role"] == "tool"]
    assert len(results) == 1
    assert "notebook__keep" in [tool["function"]["name"] for tool in engine.requests[2]["tools"]]
