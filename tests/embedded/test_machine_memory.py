"""The memory of the machine, or of the container."""

import os
from pathlib import Path

import pytest

from antiphon.embedded.machine_memory import machine_memory


@pytest.fixture
def physical(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__)


@pytest.mark.usefixtures("physical")
@pytest.mark.parametrize(
    ("limit", "memory"), [("1000000\n", 1_000_000), ("max\n", 4_096_000), ("9223372036854771712", 4_096_000)]
)
def test_a_limit_of_the_container_counts_if_it_is_smaller(tmp_path: Path, limit: str, memory: int) -> None:
    (tmp_path / "memory.max").write_text(limit)
    assert machine_memory((tmp_path / "memory.max", tmp_path / "none")) == memory


@pytest.mark.parametrize("error", [ValueError, OSError, AttributeError])
def test_a_system_that_does_not_say_is_unknown(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise error

    monkeypatch.setattr(os, "sysconf", unknown)
    assert machine_memory(()) is None
