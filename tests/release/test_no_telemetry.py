"""No telemetry: a gateway that is started and used opens connections to its engines, and to nothing else."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.commands import TESTS, python_path, served
from support.engine import MockEngine, answer, call, text
from support.tiny_model import write_tiny_model

# Addresses of this machine, for which nobody is asked.
HERE = {"127.0.0.1", "localhost", "::1"}
LETTER = {
    "type": "json_schema",
    "name": "letter",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"to": {"type": "string"}},
        "required": ["to"],
        "additionalProperties": False,
    },
}
GRAMMAR = {"type": "custom", "name": "sum", "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "1+1"'}}


def audited(log: Path) -> dict[str, str]:
    path = os.pathsep.join((str(TESTS / "support" / "audited"), python_path()))
    return {"PYTHONPATH": path, "CONNECTIONS_LOG": str(log)}


def noted(log: Path) -> list[tuple[str, Any]]:
    return [(event, address) for event, address in map(json.loads, log.read_text().splitlines())]


async def use(url: str) -> None:
    """Every way to get a response, with checks in their own processes."""
    async with aiohttp.ClientSession(base_url=url) as client:
        for path in ("health", "ready", "metrics", "v1/models"):
            assert (await client.get(path)).status == 200
        for fields in (
            {},
            {"stream": True},
            {"text": {"format": LETTER}},
            {"tools": [GRAMMAR]},
            {"tools": [{"type": "web_search"}]},
            {"background": True},
        ):
            async with client.post("v1/responses", json={"model": "mock", "input": "Hi", **fields}) as response:
                assert response.status == 200, await response.text()
                body = await response.text()
        id = json.loads(body)["id"]
        # It follows the events to the last one.
        async with client.get(f"v1/responses/{id}?stream=true") as followed:
            assert "response.completed" in await followed.text()
        assert (await client.delete(f"v1/responses/{id}")).status == 200
        assert (await client.post("v1/conversations", json={})).status == 200
        async with client.ws_connect("v1/responses") as socket:
            await socket.send_json({"type": "response.create", "model": "mock", "input": "Hi"})
            while (await socket.receive_json())["type"] != "response.completed":
                pass


@pytest.mark.timeout(120)
async def test_a_gateway_connects_only_to_its_engine(engine: MockEngine, tmp_path: Path) -> None:
    log = tmp_path / "connections"
    engine.otherwise = lambda body: (
        text('{"to": "Ada"}') if "response_format" in body
        else answer(call("sum", '{"input": "1+1"}'), finish="tool_calls") if "tools" in body
        else text("Hello")
    )  # fmt: skip
    settings = {"ANTIPHON_STORE": f"sqlite:{tmp_path / 'responses.db'}", "ANTIPHON_DATA_DIR": str(tmp_path)}
    settings |= {"ANTIPHON_PROBE": "true", "ANTIPHON_SEAL_KEY": ""}
    async with served("--port", "0", "--upstream", engine.url, **settings, **audited(log)) as (process, ready):
        await use(ready.split()[-1].removesuffix("v1"))
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    found = noted(log)
    # The gateway, and the processes that check.
    assert sum(event == "process" for event, _ in found) >= 2
    port = int(engine.url.rpartition(":")[2])
    connections = [address for event, address in found if event != "process" and "getaddrinfo" not in event]
    assert connections
    assert [address for address in connections if address != ["127.0.0.1", port]] == []
    assert [address for event, address in found if "getaddrinfo" in event and not _is_here(address)] == []


def _is_here(address: Any) -> bool:
    host = address[0] if isinstance(address, list) else address
    return host in (None, *HERE)


@pytest.mark.timeout(120)
async def test_an_embedded_engine_connects_to_nobody(tmp_path: Path) -> None:
    log = tmp_path / "connections"
    model = write_tiny_model(tmp_path / "tiny.gguf")
    async with served("--port", "0", "--model", str(model), **audited(log)) as (process, ready):
        async with aiohttp.ClientSession() as client:
            body = {"model": "tiny", "input": "Hi", "max_output_tokens": 16}
            async with client.post(f"{ready.split()[-1]}/responses", json=body) as response:
                assert response.status == 200, await response.text()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    found = noted(log)
    # The gateway and the engine.
    assert sum(event == "process" for event, _ in found) >= 2
    hosts = {address[0] for event, address in found if event == "socket.connect"}
    assert hosts == {"127.0.0.1"}
    assert [address for event, address in found if "getaddrinfo" in event and not _is_here(address)] == []


@pytest.mark.timeout(60)
async def test_a_gateway_looks_for_engines_on_this_machine_only(tmp_path: Path) -> None:
    log = tmp_path / "connections"
    code = (
        "import asyncio\n"
        "from antiphon.engines.detection import find_local_engines\n"
        "from antiphon.transport import make_session\n"
        "async def main():\n"
        "    async with make_session('auto') as session:\n"
        "        await find_local_engines(session, {}, own_port=8484)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=os.environ | audited(log))
    assert await process.wait() == 0
    connections = [address for event, address in noted(log) if event == "socket.connect"]
    assert len(connections) >= 3
    assert {address[0] for address in connections} == {"127.0.0.1"}


def test_the_log_has_what_others_would_be_sent(tmp_path: Path) -> None:
    """The test above would notice telemetry: of this process, and of one that it starts."""
    log = tmp_path / "connections"
    connect = "import socket; s = socket.socket(); s.settimeout(0.01); s.connect_ex(('127.0.0.2', 9))"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {connect!r}])"
    subprocess.run([sys.executable, "-c", code], env=os.environ | audited(log), check=True)
    assert noted(log)[-1] == ("socket.connect", ["127.0.0.2", 9])
    assert sum(event == "process" for event, _ in noted(log)) == 2
