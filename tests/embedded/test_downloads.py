"""A file arrives whole, whatever the line does; or it is said why not."""

from pathlib import Path

import pytest
from support.gateway import free_port
from support.wheels import FileServer

from antiphon.embedded import downloads
from antiphon.embedded.downloads import ATTEMPTS, DownloadRefused, download

DATA = bytes(range(256)) * 400


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "FIRST_PAUSE", 0.001)


def nobody(received: int, total: int | None) -> None: ...


async def test_a_file_is_fetched_and_its_progress_told(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    async with FileServer(DATA) as server:
        await download(server.file_url, tmp_path / "x", lambda received, total: told.append((received, total)))
    assert (tmp_path / "x").read_bytes() == DATA
    assert told[0] == (0, len(DATA))
    assert told[-1] == (len(DATA), len(DATA))


async def test_a_line_that_breaks_is_gone_on_from_where_it_broke(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.breaks = [1000, 2000]
        await download(server.file_url, tmp_path / "x", nobody)
        assert server.ranges == [None, "bytes=1000-", "bytes=3000-"]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_what_an_earlier_run_left_is_used(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(DATA[:5000])
    async with FileServer(DATA) as server:
        await download(server.file_url, tmp_path / "x", nobody)
        assert server.ranges == ["bytes=5000-"]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_a_server_without_ranges_is_begun_anew_with(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.takes_ranges = False
        server.breaks = [1000]
        await download(server.file_url, tmp_path / "x", nobody)
        assert server.ranges == [None, "bytes=1000-"]
    assert (tmp_path / "x").read_bytes() == DATA


@pytest.mark.parametrize("left", [len(DATA), len(DATA) + 1])
async def test_what_cannot_be_gone_on_from_is_begun_anew(tmp_path: Path, left: int) -> None:
    (tmp_path / "x").write_bytes(b"!" * left)
    async with FileServer(DATA) as server:
        await download(server.file_url, tmp_path / "x", nobody)
        assert server.ranges == [f"bytes={left}-", None]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_a_server_that_goes_on_elsewhere_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(DATA[:100])
    async with FileServer(DATA) as server:
        server.shift = 7
        await download(server.file_url, tmp_path / "x", nobody)
        assert server.ranges == ["bytes=100-", None]
    assert (tmp_path / "x").read_bytes() == DATA


async def test_a_server_in_trouble_is_asked_again(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.refusals = [503, 429, 500]
        await download(server.file_url, tmp_path / "x", nobody)
    assert (tmp_path / "x").read_bytes() == DATA


@pytest.mark.parametrize("status", [401, 403, 404, 407])
async def test_a_refusal_is_final(tmp_path: Path, status: int) -> None:
    async with FileServer(DATA) as server:
        server.refusals = [status]
        with pytest.raises(DownloadRefused, match=str(status)):
            await download(server.file_url, tmp_path / "x", nobody)
        assert len(server.ranges) == 1


async def test_a_line_that_only_breaks_is_given_up_and_its_pieces_are_kept(tmp_path: Path) -> None:
    async with FileServer(DATA) as server:
        server.breaks = [100] * ATTEMPTS
        with pytest.raises(DownloadRefused, match="the line broke"):
            await download(server.file_url, tmp_path / "x", nobody)
    assert (tmp_path / "x").read_bytes() == DATA[: 100 * ATTEMPTS]


async def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DownloadRefused):
        await download(f"http://127.0.0.1:{await free_port()}/x", tmp_path / "x", nobody)
