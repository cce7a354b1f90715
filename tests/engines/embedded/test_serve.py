"""`antiphon serve --model` and `antiphon pull`, as a person uses them."""

import asyncio
import os
import re
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from filelock import FileLock
from openai import AsyncOpenAI
from support.commands import ANTIPHON, MEMORY, ON_8_GB, bare_environment, python_path
from support.engine import MockEngine
from support.streams import check_stream, parse
from support.tiny_model import write_tiny_model, write_toy

from antiphon.cli.serve import NoEngine, choose_engines
from antiphon.engines.embedded.model_choice import Machine
from antiphon.engines.embedded.named_models import BY_NAME
from antiphon.installation import how_to_install
from antiphon.settings.settings import Settings
from antiphon.transport import make_session
from bench.processes import free_port

STEP = 0.02


class Served:
    """A running `antiphon`, in a process group of its own."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode()

    async def logged(self, event: str) -> dict[str, Any]:
        """The next line of the log with this event."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            if line.startswith(b"{") and (members := msgspec.json.decode(line))["event"] == event:
                return dict(members)
        raise AssertionError(f"it exited without logging {event!r}")


def environment(**more: str) -> dict[str, str]:
    return bare_environment(PYTHONPATH=python_path()) | more


@asynccontextmanager
async def served(*arguments: str, command: Sequence[str] = ANTIPHON, **more: str) -> AsyncIterator[Served]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *command, "serve", "--port", str(port), *arguments,
        stdout=PIPE, stderr=PIPE, env=environment(ANTIPHON_MODEL_THREADS="1", **more), start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(90):
            yield Served(process, f"http://127.0.0.1:{port}")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def run(*arguments: str, **more: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(*ANTIPHON, *arguments, stdout=PIPE, stderr=PIPE, env=environment(**more))
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def is_listening(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


async def until_closed(url: str) -> None:
    async with asyncio.timeout(30):
        while is_listening(url):
            await asyncio.sleep(STEP)


async def test_a_model_file_is_enough(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf", context=1024)
    async with served("--model", str(model)) as gateway:
        assert await gateway.line() == f"Antiphon is ready at {gateway.url}/v1\n"
        described = await gateway.line()
        assert described.startswith("  llamacpp ")
        assert ": pebble (1024 tokens; tools, choices constrained, JSON schemas; helped, because the model has " in described
        async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
            assert [known.id async for known in client.models.list() if known.owned_by != "antiphon"] == ["pebble"]
            response = await client.responses.create(model="pebble", input="Hi", max_output_tokens=30)
            assert response.usage is not None
            assert 1 <= response.usage.output_tokens <= 30
            stream = await client.responses.create(model="pebble", input="Hi", max_output_tokens=30, stream=True)
            events = [event async for event in stream]
            text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            last = events[-1]
            assert last.type in ("response.completed", "response.incomplete")
            assert last.response.output_text == text
        gateway.process.send_signal(signal.SIGTERM)
        assert await gateway.process.wait() == 0


async def test_it_listens_while_its_model_is_being_downloaded(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    # As if another process were downloading it.
    with FileLock(tmp_path / "models" / "smollm2.lock"):
        async with (
            served("--model", "smollm2", ANTIPHON_CACHE_DIR=str(tmp_path)) as gateway,
            aiohttp.ClientSession() as client,
        ):
            await gateway.logged("listening")
            async with client.post(f"{gateway.url}/v1/responses", json={"input": "Hi"}) as answer:
                assert answer.status == 503
                assert int(answer.headers["Retry-After"]) >= 1
            gateway.process.send_signal(signal.SIGINT)
            assert await gateway.process.wait() == 0


async def test_the_engine_ends_with_a_gateway_that_is_killed(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    async with served("--model", str(model)) as gateway:
        started = await gateway.logged("engine started")
        assert is_listening(started["url"])
        gateway.process.kill()
        await until_closed(started["url"])


async def test_ctrl_c_lets_a_stream_of_the_embedded_engine_finish(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf", context=131072, ends=False)
    body = {"input": "Hi", "stream": True, "max_output_tokens": 2000}
    async with served("--model", str(model)) as gateway:
        started = await gateway.logged("engine started")
        await gateway.line()
        async with aiohttp.ClientSession() as client, client.post(f"{gateway.url}/v1/responses", json=body) as answer:
            raw = await answer.content.readuntil(b"output_text.delta")
            # As a terminal does: to every process of the group.
            os.killpg(gateway.process.pid, signal.SIGINT)
            raw += await answer.content.read()
        assert check_stream(parse(raw))["usage"]["output_tokens"] == 2000
        assert await gateway.process.wait() == 0
        assert not is_listening(started["url"])


async def test_a_model_that_cannot_be_served_ends_the_gateway_with_the_reason(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    model.write_bytes(model.read_bytes()[:-5000])
    code, _, err = await run("serve", "--port", str(free_port()), "--model", str(model))
    assert code == 2
    assert f"antiphon: the model {model} could not be served: it exited with code 1" in err
    assert "failed to load model" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--model", "nowhere.gguf"], "there is no file nowhere.gguf in "),
        (["serve", "--model", "hf:nothing"], "is written hf:OWNER/NAME/FILE.gguf, not hf:nothing"),
        (["serve", "--model-slots", "0"], "model_slots"),
        (["pull", "nowhere.gguf"], "there is no file nowhere.gguf in "),
    ],
)
async def test_an_error_says_what_is_wrong(arguments: list[str], message: str) -> None:
    code, _, err = await run(*arguments, ANTIPHON_PORT=str(free_port()))
    assert code == 2
    assert message in err


async def test_pull_shows_where_the_model_is(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    assert await run("pull", str(model)) == (0, f"{model}\n", f"`antiphon --model {model}` serves it.\n")


# ---- which engines are served ----------------------------------------------------------------------------------------


async def chosen(*engines: MockEngine, cache_dir: str = "/nowhere", **settings: Any) -> tuple[tuple[str, ...], str | None]:
    """The ports of these engines are the well-known ones. The machine has 8 GB."""
    machine = Machine(Path(cache_dir) / "models", MEMORY)
    ports = {int(engine.url.rpartition(":")[2]): "mock" for engine in engines}
    async with make_session() as session:
        found, embedded = await choose_engines(Settings(cache_dir=cache_dir, **settings), session, ports, machine)
    return found.upstream, embedded.alias if embedded is not None else None


async def test_only_named_engines_are_served_and_a_named_model() -> None:
    assert await chosen(upstream=("http://a",)) == (("http://a",), None)
    assert await chosen(upstream=("http://a",), model="smollm2") == (("http://a",), "smollm2")


async def test_a_named_model_is_served_alone(engine: MockEngine, tmp_path: Path) -> None:
    assert await chosen(engine, model=str(write_tiny_model(tmp_path / "pebble.gguf"))) == ((), "pebble")


async def test_an_engine_that_is_found_is_served(engine: MockEngine) -> None:
    assert await chosen(engine) == ((engine.url,), None)


async def test_without_any_engine_the_embedded_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await chosen() == ((), "smollm2")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NoEngine, match=re.escape(how_to_install("embedded"))):
        await chosen()


async def test_the_embedded_engine_runs_the_best_pulled_model(engine: MockEngine, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / "qwen2.5-coder-1.5b.gguf").open("wb") as file:
        file.truncate(BY_NAME["qwen2.5-coder-1.5b"].size)
    assert await chosen(cache_dir=str(tmp_path)) == ((), "qwen2.5-coder-1.5b")
    assert await chosen(engine, cache_dir=str(tmp_path)) == ((engine.url,), None)
    assert await chosen(cache_dir=str(tmp_path), model="smollm2") == ((), "smollm2")


async def test_the_toy_comes_with_a_line_about_a_better_model(tmp_path: Path) -> None:
    write_toy(tmp_path / "models")
    async with served("--model", "smollm2", command=ON_8_GB, ANTIPHON_CACHE_DIR=str(tmp_path)) as gateway:
        assert (await gateway.line()).startswith("Antiphon is ready at ")
        assert ": smollm2 (" in await gateway.line()
        advice = await gateway.line()
        assert advice.startswith("  smollm2 is a toy. For a model that does real work: ")
        assert " pull qwen" in advice
