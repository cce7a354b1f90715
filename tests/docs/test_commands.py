"""Every command in the documents is run, here or by another test, or has a reason why it is not."""

import asyncio
import importlib.util
import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import typer
from support.commands import WITHOUT_SANDBOX, bare_environment, served, shown_by
from support.doc_blocks import WRITTEN, inline_commands
from support.doc_commands import COMMANDS, LABELS_RUN_ELSEWHERE, NOT_RUN, RUN_ELSEWHERE, counted, is_run_here
from support.engine import MockEngine
from support.tiny_model import write_tiny_model

from antiphon.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = sorted({command.block.page for command in COMMANDS if is_run_here(command)})

# What runs until it is stopped.
SERVER = re.compile(r"(\w+=\S+ )*antiphon( serve)?( -.*)?")
# The addresses of routers, which look like engines.
ROUTERS = ("http://router:8001", "http://router:30000", "http://llm-d-gateway.NAMESPACE", "http://frontend:8000")
ANSWERS_AT_ONCE = re.compile(r"--(version|help)\b")
# Words and quotes: to a shell, nothing else means anything.
PLAIN = re.compile(r"""antiphon ([\w\s./:-]|"[\w\s.]*")+""")


def test_every_command_has_its_place() -> None:
    assert sorted({*NOT_RUN, *RUN_ELSEWHERE} - {command.text for command in COMMANDS}) == [], "these are in no document"
    assert not NOT_RUN.keys() & RUN_ELSEWHERE.keys()
    for file in {*RUN_ELSEWHERE.values(), *LABELS_RUN_ELSEWHERE.values()}:
        assert (ROOT / file).is_file(), file
    assert counted()["run as they are"] > len(COMMANDS) / 3


# ---- in the text of a page -------------------------------------------------------------------------------------------

INLINE = sorted(set(inline_commands()))
TARGETS = frozenset(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
ANTIPHON: Any = typer.main.get_command(app)
# Of engines, which are not installed here.
OTHER_MODULES = frozenset({"sglang.launch_server"})
# They take the options of another program as well.
TAKE_ALL = frozenset({"codex", "claude"})


def test_the_commands_beside_the_code_are_read() -> None:
    assert {"ARCHITECTURE.md", "bench/NOTES.md", "tests/golden/README.md"} <= {
        page.relative_to(ROOT).as_posix() for page in WRITTEN
    }
    assert {"CONTRIBUTING.md", "bench/NOTES.md", "tests/golden/README.md", "docs/codex.md"} <= {page for page, _ in INLINE}


@pytest.mark.parametrize(("page", "text"), INLINE)
def test_a_command_in_the_text_is_one_that_exists(page: str, text: str) -> None:
    program, *words = text.removeprefix("python ").split()
    if program == "make":
        assert words[0] in TARGETS
    elif program == "-m":
        assert words[0] in OTHER_MODULES or importlib.util.find_spec(words[0]) is not None
    else:
        assert unknown_words(words) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("key limt ada", ["limt"]),
        ("key limit ada --tokens", ["--tokens"]),
        ("docter", ["docter"]),
        ("--upstrem http://HOST:PORT", ["--upstrem"]),
        ("codex --a-flag-of-codex", []),
    ],
)
def test_a_word_that_no_command_has_is_found(text: str, unknown: list[str]) -> None:
    assert unknown_words(text.split()) == unknown


def unknown_words(words: list[str]) -> list[str]:
    """Of a command of Antiphon: subcommands and options that it does not have."""
    command = ANTIPHON
    names = [word for word in words if not word.startswith("-")]
    while hasattr(command, "commands") and names and words[0] == names[0]:
        if names[0] not in command.commands:
            return [names[0]]
        command, names, words = command.commands[names[0]], names[1:], words[1:]
    if command.name in TAKE_ALL:
        return []
    # `antiphon` alone serves.
    serving = ANTIPHON.commands["serve"] if command is ANTIPHON else command
    known = {name for parameter in (*serving.params, *command.params) for name in parameter.opts} | {"--help", "-h"}
    return [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]


# ---- in blocks -------------------------------------------------------------------------------------------------------


class Shell:
    """Runs commands as a reader would type them, with the words replaced that stand for something else."""

    def __init__(self, folder: Path, words: dict[str, str], environment: dict[str, str]) -> None:
        self._folder = folder
        self._words = words
        self._environment = environment

    async def run(self, text: str) -> tuple[int, str]:
        for word, replaced in self._words.items():
            text = text.replace(word, replaced)
        at_once = ANSWERS_AT_ONCE.search(text) is not None
        serves = SERVER.fullmatch(text) is not None and not at_once
        if PLAIN.fullmatch(text) and not serves and not at_once:
            code, *shown = await shown_by(*shlex.split(text)[1:], env=self._environment, cwd=self._folder)
            return code, "".join(shown)
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", f"exec env {text}" if serves else text, cwd=self._folder, env=self._environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        output = b""
        try:
            async with asyncio.timeout(60):
                while serves and b"Antiphon is ready at" not in output and (line := await process.stdout.readline()):
                    output += line
                if serves:
                    process.send_signal(signal.SIGINT)
                output += await process.stdout.read()
                return await process.wait(), output.decode(errors="replace")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


async def recording(address: str) -> bytes:
    async with aiohttp.ClientSession(f"http://{address}", raise_for_status=True) as client:
        await client.post("/v1/responses", json={"input": "Hi"})
        async with client.get("/inspector/requests/1/recording") as answer:
            return await answer.read()


@pytest.mark.parametrize("page", PAGES)
async def test_the_commands_of_a_page_run(page: str, engine: MockEngine, tmp_path: Path) -> None:
    chosen = [command for command in COMMANDS if command.block.page == page and is_run_here(command)]
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    home.mkdir()
    (folder / "FILE.sse").write_bytes((ROOT / "tests/golden/streams/lc_chat_toolcall_single_stream.sse").read_bytes())
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": str(home), "PATH": path, "ANTIPHON_DATA_DIR": str(home / "data"), "ANTIPHON_UPSTREAM": engine.url}
    # Keys and usage are for a store that outlives the gateway.
    own["ANTIPHON_STORE"] = f"sqlite:{home / 'data' / 'responses.db'}"
    environment = bare_environment(**WITHOUT_SANDBOX | own, ANTIPHON_PORT="0")
    async with served("serve", **own, ANTIPHON_PORT="0") as (_, ready):
        address = ready.removeprefix("Antiphon is ready at http://").strip().removesuffix("/v1")
        words = {
            "127.0.0.1:8484": address,
            "http://HOST:PORT": engine.url,
            "PATH.gguf": str(write_tiny_model(tmp_path / "tiny.gguf")),
            "collector:4318": "127.0.0.1:1",
            **dict.fromkeys(ROUTERS, engine.url),
        }
        (folder / "antiphon-17.json").write_bytes(await recording(address))
        shell = Shell(folder, words, environment)
        for command in chosen:
            code, output = await shell.run(command.text)
            assert code == 0, f"{command.block.name}: {command.text}\n{output[-2000:]}"
