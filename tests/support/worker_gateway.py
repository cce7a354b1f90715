"""A gateway with several worker processes, and clients whose connection is that of a certain one."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench.processes import free_port
from support.commands import ANTIPHON, NO_SANDBOX, bare_environment, shown_by

# The system chooses the process of a connection: of so many, some reach each of them.
ATTEMPTS = 200


@dataclass
class WorkerGateway:
    process: asyncio.subprocess.Process
    url: str
    folder: Path
    stack: AsyncExitStack

    async def client(self, worker: int | None = None, key: str | None = None) -> aiohttp.ClientSession:
        """Its one connection is kept. `worker`: the one that it reaches."""
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        for _ in range(ATTEMPTS):
            client = aiohttp.ClientSession(self.url, connector=aiohttp.TCPConnector(limit=1), headers=headers)
            if worker is None or (await described(client))["worker"] == worker:
                return await self.stack.enter_async_context(client)
            await client.close()
        raise AssertionError(f"no connection reached worker {worker}")

    async def both(self, key: str | None = None) -> tuple[aiohttp.ClientSession, aiohttp.ClientSession]:
        await self.ready(key=key)
        return await self.client(0, key), await self.client(1, key)

    async def ready(self, workers: int = 2, *, without: tuple[int, ...] = (), key: str | None = None) -> list[int]:
        """Waits until so many worker processes serve, none of them one of `without`. Their process ids."""
        async with asyncio.timeout(60):
            while True:
                client = await self.client(None, key)
                pids = [each["pid"] for each in (await described(client))["workers"]]
                if len(pids) == workers and not set(pids) & set(without):
                    return pids
                await asyncio.sleep(0.05)

    def write(self, config: str) -> None:
        write_config(self.folder, config)

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    async def logged(self, event: str) -> dict[str, Any]:
        """The next line of the log about this event."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            members: dict[str, Any] = msgspec.json.decode(line)
            if members["event"] == event:
                return members
        raise AssertionError(f"no {event} in the log")

    async def run(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`antiphon ARGUMENTS`, which finds this gateway. `folder`: where it is run."""
        environment = bare_environment(ANTIPHON_DATA_DIR=str(self.folder / "data"))
        return subprocess.CompletedProcess(arguments, *await shown_by(*arguments, env=environment, cwd=folder))


def write_config(folder: Path, config: str) -> None:
    (folder / "antiphon.toml").write_text(f"{config}\n{NO_SANDBOX}", encoding="utf-8")


async def described(client: aiohttp.ClientSession) -> dict[str, Any]:
    async with client.get("/inspector/engines") as answer:
        assert answer.status == 200, await answer.text()
        description: dict[str, Any] = (await answer.json())["gateway"]
        return description


@asynccontextmanager
async def worker_gateway(folder: Path, config: str, *arguments: str, workers: int = 2) -> AsyncIterator[WorkerGateway]:
    port = free_port()
    data = folder / "data"
    env = bare_environment(ANTIPHON_DATA_DIR=str(data))
    del env["ANTIPHON_STORE"]
    write_config(folder, config)
    command = [*ANTIPHON, "--workers", str(workers), "--port", str(port), "--config", str(folder / "antiphon.toml"), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=env, start_new_session=True,
        limit=1024 * 1024,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with AsyncExitStack() as stack:
            assert (await process.stdout.readline()).startswith(b"Antiphon is ready")
            yield WorkerGateway(process, f"http://127.0.0.1:{port}", folder, stack)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(60):
                await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
