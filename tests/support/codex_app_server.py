"""`codex app-server`, which editors talk to: JSON-RPC in lines. The test is the editor, and decides what Codex may do."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from support.codex import TIME, Codex

Message = dict[str, Any]

# What an editor is asked before Codex does something.
APPROVALS = {"item/commandExecution/requestApproval": "command", "item/fileChange/requestApproval": "file change"}
# A line has a whole message, such as a file.
LONGEST_LINE = 16 * 1024 * 1024


class AppServer:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._number = 0
        # What approval was asked for, in order.
        self.asked: list[str] = []

    async def call(self, method: str, **params: Any) -> Message:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        async for message in self._messages():
            if message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                result: Message = message["result"]
                return result
        raise AssertionError(f"the app server ended during {method}")

    async def new_thread(self, codex: Codex, *, approval_policy: str) -> str:
        place = {"cwd": str(codex.repository), "sandbox": "danger-full-access"}
        started = await self.call("thread/start", **place, approvalPolicy=approval_policy)
        id: str = started["thread"]["id"]
        return id

    async def turn(self, thread: str, prompt: str, decisions: dict[str, str]) -> Message:
        """One turn to its end. `decisions`: call id → what is answered when Codex asks about it, in whatever order."""
        left = dict(decisions)
        await self.call("turn/start", threadId=thread, input=[{"type": "text", "text": prompt}])
        async for message in self._messages():
            if (kind := APPROVALS.get(message.get("method", ""))) is not None:
                self.asked.append(kind)
                self._write({"id": message["id"], "result": {"decision": left.pop(message["params"]["itemId"])}})
            elif message.get("method") == "turn/completed":
                assert not left, f"not asked for: {left}"
                completed: Message = message["params"]["turn"]
                return completed
        raise AssertionError("the app server ended during a turn")

    def _write(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def _messages(self) -> AsyncIterator[Message]:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIME):
            async for line in self._process.stdout:
                yield msgspec.json.decode(line)


@asynccontextmanager
async def app_server(codex: Codex) -> AsyncIterator[AppServer]:
    codex.write_configuration()
    process = await asyncio.create_subprocess_exec(
        str(codex.binary),
        "app-server",
        cwd=codex.repository,
        env=codex.environment(),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=LONGEST_LINE,
        start_new_session=True,
    )
    try:
        server = AppServer(process)
        await server.call("initialize", clientInfo={"name": "tests", "version": "1"})
        yield server
    finally:
        codex.end(process)
        await process.wait()
