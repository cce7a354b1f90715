"""Where tests write: in memory, where there is enough of it and programs may run there."""

import tempfile
from pathlib import Path

import pytest
from support import memory_folder
from support.memory_folder import is_suitable, write_to_memory


def meminfo(folder: Path, monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    file = folder / "meminfo"
    file.write_text(f"MemTotal: 99 kB\nMemAvailable:    {available // 1024} kB\n")
    monkeypatch.setattr(memory_folder, "MEMINFO", file)


def test_a_folder_is_used_if_there_is_enough_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "LEAST_FREE", 1024 * 1024)
    meminfo(tmp_path, monkeypatch, 1024 * 1024)
    assert is_suitable(tmp_path)
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    write_to_memory(tmp_path)
    assert tempfile.gettempdir() == str(tmp_path)
    meminfo(tmp_path, monkeypatch, 1024 * 1023)
    assert not is_suitable(tmp_path)


def test_a_machine_without_such_a_folder_uses_its_disk(tmp_path: Path) -> None:
    assert not is_suitable(tmp_path / "none")


def test_tmpdir_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "LEAST_FREE", 0)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", "/elsewhere")
    write_to_memory(tmp_path)
    assert tempfile.gettempdir() == "/elsewhere"
