"""`antiphon claude` with a program that only shows how it was started."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.codex import Person, typed, write_codex
from support.engine import OWN_FIELDS, MockEngine
from support.gateway import GatewayUnderTest, running_gateway, started
from support.terminal import Terminal

from bench.processes import free_port

pytestmark = pytest.mark.timeout(60, func_only=True)

SESSION = "01a1e3ab-d95d-7132-9a21-ba70f05a0394"
# Its variables that decide anything, then its arguments.
SHOW = 'env | grep -E "^(ANTHROPIC|CLAUDE|DISABLE|NO_PROXY)" | sort; echo "arguments: $@"'


@pytest.fixture
def person(tmp_path: Path) -> Person:
    path = write_codex(tmp_path / "tools", SHOW, name="claude")
    person = Person(tmp_path, tmp_path / "tools")
    person.environment["PATH"] = path
    return person


async def test_claude_code_is_led_to_the_gateway_and_nowhere_else(person: Person, gateway: GatewayUnderTest) -> None:
    person.environment |= {
        "ANTHROPIC_API_KEY": "sk-mine",
        "ANTHROPIC_BASE_URL": "https://example.com",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CODE_EFFORT_LEVEL": "low",
    }
    code, output = await person.types("claude", "--url", f"{gateway.url}/v1", "-p", "Say hello")
    assert code == 0, output
    *shown, arguments = output.splitlines()
    variables = dict(line.split("=", 1) for line in shown)
    assert arguments == "arguments: -p Say hello"
    assert variables["ANTHROPIC_BASE_URL"] == gateway.url
    assert variables["ANTHROPIC_AUTH_TOKEN"] == "none"
    models = [name for name in variables if name.endswith("_MODEL")]
    assert {variables[name] for name in models} == {"mock"}
    assert len(models) == 5
    assert variables["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == variables["DISABLE_TELEMETRY"] == "1"
    assert variables["CLAUDE_CODE_EFFORT_LEVEL"] == "low"
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} & variables.keys()
    home = Path(variables["CLAUDE_CONFIG_DIR"])
    assert home == person.home / ".local" / "share" / "antiphon" / "claude"
    assert not [path for path in person.home.iterdir() if path.name.startswith(".claude")], "the user's own is not touched"


@pytest.mark.parametrize(("model", "is_noted"), [("nosuch", True), ("sonnet", False), ("mock", False)])
async def test_a_model_that_the_gateway_does_not_list_is_noted(
    person: Person, gateway: GatewayUnderTest, model: str, is_noted: bool
) -> None:
    code, output = await person.types("claude", "--url", gateway.url, "--model", model, "-p", "Hi")
    assert code == 0, output
    note = f"The gateway at {gateway.url} lists no model `{model}`: another one answers, or none. It lists: mock."
    assert (note in output) is is_noted


async def test_the_exit_code_and_the_key_are_passed_on(person: Person, engine: MockEngine, tmp_path: Path) -> None:
    person.environment["PATH"] = write_codex(tmp_path / "other", 'echo "$ANTHROPIC_AUTH_TOKEN"; exit 7', name="claude")
    async with running_gateway(engine, api_key=("secret",)) as gateway:
        code, output = await person.types("claude", "--url", gateway.url)
        assert code == 2
        assert f"The gateway at {gateway.url} needs a key. Set ANTIPHON_API_KEY to one" in output
        person.environment["ANTIPHON_API_KEY"] = "wrong"
        code, output = await person.types("claude", "--url", gateway.url)
        assert code == 2
        assert f"The gateway at {gateway.url} does not know the key. Set ANTIPHON_API_KEY to one" in output
        person.environment["ANTIPHON_API_KEY"] = "secret"
        assert await person.types("claude", "--url", gateway.url) == (7, "secret\n")


async def test_a_gateway_is_started_if_none_runs(person: Person, engine: MockEngine) -> None:
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": str(free_port())}
    code, output = await person.types("claude")
    assert code == 0, output
    assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{person.environment['ANTIPHON_PORT']}\n" in output


@pytest.mark.parametrize("arguments", [["--version"], ["mcp", "list"]], ids=" ".join)
async def test_claude_code_runs_without_a_gateway_if_it_needs_no_model(
    person: Person, engine: MockEngine, arguments: list[str]
) -> None:
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": str(free_port())}
    code, output = await person.types("claude", *arguments)
    assert code == 0, output
    assert output.endswith(f"arguments: {' '.join(arguments)}\n")
    assert "CLAUDE_CONFIG_DIR=" in output
    assert "ANTHROPIC_BASE_URL=" not in output
    assert not list(person.home.rglob("claude-gateway.log"))


async def test_without_claude_code_the_error_says_how_to_install_it(person: Person, tmp_path: Path) -> None:
    person.environment["PATH"] = str(tmp_path)
    code, output = await person.types("claude")
    assert code == 2
    assert "Claude Code was not found on the PATH. Install it with `npm install -g @anthropic-ai/claude-code`" in output


@pytest.mark.parametrize(
    ("arguments", "id", "is_named"),
    [
        ([], SESSION, True),
        (["--model", "mock"], SESSION, True),
        # A program reads what it says, even in a terminal.
        (["-p", "Say hello"], SESSION, False),
        # The transcript of a sub-agent.
        ([], "agent-a1", False),
    ],
)
async def test_at_its_end_a_session_in_a_terminal_is_named_with_the_command_that_continues_it(
    person: Person, gateway: GatewayUnderTest, tmp_path: Path, arguments: list[str], id: str, is_named: bool
) -> None:
    writes = f'mkdir -p "$CLAUDE_CONFIG_DIR/projects/-garden"; echo "{{}}" > "$CLAUDE_CONFIG_DIR/projects/-garden/{id}.jsonl"'
    person.environment["PATH"] = write_codex(tmp_path / "other", f"{writes}; echo Goodbye", name="claude")
    terminal = Terminal()
    async with typed(person, "--url", gateway.url, *arguments, terminal=terminal, command="claude") as process:
        await terminal.shows(b"Goodbye")
        if is_named:
            await terminal.shows(f"antiphon claude --url {gateway.url} --resume {id}".encode())
        assert await process.wait() == 0
    assert (b"--resume" in terminal.shown) is is_named
    terminal.close()


# ---- models and windows ----------------------------------------------------------------------------------------------


async def test_the_model_that_is_named_decides(person: Person, engine: MockEngine) -> None:
    engine.lists("big", "Qwen2.5-Coder-1.5B")
    async with running_gateway(engine) as gateway:
        code, output = await person.types("claude", "--url", gateway.url)
        assert code == 0, output
        assert "ANTHROPIC_MODEL=big\n" in output
        code, output = await person.types("claude", "--url", gateway.url, "--model", "Qwen2.5-Coder-1.5B")
    assert code == 0, output
    assert "ANTHROPIC_MODEL=Qwen2.5-Coder-1.5B\n" in output
    assert "four tools and short instructions, because the model has 1.5 billion parameters" in output
    assert "arguments: --tools=Bash,Edit,Read,Write --system-prompt=" in output


@pytest.mark.parametrize(
    ("window", "arguments", "code", "said"),
    [
        (16_384, [], 0, "because the context window has 16384 tokens. `antiphon claude --full` leaves it as it is."),
        (16_384, ["--full"], 2, "Without --full, Claude Code needs 8192 tokens."),
        (16_384, ["--full", "--anyway"], 0, "arguments: \n"),
        (4_096, [], 2, "The context window of tiny has 4096 tokens. Claude Code needs at least 8192"),
        (4_096, ["--anyway"], 0, "arguments: --tools="),
        (65_536, [], 0, "arguments: \n"),
    ],
)
async def test_a_small_window_makes_it_lean_and_one_without_room_is_refused(
    person: Person, window: int, arguments: list[str], code: int, said: str
) -> None:
    engine = MockEngine(owned_by="vllm", own_fields=OWN_FIELDS["vllm"])
    engine._models["data"][0] |= {"id": "tiny", "max_model_len": window}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(started(engine))
        gateway = await stack.enter_async_context(running_gateway(engine))
        ended, output = await person.types("claude", "--url", gateway.url, *arguments)
    assert ended == code, output
    assert said in output
    assert ("--max-model-len N" in output) is (code == 2)


@pytest.mark.parametrize(
    ("version", "arguments", "is_told"),
    [
        ("2.1.197 (Claude Code)", (), True),
        ("2.1.197 (Claude Code)", ("--system-prompt", "Mine."), False),
        ("2.1.327 (Claude Code)", (), False),
        ("none", (), False),
    ],
)
async def test_a_lean_claude_code_that_does_not_tell_the_model_its_folder_is_given_it(
    person: Person, tmp_path: Path, version: str, arguments: tuple[str, ...], is_told: bool
) -> None:
    person.environment["PATH"] = write_codex(
        tmp_path / "other", f'[ "$1" = --version ] && echo "{version}" || echo "arguments: $@"', name="claude"
    )
    engine = MockEngine(owned_by="vllm", own_fields=OWN_FIELDS["vllm"])
    engine._models["data"][0] |= {"id": "tiny", "max_model_len": 16_384}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(started(engine))
        gateway = await stack.enter_async_context(running_gateway(engine))
        code, output = await person.types("claude", "--url", gateway.url, "-p", "Hi", *arguments)
        _, printed = await person.types("claude", "--print", "--url", gateway.url, "-p", "Hi", *arguments)
    assert code == 0, output
    assert "--tools=Bash,Edit,Read,Write" in output
    assert (f"--append-system-prompt=The user's folder is {person.repository}" in output) is is_told
    # What is printed has it, too.
    assert ("--append-system-prompt=The user'\"'\"'s folder is" in printed) is is_told


# ---- --print ---------------------------------------------------------------------------------------------------------


async def test_what_is_printed_does_the_same_in_a_shell(person: Person, gateway: GatewayUnderTest, tmp_path: Path) -> None:
    person.environment["ANTHROPIC_API_KEY"] = "sk-mine"
    arguments = ["--url", gateway.url, "-p", "Say 'hello'"]
    _, ran = await person.types("claude", *arguments)
    code, printed = await person.types("claude", "--print", *arguments)
    assert code == 0, printed
    assert "unset ANTHROPIC_API_KEY\n" in printed
    script = tmp_path / "printed.sh"
    script.write_text(printed)
    _, output = await person.types(str(script), command=["sh"])
    assert output == ran


async def test_a_key_is_not_printed(person: Person, engine: MockEngine) -> None:
    person.environment["ANTIPHON_API_KEY"] = "secret"
    async with running_gateway(engine, api_key=("secret",)) as gateway:
        code, output = await person.types("claude", "--print", "--url", gateway.url)
    assert code == 0, output
    assert "secret" not in output
    assert 'export ANTHROPIC_AUTH_TOKEN="$ANTIPHON_API_KEY"\n' in output


async def test_print_starts_nothing(person: Person, engine: MockEngine) -> None:
    port = free_port()
    person.environment |= {
        "PATH": "/nowhere",
        "ANTIPHON_UPSTREAM": engine.url,
        "ANTIPHON_PORT": str(port),
        "ANTIPHON_DEFAULT_MODEL": "big",
    }
    code, output = await person.types("claude", "--print")
    assert code == 0, output
    assert output.startswith("# No gateway runs")
    assert f"export ANTHROPIC_BASE_URL=http://127.0.0.1:{port}\n" in output
    assert "export ANTHROPIC_MODEL=big\n" in output
    assert output.endswith("\nclaude\n")
    assert not engine.requests
