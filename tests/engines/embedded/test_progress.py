"""The progress of a download is shown."""

import io
import sys
from collections.abc import Iterable

import pytest

from antiphon.engines.embedded.progress import print_progress, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with show_progress("pebble") as progress:
        progress(0, None)
        progress(1_000_000, 2_000_000)
        progress(2_000_000, 2_000_000)
    assert "Downloading pebble" in terminal.getvalue()
    assert "2.0/2.0 MB" in terminal.getvalue()


def test_elsewhere_the_log_of_a_gateway_gets_a_line_every_ten_per_cent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level("INFO", "antiphon"), show_progress("pebble") as progress:
        for received in range(201):
            progress(received, 200)
    assert [(record.message, vars(record)["members"]) for record in caplog.records] == [
        ("download started", {"what": "pebble"}),
        *(("downloading", {"what": "pebble", "bytes": 20 * step, "total": 200}) for step in range(1, 11)),
        ("download finished", {"what": "pebble", "bytes": 200}),
    ]


def printed(reports: Iterable[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a command without a terminal."""
    monkeypatch.setattr(sys, "stderr", written := io.StringIO())
    with print_progress("pebble") as progress:
        for received, total in reports:
            progress(received, total)
    return written.getvalue().splitlines()


def test_what_is_looked_up_has_no_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with print_progress("pebble", "Looking up"):
        pass
    assert "Looking up pebble" in terminal.getvalue()
    assert "bytes" not in terminal.getvalue()


def test_a_command_prints_a_line_every_five_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed([(thousands * 1000, 1_000_000) for thousands in range(1001)], monkeypatch)
    assert len(lines) == 21
    assert lines[:2] == ["Downloading pebble", "Downloading pebble: 5 %, 50.0 kB of 1.0 MB"]
    assert lines[-1] == "Downloading pebble: 100 %, 1.0 MB of 1.0 MB"


def test_without_a_known_size_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed([(millions * 1_000_000, None) for millions in range(121)], monkeypatch)
    assert lines == ["Downloading pebble", "Downloading pebble: 50.0 MB", "Downloading pebble: 100.0 MB"]


def test_a_download_that_is_continued_begins_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed([(600, 1000), (1000, 1000)], monkeypatch)
    assert lines[1:] == ["Downloading pebble: 60 %, 600 bytes of 1.0 kB", "Downloading pebble: 100 %, 1.0 kB of 1.0 kB"]
