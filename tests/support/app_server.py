"""`codex app-server`: JSON-RPC over stdin and stdout, with a person who answers what Codex asks for."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from support.codex import TIME, Codex

Message = dict[str, Any]


class AppServer:
    """One thread of Codex. Calls that it asks about get their decision by their id; `asked` has the ids in that order."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.decisions: dict[str, str] = {}
        self.asked: list[str] = []
        self._process = process
        self._ids = iter(range(1, 1000))
        self._thread = ""

    async def start(self, **settings: Any) -> None:
        await self._call("initialize", clientInfo={"name": "tests", "version": "1"})
        await self._send({"method": "initialized"})
        self._thread = (await self._call("thread/start", **settings))["thread"]["id"]

    async def turn(self, text: str) -> tuple[str, list[str]]:
        """Says something to it. Returns how the turn ended, and the messages of the agent."""
        await self._call("turn/start", threadId=self._thread, input=[{"type": "text", "text": text}])
        said = []
        async for message in self._messages():
            match message.get("method"):
                case "item/completed" if message["params"]["item"]["type"] == "agentMessage":
                    said.append(message["params"]["item"]["text"])
                case "turn/completed":
                    return message["params"]["turn"]["status"], said
        raise AssertionError("Codex ended in the middle of a turn")

    async def _call(self, method: str, **params: Any) -> Message:
        id = next(self._ids)
        await self._send({"id": id, "method": method, "params": params})
        async for message in self._messages():
            if message.get("id") == id and "method" not in message:
                assert "result" in message, message
                result: Message = message["result"]
                return result
        raise AssertionError(f"Codex ended before it answered {method}")

    async def _messages(self) -> AsyncIterator[Message]:
        """All that it sends; its own requests have been answered."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message: Message = msgspec.json.decode(line)
            if "id" in message and "method" in message:
                call = message["params"]["itemId"]
                self.asked.append(call)
                await self._send({"id": message["id"], "result": {"decision": self.decisions[call]}})
            yield message

    async def _send(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        await self._process.stdin.drain()


@asynccontextmanager
async def app_server(codex: Codex, **settings: Any) -> AsyncIterator[AppServer]:
    codex.write_configuration()
    log = codex.home / "log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            str(codex.binary),
            "app-server",
            cwd=codex.repository,
            env=codex.environment(),
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            limit=1024 * 1024,  # the longest line that may come
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(TIME):
            server = AppServer(process)
            await server.start(cwd=str(codex.repository), **settings)
            yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
