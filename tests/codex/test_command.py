"""`antiphon codex`: from an empty home directory, Codex works the first time."""

import asyncio
import sys
import tomllib
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from support.codex import Person, calls, shell, write_codex
from support.commands import ON_8_GB, python_path
from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway
from support.tiny_model import pretend_pulled, write_toy

from bench.processes import free_port

pytestmark = pytest.mark.timeout(120, func_only=True)


async def test_a_gateway_is_started_if_none_runs_and_the_task_is_done(person: Person, engine: MockEngine) -> None:
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": str(free_port())}
    engine.will(calls(shell("echo hi > hello.txt")), text("It is there."))
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    code, output = await person.types("codex", "exec", *options, "Create hello.txt")
    assert code == 0, output
    assert (person.repository / "hello.txt").read_text() == "hi\n"
    assert "It is there." in output
    assert "metadata" not in output
    assert not (person.home / ".codex").exists(), "the user's own configuration is not touched"


async def test_the_gateway_that_is_started_has_the_settings_of_the_file(
    person: Person, engine: MockEngine, tmp_path: Path
) -> None:
    engine.lists("Qwen2.5-Coder-1.5B")
    person.environment["PATH"] = write_codex(tmp_path / "tools", 'echo "$@"')
    file = tmp_path / "mine.toml"
    shown = {}
    for help in ("off", "auto"):
        file.write_text(f'upstream = "{engine.url}"\nport = {free_port()}\nhelp = "{help}"\n')
        code, shown[help] = await person.types("codex", "--config", str(file))
        assert code == 0, shown
    assert "features.multi_agent=false" not in shown["off"]
    assert "features.multi_agent=false" in shown["auto"]


async def test_the_toy_comes_with_a_line_about_a_better_model(person: Person, tmp_path: Path) -> None:
    write_toy(tmp_path / "cache" / "models")
    person.environment |= {
        "ANTIPHON_CACHE_DIR": str(tmp_path / "cache"),
        "ANTIPHON_MODEL": "smollm2",
        "ANTIPHON_MODEL_THREADS": "1",
        "ANTIPHON_PORT": str(free_port()),
        "PATH": write_codex(tmp_path / "tools", "echo Codex ran"),
        "PYTHONPATH": python_path(),
    }
    code, output = await person.types("codex", command=ON_8_GB)
    assert code == 0, output
    *_, said, last = output.splitlines()
    assert said == (
        "smollm2 is a toy. For a model that does real work: antiphon pull qwen2.5-coder-1.5b (1.1 GB), then start again."
    )
    assert last == "Codex ran"


async def test_a_gateway_that_runs_already_comes_without_that_line(person: Person, engine: MockEngine) -> None:
    engine.lists("smollm2")
    async with running_gateway(engine) as gateway:
        person.environment |= {"ANTIPHON_PORT": gateway.url.rpartition(":")[2], "PYTHONPATH": python_path()}
        code, output = await person.types("codex", "exec", "--skip-git-repo-check", "Say hello", command=ON_8_GB)
    assert code == 0, output
    assert "is a toy" not in output


async def test_a_gateway_that_still_runs_the_toy_comes_with_a_line_about_the_pulled_model(
    person: Person, engine: MockEngine, tmp_path: Path
) -> None:
    engine.lists("smollm2")
    pretend_pulled(tmp_path / "cache" / "models", "qwen2.5-coder-1.5b")
    async with running_gateway(engine) as gateway:
        person.environment |= {
            "ANTIPHON_CACHE_DIR": str(tmp_path / "cache"),
            "ANTIPHON_PORT": gateway.url.rpartition(":")[2],
            "PATH": write_codex(tmp_path / "tools", "echo Codex ran"),
            "PYTHONPATH": python_path(),
        }
        code, output = await person.types("codex", command=ON_8_GB)
    assert code == 0, output
    line = "smollm2 is a toy, and qwen2.5-coder-1.5b is pulled. To use that one, stop the gateway, and start it again."
    assert line in output.splitlines()


async def test_a_running_gateway_is_used_with_its_key(person: Person, engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("secret",)) as gateway:
        person.environment |= {"ANTIPHON_PORT": gateway.url.rpartition(":")[2], "ANTIPHON_API_KEY": "secret"}
        code, output = await person.types("codex", "exec", "--skip-git-repo-check", "Say hello")
    assert code == 0, output
    assert "Hello world" in output
    assert "secret" not in "".join(path.read_text() for path in person.home.rglob("config.toml"))


async def test_the_configuration_can_be_shown(person: Person, gateway: GatewayUnderTest) -> None:
    person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
    code, output = await person.types("codex", "--print")
    assert code == 0
    shown = tomllib.loads(output)
    assert shown["model"] == "mock"
    assert shown["model_providers"]["antiphon"]["base_url"] == f"{gateway.url}/v1"


async def test_an_engine_that_lists_no_models_needs_a_name_for_one(person: Person, engine: MockEngine) -> None:
    engine.list_answer = Refusal(500, {"error": "no hub cache"})
    for name, code, shown in [(None, 2, "--default-model NAME"), ("big", 0, 'model = "big"')]:
        async with running_gateway(engine, default_model=name) as gateway:
            person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
            returned, output = await person.types("codex", "--print")
        assert returned == code, output
        assert shown in output


async def test_while_it_waits_it_says_why_the_engine_cannot_be_used(person: Person, engine: MockEngine, tmp_path: Path) -> None:
    engine.list_answer = Refusal(401, {"error": "Unauthorized"})
    person.environment |= {
        "ANTIPHON_UPSTREAM": engine.url,
        "ANTIPHON_PORT": str(free_port()),
        "PATH": write_codex(tmp_path / "tools", 'echo "$@"'),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "antiphon", "codex",
        cwd=person.repository, env=person.environment, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    reason = f"The engine at {engine.url} wants an API key"
    # The first line may come before the gateway has asked the engine.
    while reason not in (line := (await process.stderr.readline()).decode()):
        assert "Waiting for " in line
    engine.list_answer = None
    out, _ = await process.communicate()
    assert 'model="mock"' in out.decode()


async def test_without_codex_the_error_says_how_to_install_it(
    person: Person, gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    person.environment |= {"PATH": str(tmp_path), "ANTIPHON_PORT": gateway.url.rpartition(":")[2]}
    code, output = await person.types("codex")
    assert code == 2
    assert "npm install -g @openai/codex" in output


async def test_a_wrong_setting_is_an_error(person: Person) -> None:
    person.environment["ANTIPHON_CONTEXT_WINDOW"] = "none"
    code, output = await person.types("codex", "exec", "x")
    assert code == 2
    assert "context_window" in output
