"""`antiphon mcp`: servers and their tools, a call to try one, and what is wrong."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support import bad_mcp_server
from support.bad_mcp_server import BadMcpServer
from support.commands import bare_environment, shown_by

from antiphon.installation import how_to_install
from antiphon.tools.mcp import session


async def mcp(tmp_path: Path, servers: dict[str, dict[str, Any]], *arguments: str, **more: str) -> tuple[int, str, str]:
    """`servers`: as in the file."""
    lines = ["[mcp]", "connect_timeout = 20"]
    for name, server in servers.items():
        lines += [f"[mcp.servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in server.items())]
    file = tmp_path / "antiphon.toml"
    file.write_text("\n".join(lines))
    return await shown_by("mcp", *arguments, "--config", str(file), env=bare_environment(**more))


def program(mode: str = "") -> dict[str, Any]:
    return {"command": sys.executable, "args": [bad_mcp_server.__file__, mode]}


async def test_servers_and_their_tools_are_listed(tmp_path: Path) -> None:
    async with BadMcpServer("changing") as server:
        url = f"{server.url}/mcp?token=a-long-secret"
        local = {**program(), "always": True, "models": ["qwen3"], "allowed_tools": ["echo", "missing"]}
        servers = {"local": local, "remote": {"url": url, "keys": ["ada"]}}
        code, out, err = await mcp(tmp_path, servers, ANTIPHON_KEYS="ada=a-key")
    assert (code, err) == (0, "")
    assert f"local: the program {sys.executable}, in every request for qwen3\n  echo  Does echo.\n" in out
    assert "  The tool huge is not in allowed_tools.\n" in out
    assert "  There is no tool missing, as in allowed_tools.\n" in out
    assert f"remote: {server.url}/mcp, only for ada\n  tool_1\n" in out
    assert "a-long-secret" not in out


async def test_a_call_is_tried(tmp_path: Path) -> None:
    servers = {"local": program()}
    assert await mcp(tmp_path, servers, "local", "echo", '{"a": 1}') == (0, '{"a": 1}\n', "")
    code, out, err = await mcp(tmp_path, servers, "local", "tool_error")
    assert (code, out, err) == (1, "The disk is full.\n", "")
    code, out, err = await mcp(tmp_path, servers, "local", "rpc_error")
    assert (code, out, err) == (1, "", "local: No such luck.\n")
    code, out, err = await mcp(tmp_path, servers, "local", "die")
    assert (code, out) == (1, "")
    assert err == "local: The server has ended, with exit code 7.\n  Its last words:\n    Out of luck.\n"


async def test_a_url_needs_no_settings(tmp_path: Path) -> None:
    async with BadMcpServer() as server:
        assert await mcp(tmp_path, {}, server.url + "/mcp", "echo", "{}") == (0, "{}\n", "")


async def test_a_program_can_read_the_answers(tmp_path: Path) -> None:
    code, out, _ = await mcp(tmp_path, {"local": program(), "broken": {"command": "no-such-command"}}, "--json")
    found = {server["name"]: server for server in json.loads(out)["servers"]}
    assert code == 1
    assert found["local"]["tools"][0] == {
        "name": "echo",
        "input_schema": {"type": "object"},
        "description": "Does echo.",
        "annotations": {"readOnlyHint": True, "read_only": True},
    }
    assert found["local"]["protocol"] == "2025-06-18"
    assert found["broken"]["error"]["message"] == "The command no-such-command was not found."


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"command": "no-such-command"}, "bad: The command no-such-command was not found.\n"),
        (
            program("exits"),
            "bad: The server has ended, with exit code 3.\n  Its last words:\n    Cannot open the database.\n    Giving up.\n",
        ),
        ({"url": "http://127.0.0.1:9/mcp"}, "bad: The server cannot be reached: "),
    ],
)
async def test_what_is_wrong_with_a_server_is_said(tmp_path: Path, server: dict[str, Any], words: str) -> None:
    code, out, err = await mcp(tmp_path, {"bad": server})
    assert (code, err) == (1, "")
    assert out.startswith(words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/status/401", "HTTP status 401 (Unauthorized).\n  It needs credentials: headers ="),
        ("/status/404", "HTTP status 404 (Not Found).\n  Is the path right? Many servers answer at /mcp or /sse.\n"),
        ("/html", "Unexpected content type: text/html"),
    ],
)
async def test_what_is_wrong_with_a_url_is_said(tmp_path: Path, path: str, words: str) -> None:
    async with BadMcpServer() as server:
        code, out, err = await mcp(tmp_path, {"bad": {"url": server.url + path}})
    assert (code, err) == (1, "")
    assert words in out


async def test_what_cannot_be_asked_for_is_said(tmp_path: Path) -> None:
    assert await mcp(tmp_path, {"local": program()}, "other") == (
        2,
        "",
        "antiphon: there is no MCP server other. There are: local.\n",
    )
    code, _, err = await mcp(tmp_path, {"local": program()}, "local", "echo", "[1]")
    assert (code, err.startswith("antiphon: the arguments must be a JSON object")) == (2, True)
    code, _, err = await mcp(tmp_path, {"local": program()}, "local", "echo", "{")
    assert (code, err.startswith("antiphon: the arguments are not JSON")) == (2, True)
    code, _, err = await mcp(tmp_path, {"local": {**program(), "comand": "x"}})
    assert (code, "unknown setting mcp.servers.local.comand" in err) == (2, True)


async def test_without_servers_it_says_how_to_add_one(tmp_path: Path) -> None:
    code, out, _ = await mcp(tmp_path, {})
    assert code == 0
    assert out.startswith("No MCP servers are set up. Add one to antiphon.toml")


async def test_without_the_sdk_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    code, _, err = await mcp(tmp_path, {"local": program()})
    assert code == 2
    assert f"needs the extra mcp, which is not installed. {how_to_install('mcp')}" in err
