"""The command line as a person uses it."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support import chat, completions, messages
from support.background import held_back
from support.commands import ANTIPHON, bare_environment, served, shown_by
from support.engine import MockEngine, Refusal
from support.streams import check_stream, parse

from antiphon.app import running_gateways
from antiphon.app.start_up import refuse_to_be_open
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from bench.processes import free_port

RECORDED = Path(__file__).parents[1] / "golden"


async def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=bare_environment(**environment),
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_without_a_command_it_serves_and_prints_its_url(engine: MockEngine) -> None:
    port = free_port()
    async with served("--port", str(port), ANTIPHON_UPSTREAM=engine.url) as (process, line):
        assert line == f"Antiphon is ready at http://127.0.0.1:{port}/v1\n"
        assert process.stdout is not None
        described = f"  plain at {engine.url}: mock (tools, choices prompted, JSON checked here)\n"
        assert (await process.stdout.readline()).decode() == described
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi", "stream": True}) as answer,
        ):
            assert check_stream(parse(await answer.read()))["status"] == "completed"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("settings", "models"),
    [
        ({}, "any model that a request names (the engine lists none)"),
        (
            {"ANTIPHON_DEFAULT_MODEL": "big"},
            "big (tools, choices prompted, JSON checked here), any model that a request names (the engine lists none)",
        ),
    ],
)
async def test_an_engine_without_a_list_of_models_is_announced(
    engine: MockEngine, settings: dict[str, str], models: str
) -> None:
    engine.list_answer = Refusal(500, {"error": "no hub cache"})
    async with served("--port", "0", ANTIPHON_UPSTREAM=engine.url, **settings) as (process, line):
        assert "Antiphon is ready" in line
        assert process.stdout is not None
        assert (await process.stdout.readline()).decode() == f"  plain at {engine.url}: {models}\n"


@pytest.mark.parametrize(("flag", "helped"), [("auto", "; helped, because the model has 1.5 billion parameters"), ("off", "")])
async def test_the_help_for_a_small_model_is_announced_and_set_by_a_flag(engine: MockEngine, flag: str, helped: str) -> None:
    engine.lists("Qwen2.5-Coder-1.5B")
    async with served("--port", "0", "--model-help", flag, ANTIPHON_UPSTREAM=engine.url) as (process, _):
        assert process.stdout is not None
        described = f"  plain at {engine.url}: Qwen2.5-Coder-1.5B (tools, choices prompted, JSON checked here{helped})\n"
        assert (await process.stdout.readline()).decode() == described


async def test_it_listens_before_its_engine_is_ready() -> None:
    port, engine_port = free_port(), free_port()
    engine = MockEngine()
    url = f"http://127.0.0.1:{port}"
    arguments = ["serve", "--port", str(port), "--upstream", f"http://127.0.0.1:{engine_port}"]
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=bare_environment()
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as client:
            logged = b""
            while b"listening" not in logged or b"waiting for engine" not in logged:
                line = await process.stderr.readline()
                assert line, logged.decode()
                logged += line
            async with client.post(f"{url}/v1/responses", json={"input": "Hi"}) as answer:
                assert answer.status == 503
                assert int(answer.headers["Retry-After"]) >= 1
            await engine.start(engine_port)
            assert b"ready at" in await process.stdout.readline()
            async with client.post(f"{url}/v1/responses", json={"input": "Hi"}) as answer:
                assert answer.status == 200
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        await engine.stop()


# How a stream is asked for, what its deltas have, and the text that it adds up to.
STREAMED: dict[str, tuple[dict[str, Any], bytes, Callable[[bytes], str]]] = {
    "responses": (
        {"input": "Hi"},
        b"output_text.delta",
        lambda raw: check_stream(parse(raw))["output"][0]["content"][0]["text"],
    ),
    "messages": (
        {"messages": [chat.USER], "max_tokens": 9},
        b"text_delta",
        lambda raw: messages.fold(messages.parse(raw))["content"][0]["text"],
    ),
    "chat/completions": (
        {"messages": [chat.USER], "tools": [chat.WEATHER]},
        b'{"content":',
        lambda raw: completions.joined(completions.chunks_of(raw))["content"],
    ),
}


@pytest.mark.parametrize("path", STREAMED)
async def test_a_signal_lets_a_running_stream_finish(engine: MockEngine, path: str) -> None:
    body, delta, text_of = STREAMED[path]
    script, go_on = held_back("one", " two")
    engine.will(script)
    port = free_port()
    async with (
        served("serve", "--port", str(port), "--upstream", engine.url) as (process, _),
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{port}/v1/{path}", json={"model": "m", **body, "stream": True}) as answer,
    ):
        raw = await answer.content.readuntil(delta)
        process.send_signal(signal.SIGTERM)
        while await listens(port):
            pass
        go_on.set()
        raw += await answer.content.read()
        assert text_of(raw) == "one two"
        assert await process.wait() == 0


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_a_gateway_is_found_by_other_commands_while_it_accepts_requests(engine: MockEngine, tmp_path: Path) -> None:
    port = free_port()
    environment = {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_DATA_DIR": str(tmp_path)}
    async with served("--host", "0.0.0.0", "--port", str(port), "--insecure-no-auth", **environment) as (process, _):
        (found,) = running_gateways.find(tmp_path / running_gateways.FOLDER)
        assert (found.url, found.pid) == (f"http://127.0.0.1:{port}", process.pid)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert not list((tmp_path / running_gateways.FOLDER).iterdir())


async def test_replay_shows_the_events_of_a_recording() -> None:
    name = "vllm_chat_reasoning_stream.sse"
    code, out, _ = await shown_by("replay", str(RECORDED / "streams" / name), "--dialect", "vllm", env=bare_environment())
    assert code == 0
    assert out.encode() == (RECORDED / "events" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--dialect", "klingon"], "unknown dialect"),
        (["serve", "--config", "/nowhere.toml"], "cannot read"),
        (["serve", "--port", "99999"], "port must be a whole number from 0 to 65535, not 99999 (--port)"),
        (["serve", "--model-help", "some"], "help must be one of: auto, full, off, not 'some' (--model-help)"),
        (["serve", "--upstream", "htp://x"], "upstream must be http://HOST:PORT or https://HOST, with or without /v1"),
        (["doctor", "--upstream", "localhost:1234"], "Did you mean http://localhost:1234?"),
        (["serve", "--model-name", "gpt-5="], "'gpt-5=' must be NAME or NAME=VALUE"),
        (["serve", "--host", "0.0.0.0"], "other machines can reach 0.0.0.0, and no key is set"),
        (["replay", "/nowhere.sse"], "does not exist"),
        (["frobnicate"], "No such command"),
    ],
)
async def test_an_error_says_what_is_wrong(arguments: list[str], message: str) -> None:
    code, _, err = await shown_by(*arguments, env=bare_environment())
    assert code == 2
    assert message in " ".join(err.split())


async def test_an_unknown_name_of_the_environment_is_reported_and_changes_nothing() -> None:
    _, out, err = await shown_by("models", "--json", env=bare_environment(ANTIPHON_PROT="1"))
    assert err == "antiphon: ANTIPHON_PROT is not a setting, and has no effect. Did you mean ANTIPHON_PORT?\n"
    assert json.loads(out)["models"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.7", "box.lan", "localhost.evil.com"])
def test_without_a_key_only_this_machine_is_let_in(host: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--api-key KEY.*--insecure-no-auth"):
        refuse_to_be_open(Settings(host=host, store=f"sqlite:{tmp_path / 'responses.db'}"))
    refuse_to_be_open(Settings(host=host, api_key=("k",)))
    refuse_to_be_open(Settings(host=host, insecure_no_auth=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_this_machine_needs_no_key(host: str) -> None:
    settings = Settings(host=host)
    assert refuse_to_be_open(settings) is settings


@pytest.mark.parametrize("allowed", [("--insecure-no-auth",), ("--api-key", "k")])
async def test_it_listens_beyond_this_machine_if_it_may(engine: MockEngine, allowed: tuple[str, ...]) -> None:
    port = free_port()
    address = ("--host", "0.0.0.0", "--port", str(port))
    async with served("serve", *address, *allowed, "--upstream", engine.url) as (_, line):
        assert line == f"Antiphon is ready at http://0.0.0.0:{port}/v1\n"


async def test_a_port_in_use_is_an_error(engine: MockEngine) -> None:
    port = engine.url.rpartition(":")[2]
    code, _, err = await run("serve", "--upstream", engine.url, "--port", port)
    assert code == 2
    assert f"port {port} of 127.0.0.1 is taken by " in err


async def test_version_and_help() -> None:
    assert (await run("--version"))[1].startswith("antiphon ")
    assert "replay" in (await run("--help"))[1]
