"""Where tests write: in memory, where there is enough of it and programs may run there."""

import tempfile
from pathlib import Path

import pytest
from support.memory_folder import is_suitable, write_to_memory

ENOUGH = 1024 * 1024


def meminfo(folder: Path, available: int) -> Path:
    file = folder / "meminfo"
    file.write_text(f"MemTotal: 99 kB\nMemAvailable:    {available // 1024} kB\n")
    return file


def test_a_folder_is_used_if_there_is_enough_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_suitable(tmp_path, meminfo(tmp_path, ENOUGH), ENOUGH)
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    write_to_memory(tmp_path, meminfo(tmp_path, ENOUGH), ENOUGH)
    assert tempfile.gettempdir() == str(tmp_path)
    assert not is_suitable(tmp_path, meminfo(tmp_path, ENOUGH - 1024), ENOUGH)


def test_a_machine_without_such_a_folder_uses_its_disk(tmp_path: Path) -> None:
    assert not is_suitable(tmp_path / "none")


def test_tmpdir_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", "/elsewhere")
    write_to_memory(tmp_path, meminfo(tmp_path, ENOUGH), 0)
    assert tempfile.gettempdir() == "/elsewhere"
