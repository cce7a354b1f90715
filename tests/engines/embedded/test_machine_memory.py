"""The memory of the machine, or of the container."""

import mmap
import os
import sys
from pathlib import Path

import pytest

from antiphon.engines.embedded.model_choice import bytes_read_by, machine_memory


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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say")
def test_how_much_of_a_mapped_file_was_read_is_seen(tmp_path: Path) -> None:
    size = 8 * 1024 * 1024
    (tmp_path / "model").write_bytes(os.urandom(size))
    before = bytes_read_by(os.getpid())
    assert before is not None
    with (
        (tmp_path / "model").open("rb") as file,
        mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as mapped,
    ):
        assert sum(mapped[at] for at in range(0, size, 4096)) > 0
        after = bytes_read_by(os.getpid())
    assert after is not None
    assert after - before >= size // 2


def test_of_a_process_that_is_gone_nothing_is_seen() -> None:
    assert bytes_read_by(2**30) is None
