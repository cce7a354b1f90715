"""The file that Codex and its user write: nothing of it is lost, and what it sets counts."""

import asyncio
from pathlib import Path

import pytest
from support.codex import Person, typed
from support.engine import MockEngine, text
from support.gateway import running_gateway
from support.terminal import ENTER, Terminal

pytestmark = pytest.mark.timeout(120, func_only=True)

SMALL = "Qwen2.5-Coder-1.5B-Instruct"
MINE = """\
# mine
model_reasoning_effort = "low"  # it is only a test

[mcp_servers.docs]
url = "http://127.0.0.1:9/"
enabled = false

[features]
goals = true
"""
TRUST = """
[projects."{folder}"]
trust_level = "trusted"
"""


@pytest.fixture
def file(person: Person) -> Path:
    file = person.home / ".local" / "share" / "antiphon" / "codex" / "config.toml"
    file.parent.mkdir(parents=True)
    write(file, MINE)
    return file


def write(file: Path, content: str) -> None:
    file.write_text(content)


def read(file: Path) -> str:
    return file.read_text()


async def say_hello(person: Person) -> bytes:
    """A session in a terminal."""
    terminal = Terminal()
    async with typed(person, "Say hello", terminal=terminal) as process:
        await terminal.shows(b"Greetings")
        terminal.type(b"/quit")
        await terminal.shows(b"exit Codex")
        terminal.type(ENTER)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    terminal.close()
    return terminal.shown


async def test_a_folder_that_was_trusted_stays_trusted_and_the_rest_of_the_file_is_kept(
    person: Person, engine: MockEngine, file: Path
) -> None:
    await (await asyncio.create_subprocess_exec("git", "init", "--quiet", str(person.repository))).wait()
    engine.otherwise = lambda body: text("Greetings")
    async with running_gateway(engine) as gateway:
        person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
        terminal = Terminal()
        async with typed(person, "Say hello", terminal=terminal):
            await terminal.shows(b"Trust and continue")
        terminal.close()
        # As Codex writes it. It throws away keys that come too soon, so they are not typed here.
        decided = MINE + TRUST.format(folder=person.repository)
        write(file, decided)
        for _ in range(2):
            assert b"Trust and continue" not in await say_hello(person)
            assert read(file).startswith(decided)


async def test_what_the_file_sets_counts_although_codex_is_lean(person: Person, engine: MockEngine, file: Path) -> None:
    engine.lists(SMALL)
    async with running_gateway(engine) as gateway:
        person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
        code, output = await person.types("codex", "exec", "--skip-git-repo-check", "Say hello")
    assert code == 0, output
    assert "reasoning effort: low" in output
    names = [tool["function"]["name"] for tool in engine.last["tools"]]
    assert "get_goal" in names
    assert "view_image" not in names
    assert read(file) == MINE


async def test_a_model_that_was_chosen_in_codex_stays_chosen(person: Person, engine: MockEngine, file: Path) -> None:
    engine.lists("first", "second", "third")
    write(file, f'model = "second"\n{MINE}')
    async with running_gateway(engine) as gateway:
        person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
        for arguments, model in [([], "second"), (["-m", "third"], "third")]:
            code, output = await person.types("codex", "exec", "--skip-git-repo-check", *arguments, "Say hello")
            assert code == 0, output
            assert engine.last["model"] == model
        write(file, f'model = "gone"\n{MINE}')
        code, output = await person.types("codex", "exec", "--skip-git-repo-check", "Say hello")
        assert (code, engine.last["model"]) == (0, "first")
        assert "metadata" not in output


async def test_the_last_line_says_how_to_continue_the_session_here(person: Person, engine: MockEngine) -> None:
    engine.otherwise = lambda body: text("Greetings")
    async with running_gateway(engine) as gateway:
        person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
        shown, _, id = (await say_hello(person)).decode().rstrip().rpartition("antiphon codex resume ")
        assert f"codex resume {id}" in shown, "Codex itself has just named it"
        code, output = await person.types("codex", "exec", "--skip-git-repo-check", "resume", id, "Once more")
        assert code == 0, output
        assert "antiphon codex resume" not in output, "there is nothing to say where Codex says nothing"
    said = [message["content"] for message in engine.last["messages"]]
    assert ("Say hello" in said, "Greetings" in said, said[-1]) == (True, True, "Once more")
