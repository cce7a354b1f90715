"""SIGHUP: the settings are read again, while requests are answered."""

import asyncio
import fcntl
import os
import pty
import signal
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from support.commands import ANTIPHON, bare_environment
from support.engine import MockEngine, Writer, chunk, text
from support.gateway import started

from bench.processes import free_port

pytestmark = pytest.mark.timeout(90)


async def logged(process: asyncio.subprocess.Process, event: str) -> dict[str, Any]:
    """The next line of the log about this event."""
    assert process.stderr is not None
    while line := await process.stderr.readline():
        members: dict[str, Any] = msgspec.json.decode(line)
        if members["event"] == event:
            return members
    raise AssertionError(f"no {event} in the log")


class Served:
    def __init__(self, process: asyncio.subprocess.Process, file: Path, url: str, client: aiohttp.ClientSession) -> None:
        self.process = process
        self._file = file
        self.url = url
        self.client = client

    def hang_up(self, config: str) -> None:
        self._file.write_text(config)
        self.process.send_signal(signal.SIGHUP)

    async def reload(self, config: str) -> dict[str, Any]:
        self.hang_up(config)
        return await logged(self.process, "settings reloaded")

    async def ask(self, key: str = "one", **fields: Any) -> tuple[int, dict[str, Any]]:
        options: dict[str, Any] = {"json": {"input": "Hi", **fields}, "headers": {"Authorization": f"Bearer {key}"}}
        async with self.client.post(self.url + "/v1/responses", **options) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def serving(folder: Path, config: str) -> AsyncIterator[Served]:
    file, port = folder / "antiphon.toml", free_port()
    file.write_text(config)
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, "--port", str(port), "--config", str(file), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=bare_environment(), start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with aiohttp.ClientSession() as client:
            await process.stdout.readline()
            yield Served(process, file, f"http://127.0.0.1:{port}", client)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_keys_change_without_a_restart_and_running_requests_go_on(engine: MockEngine, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await go_on.wait()
        await write(text(" two"))

    base = f'upstream = "{engine.url}"\n'
    async with serving(tmp_path, base + 'api_key = "one"') as served:
        first = await served.ask()
        assert first[0] == 200
        engine.will(slow)
        options: dict[str, Any] = {"json": {"input": "Hi", "stream": True}, "headers": {"Authorization": "Bearer one"}}
        async with served.client.post(served.url + "/v1/responses", **options) as stream:
            await stream.content.readuntil(b"output_text.delta")
            # The first key gets a name, and a second one is added.
            changed = await served.reload(base + '[keys]\nada = ["one", "two"]\nbob = "three"')
            assert changed["changed"] == ["api_key", "keys"]
            assert (await served.ask("two", previous_response_id=first[1]["id"]))[0] == 200
            assert (await served.ask("three", previous_response_id=first[1]["id"]))[0] == 400
            # The key of the running request is removed.
            await served.reload(base + '[keys]\nada = "two"')
            assert [(await served.ask(key))[0] for key in ("one", "two", "three")] == [401, 200, 401]
            go_on.set()
            assert b"event: response.completed" in await stream.content.read()
        assert (await served.ask("two", previous_response_id=first[1]["id"]))[0] == 200


async def test_engines_come_and_go_without_a_restart(engine: MockEngine, tmp_path: Path) -> None:
    async with started(MockEngine()) as other, serving(tmp_path, f'upstream = "{engine.url}"') as served:
        other.lists("other")
        assert (await served.ask())[1]["model"] == "mock"
        await served.reload(f'upstream = ["{engine.url}", "{other.url}"]')
        assert (await served.ask(model="other"))[1]["model"] == "other"
        assert (await served.ask(model="mock"))[1]["model"] == "mock"
        await served.reload(f'upstream = "{other.url}"\nupstream_key = "for the engine"')
        assert (await served.ask())[1]["model"] == "other"
        assert other.headers[-1]["Authorization"] == "Bearer for the engine"


async def test_what_needs_a_restart_is_reported_and_the_rest_is_applied(engine: MockEngine, tmp_path: Path) -> None:
    base = f'upstream = "{engine.url}"\n'
    async with serving(tmp_path, base) as served:
        config = base + 'host = "127.0.0.2"\nmax_body_bytes = 9\nlog_level = "warning"\n[keys]\nada = "secret-key"'
        served.hang_up(config)
        line = await logged(served.process, "restart needed")
        assert (line["level"], line["settings"]) == ("warning", ["host", "max_body_bytes"])
        assert (await served.ask("secret-key"))[0] == 200
        assert (await served.ask())[0] == 401
        # Each time, until it is restarted. The log level has changed.
        served.hang_up(config)
        assert served.process.stderr is not None
        line = msgspec.json.decode(await served.process.stderr.readline())
        assert (line["event"], line["settings"]) == ("restart needed", ["host", "max_body_bytes"])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("port = 70000", "port"),
        ('[keys]\nada = "blake2b:secret"', "keys.ada: after blake2b: there must be 32 hexadecimal digits"),
        ('dialect = "klingon"', "unknown dialect 'klingon'"),
        ('chat_template = "/none.jinja"', "chat_template: cannot read /none.jinja"),
        ("[keys", "is not TOML"),
        ("prot = 1", "unknown setting prot"),
    ],
)
async def test_an_invalid_file_changes_nothing(engine: MockEngine, tmp_path: Path, wrong: str, reason: str) -> None:
    base = f'upstream = "{engine.url}"\n'
    async with serving(tmp_path, base + 'api_key = "one"') as served:
        served.hang_up(f'api_key = "two"\n{wrong}')
        line = await logged(served.process, "settings not reloaded")
        assert line["level"] == "error"
        assert reason in line["reason"]
        assert "secret" not in line["reason"]
        assert [(await served.ask(key))[0] for key in ("one", "two")] == [200, 401]
        # And it is not the last word.
        await served.reload(base + 'api_key = "two"')
        assert [(await served.ask(key))[0] for key in ("one", "two")] == [401, 200]


