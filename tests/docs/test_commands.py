"""Every command in the documents is run, here or by another test, or has a reason why it is not."""

import asyncio
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from support.commands import bare_environment, served
from support.doc_commands import COMMANDS, LABELS_RUN_ELSEWHERE, NOT_RUN, RUN_ELSEWHERE, counted, is_run_here
from support.engine import MockEngine
from support.tiny_model import write_tiny_model

ROOT = Path(__file__).parents[2]
PAGES = sorted({command.block.page for command in COMMANDS})

# What runs until it is stopped.
SERVER = re.compile(r"(\w+=\S+ )*antiphon( serve)?( -.*)?")
# The addresses of routers, which look like engines.
ROUTERS = ("http://router:8001", "http://router:30000", "http://llm-d-gateway.NAMESPACE", "http://frontend:8000")
ANSWERS_AT_ONCE = re.compile(r"--(version|help)\b")


def test_every_command_has_its_place() -> None:
    assert sorted({*NOT_RUN, *RUN_ELSEWHERE} - {command.text for command in COMMANDS}) == [], "these are in no document"
    assert not NOT_RUN.keys() & RUN_ELSEWHERE.keys()
    for file in {*RUN_ELSEWHERE.values(), *LABELS_RUN_ELSEWHERE.values()}:
        assert (ROOT / file).is_file(), file
    assert counted()["run as they are"] > len(COMMANDS) / 3


class Shell:
    """Runs commands as a reader would type them, with the words replaced that stand for something else."""

    def __init__(self, folder: Path, words: dict[str, str], environment: dict[str, str]) -> None:
        self._folder = folder
        self._words = words
        self._environment = environment

    async def run(self, text: str) -> tuple[int, str]:
        for word, replaced in self._words.items():
            text = text.replace(word, replaced)
        serves = SERVER.fullmatch(text) is not None and not ANSWERS_AT_ONCE.search(text)
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
    environment = bare_environment(**own, ANTIPHON_PORT="0")
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
