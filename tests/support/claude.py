"""The real Claude Code, started by `antiphon claude`, and what a model says to it."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.claude.environment import make_folder
from support.clients import node_packages
from support.codex import TIME, Person, arguments
from support.commands import ANTIPHON
from support.engine import Body, MockEngine, answer, call, chunk

# In bytes, of what it shows.
LONGEST_LINE = 16 * 1024 * 1024
# What Claude Code may do without asking anybody.
ALLOWED = "--allowedTools=Agent,Bash,Edit,Read,Write"


def installed() -> Path:
    """The binary."""
    return node_packages() / "node_modules" / ".bin" / "claude"


class Claude:
    """A person who types `antiphon claude -- -p …` for a gateway that runs."""

    def __init__(self, binary: Path, gateway: str, folder: Path) -> None:
        self.person = Person(folder, binary.parent)
        self.folder = self.person.repository
        self._options = ["--url", gateway]

    def trust_folder(self) -> None:
        """As somebody does in a terminal, once."""
        home = self.person.home / ".local" / "share" / "antiphon" / "claude"
        make_folder(home)
        state = msgspec.json.decode((home / ".claude.json").read_bytes())
        state["projects"] = {str(self.folder.resolve()): {"hasTrustDialogAccepted": True}}
        (home / ".claude.json").write_bytes(msgspec.json.encode(state))

    async def run(self, *given: str, options: Sequence[str] = ()) -> list[Body]:
        """To its end, successful or not. Returns what it shows. `options`: more of Antiphon's."""
        show = ["-p", "--output-format", "stream-json", "--verbose", ALLOWED]
        _, output = await self.person.types("claude", *self._options, *options, "--", *show, *given)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        assert lines, output
        return [msgspec.json.decode(line) for line in lines]

    @asynccontextmanager
    async def conversation(self) -> AsyncIterator[Callable[[str], Awaitable[Body]]]:
        """One process, which is told one thing after another. A call returns the result of the turn."""
        streams = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        process = await asyncio.create_subprocess_exec(
            *ANTIPHON, "claude", *self._options, "--", *streams, ALLOWED,
            cwd=self.folder, env=self.person.environment, stdin=PIPE, stdout=PIPE, stderr=STDOUT, limit=LONGEST_LINE,
        )  # fmt: skip
        given, shown = process.stdin, process.stdout
        assert given is not None
        assert shown is not None

        async def say(words: str) -> Body:
            given.write(msgspec.json.encode({"type": "user", "message": {"role": "user", "content": words}}) + b"\n")
            async with asyncio.timeout(TIME):
                while line := await shown.readline():
                    if line.startswith(b"{") and (event := msgspec.json.decode(line))["type"] == "result":
                        return dict(event)
            raise AssertionError("Claude Code has ended")

        try:
            yield say
            given.close()
            async with asyncio.timeout(TIME):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def says(self, *given: str, options: Sequence[str] = ()) -> str:
        """What it says at last, in a run that goes well."""
        result = (await self.run(*given, options=options))[-1]
        assert not result["is_error"], result
        return str(result["result"])


# ---- what a model says to it -----------------------------------------------------------------------------------------


def use(tool: str, *, id: str = "call_1", index: int = 0, **members: Any) -> bytes:
    return call(tool, arguments(**members), id=id, index=index)


def bash(command: str, *, id: str = "call_1", index: int = 0) -> bytes:
    return use("Bash", id=id, index=index, command=command, description="Does it")


def calls(*chunks: bytes) -> bytes:
    return answer(*chunks, finish="tool_calls")


def with_usage(given: bytes, tokens: int) -> bytes:
    """The answer to a prompt of so many tokens."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
    return given.replace(b"data: [DONE]", chunk(usage=usage) + b"data: [DONE]")


# ---- what an engine got ----------------------------------------------------------------------------------------------


def tool_names(request: Body) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", [])]


def results(engine: MockEngine) -> list[str]:
    """Of the tools, in the last request."""
    return [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]
