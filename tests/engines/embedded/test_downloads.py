"""A download completes over a bad connection, or fails with the reason."""

from functools import partial
from pathlib import Path

import pytest
from support.wheels import FileServer

from antiphon.engines.embedded import downloads
from antiphon.engines.embedded.downloads import ATTEMPTS, DownloadFailed
from bench.processes import free_port

DATA = bytes(range(256)) * 400


def ignore(received: int, total: int | None) -> None: ...


# Without the pauses between its attempts.
download = partial(downloads.download, first_pause=0.001)


async def test_a_file_is_downloaded_and_its_progress_reported(tmp_path: Path) -> None:
    reports: list[tuple[int, int | None]] = []
    async with FileServer(DATA) as server:
        await download(server.file_url, tmp_path / "x", lambda received, total: reports.append((received, total)))
    assert (tmp_path / "x").read_bytes() == DATA
    assert reports[0] == (0, len(DATA))
    assert reports[-1] == (len(DATA), len(DATA))


async def test_what_is_reported_is_in_the_file(tmp_path: Path) -> None:
    path, reports = tmp_path / "x", []

    def compare(received: int, total: int | None) -> None:
        reports.append((received, path.stat().st_size if path.exists() else 0))

    async with FileServer(DATA[:1000]) as server:
        await download(server.file_url, path, compare)
    assert reports == [(0, 0), (1000, 1000)]


async def test_a_broken_connection_is_resumed_where_it_broke(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.breaks = [1000, 2000]
        await download(server.file_url, tmp_path / "x", ignore)
        assert server.ranges == [None, "bytes=1000-", "bytes=3000-"]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_the_part_of_an_earlier_run_is_used(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(DATA[:5000])
    async with FileServer(DATA) as server:
        await download(server.file_url, tmp_path / "x", ignore)
        assert server.ranges == ["bytes=5000-"]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_a_server_without_ranges_starts_again(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.supports_ranges = False
        server.breaks = [1000]
        await download(server.file_url, tmp_path / "x", ignore)
        assert server.ranges == [None, "bytes=1000-"]
    assert (tmp_path / "x").read_bytes() == DATA


@pytest.mark.parametrize("left", [len(DATA), len(DATA) + 1])
async def test_a_part_that_does_not_fit_is_discarded(tmp_path: Path, left: int) -> None:
    (tmp_path / "x").write_bytes(b"!" * left)
    async with FileServer(DATA) as server:
        await download(server.file_url, tmp_path / "x", ignore)
        assert server.ranges == [f"bytes={left}-", None]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_a_server_that_resumes_at_another_byte_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(DATA[:100])
    async with FileServer(DATA) as server:
        server.shift = 7
        await download(server.file_url, tmp_path / "x", ignore)
        assert server.ranges == ["bytes=100-", None]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_a_temporary_error_is_retried(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.errors = [503, 429, 500]
        await download(server.file_url, tmp_path / "x", ignore)
    assert (tmp_path / "x").read_bytes() == DATA


@pytest.mark.parametrize("status", [401, 403, 404, 407])
async def test_a_permanent_error_is_not_retried(tmp_path: Path, status: int) -> None:
    async with FileServer(DATA) as server:
        server.errors = [status]
        with pytest.raises(DownloadFailed, match=str(status)):
            await download(server.file_url, tmp_path / "x", ignore)
        assert len(server.ranges) == 1


async def test_after_the_last_attempt_the_part_is_kept(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.breaks = [100] * ATTEMPTS
        with pytest.raises(DownloadFailed, match="the connection broke"):
            await download(server.file_url, tmp_path / "x", ignore)
    assert (tmp_path / "x").read_bytes() == DATA[: 100 * ATTEMPTS]


async def test_a_missing_server_is_soon_an_error(tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match="the connection broke 2 times"):
        await download(f"http://127.0.0.1:{free_port()}/x", tmp_path / "x", ignore)
