"""The progress of a download is shown."""

import io
import sys

import pytest

from antiphon.embedded.progress import show_progress


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


def test_elsewhere_the_log_gets_two_lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("antiphon.logs.logger.propagate", True)
    with caplog.at_level("INFO", "antiphon"), show_progress("pebble") as progress:
        for received in (1, 2, 3):
            progress(received, 3)
    assert [(record.message, vars(record)["members"]) for record in caplog.records] == [
        ("download started", {"what": "pebble"}),
        ("download finished", {"what": "pebble", "bytes": 3}),
    ]