async def test_the_last_key_is_not_removed_while_other_machines_can_reach_it(engine: MockEngine, tmp_path: Path) -> None:
    config = f'upstream = ["{engine.url}"]\nhost = "0.0.0.0"\n'
    async with serving(tmp_path, config + 'api_key = ["one"]\n') as served:
        served.hang_up(config)
        assert "--insecure-no-auth" in (await logged(served.process, "settings not reloaded"))["reason"]
        assert (await served.ask("none"))[0] == 401


@pytest.mark.parametrize("harmless", ['host = "127.0.0.1"', 'host = "0.0.0.0"\ninsecure_no_auth = true'])
async def test_the_last_key_stays_until_the_settings_that_would_allow_its_removal_have_been_applied_by_a_restart(
    engine: MockEngine, tmp_path: Path, harmless: str
) -> None:
    base = f'upstream = ["{engine.url}"]\n'
    async with serving(tmp_path, base + 'host = "0.0.0.0"\napi_key = ["one"]\n') as served:
        # The file alone would be safe. But the gateway listens where it did, and asks for keys as it did.
        served.hang_up(base + harmless)
        assert "--insecure-no-auth" in (await logged(served.process, "settings not reloaded"))["reason"]
        assert [(await served.ask(key))[0] for key in ("none", "one")] == [401, 200]


async def test_an_engine_gets_the_new_credentials_of_its_address(engine: MockEngine, tmp_path: Path) -> None:
    old, new = (engine.url.replace("//", f"//ada:{password}@") for password in ("old", "new"))
    async with serving(tmp_path, f'upstream = "{old}"') as served:
        await served.ask()
        assert engine.headers[-1]["Authorization"] == aiohttp.BasicAuth("ada", "old").encode()
        await served.reload(f'upstream = "{new}"')
        await served.ask()
        assert engine.headers[-1]["Authorization"] == aiohttp.BasicAuth("ada", "new").encode()


def take_terminal() -> None:
    """As a shell starts a command, whatever the tests were started with."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def test_it_stops_when_its_terminal_is_closed(engine: MockEngine) -> None:
    terminal, line = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, "--port", "0", stdin=line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=bare_environment(ANTIPHON_UPSTREAM=engine.url), start_new_session=True,
        preexec_fn=take_terminal,
    )  # fmt: skip
    os.close(line)
    assert process.stdout is not None
    try:
        assert b"ready" in await process.stdout.readline()
        # While its terminal is there, the settings are read again.
        process.send_signal(signal.SIGHUP)
        await logged(process, "settings reloaded")
        os.close(terminal)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
