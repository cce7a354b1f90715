"""The tools that Codex brings along: freeform patches, images, the tools of MCP servers, and sub-agents."""

import base64
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from support.codex import Codex, arguments, asked, calls, shell
from support.engine import Body, MockEngine, Script, call, text

pytestmark = pytest.mark.timeout(120, func_only=True)

SERVER = Path(__file__).with_name("notebook_server.py")

ADD = "*** Begin Patch\n*** Add File: new.txt\n+made by a patch\n*** End Patch\n"
EDIT = "*** Begin Patch\n*** Update File: old.txt\n@@\n one\n-two\n+zwei\n three\n*** End Patch\n"

DOT = base64.b64decode(b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

PART = "Create part.txt"


def patch(input: str, *, id: str) -> bytes:
    return call("apply_patch", arguments(input=input), id=id)


async def test_a_freeform_patch_makes_one_file_and_edits_another(codex: Codex, engine: MockEngine) -> None:
    (codex.repository / "old.txt").write_text("one\ntwo\nthree\n")
    engine.will(calls(patch(ADD, id="call_1")), calls(patch(EDIT, id="call_2")), text("Patched."))
    run = await codex.does("Patch the files")
    assert (codex.repository / "new.txt").read_text() == "made by a patch\n"
    assert (codex.repository / "old.txt").read_text() == "one\nzwei\nthree\n"
    assert run.last_message == "Patched."
    replayed = [made["function"] for message in engine.last["messages"] for made in message.get("tool_calls", [])]
    assert [made["name"] for made in replayed] == ["apply_patch", "apply_patch"]
    assert [msgspec.json.decode(made["arguments"]) for made in replayed] == [{"input": ADD}, {"input": EDIT}]


async def test_the_catalog_of_the_gateway_enables_patches(codex: Codex, engine: MockEngine) -> None:
    del codex.config["model_catalog_json"]
    # Only a provider whose key comes from a command is asked for its models.
    codex.config["model_providers.gateway.auth.command"] = "echo"
    codex.config["model_providers.gateway.auth.args"] = ["key"]
    engine.will(calls(patch(ADD, id="call_1")), text("Patched."))
    await codex.does("Create new.txt")
    assert (codex.repository / "new.txt").read_text() == "made by a patch\n"


async def test_a_patch_works_through_the_shell_too(codex: Codex, engine: MockEngine) -> None:
    engine.will(calls(shell(f"apply_patch <<'EOF'\n{ADD}EOF")), text("Patched."))
    run = await codex.does("Create new.txt")
    assert (codex.repository / "new.txt").read_text() == "made by a patch\n"
    assert run.last_message == "Patched."


async def test_a_viewed_image_is_sent_to_the_engine_after_the_result(codex: Codex, engine: MockEngine) -> None:
    (codex.repository / "dot.png").write_bytes(DOT)
    engine.will(calls(call("view_image", arguments(path=str(codex.repository / "dot.png")))), text("A dot."))
    run = await codex.does("What is in dot.png?")
    assert run.last_message == "A dot."
    made, result, shown = engine.last["messages"][3:]
    assert made["tool_calls"][0]["function"]["name"] == "view_image"
    assert result["role"] == "tool"
    assert shown["role"] == "user"
    (image,) = [part for part in shown["content"] if part["type"] == "image_url"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


async def test_a_tool_of_an_mcp_server_is_called(codex: Codex, engine: MockEngine) -> None:
    codex.config["mcp_servers.notebook.command"] = sys.executable
    codex.config["mcp_servers.notebook.args"] = [str(SERVER)]
    codex.config["mcp_servers.notebook.cwd"] = str(codex.repository)
    engine.will(calls(call("mcp__notebook__keep", arguments(note="buy milk"))), text("Noted."))
    run = await codex.does("Keep a note: buy milk")
    assert (codex.repository / "note.txt").read_text() == "buy milk"
    assert run.last_message == "Noted."
    made, result = engine.last["messages"][3:]
    assert made["tool_calls"][0]["function"]["name"] == "mcp__notebook__keep"
    assert "kept: buy milk" in result["content"]


def team(engine: MockEngine, spawn: bytes, wait: Callable[[str], bytes]) -> Script:
    """A parent that spawns an agent and waits for it, and the agent itself, which is recognized by its task."""

    def reply(body: Body) -> bytes:
        results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if any(message["role"] == "user" and PART in message["content"] for message in body["messages"]):
            return text("My part is done.") if results else calls(shell("echo part > part.txt"))
        if not results:
            return calls(spawn)
        return calls(wait(results[0])) if len(results) == 1 else text("All parts are done.")

    return asked(engine, reply)


async def test_a_sub_agent_does_its_task_while_its_parent_waits(codex: Codex, engine: MockEngine) -> None:
    def wait(spawned: str) -> bytes:
        agent = msgspec.json.decode(spawned)["agent_id"]
        return call("multi_agent_v1__wait_agent", arguments(targets=[agent]), id="call_2")

    spawn = call("multi_agent_v1__spawn_agent", arguments(message=PART))
    engine.will(*[team(engine, spawn, wait)] * 5)
    run = await codex.does("Delegate the work")
    assert (codex.repository / "part.txt").read_text() == "part\n"
    assert run.last_message == "All parts are done."
    results = [message for message in engine.last["messages"] if message["role"] == "tool"]
    assert "My part is done." in results[-1]["content"]
    assert len(engine.requests) == 5


async def test_an_agent_of_a_team_gets_its_task_in_a_message(codex: Codex, engine: MockEngine) -> None:
    codex.config["features.multi_agent_v2"] = True
    spawn = call("collaboration__spawn_agent", arguments(task_name="part", message=PART, fork_turns="none"))
    wait = call("collaboration__wait_agent", arguments(timeout_ms=10000), id="call_2")
    engine.will(*[team(engine, spawn, lambda spawned: wait)] * 5)
    run = await codex.does("Delegate the work")
    assert (codex.repository / "part.txt").read_text() == "part\n"
    assert run.last_message == "All parts are done."
    assert "My part is done." in engine.last["messages"][-1]["content"]
