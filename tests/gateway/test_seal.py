"""Encryption of sealed text."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.gateway.seal import load_key, make_sealer

SEALER = make_sealer(load_key("one", Path()))


@given(st.text())
def test_sealed_text_can_be_opened(text: str) -> None:
    assert SEALER.open(SEALER.seal(text)) == text.encode("utf-8", "replace").decode()


@given(st.text())
def test_other_text_cannot_be_opened_and_is_no_error(blob: str) -> None:
    assert SEALER.open(blob) is None
    assert SEALER.open("antiphon1." + blob) is None


def test_another_key_or_a_damaged_blob_opens_nothing() -> None:
    blob = SEALER.seal("secret")
    assert "secret" not in blob
    assert make_sealer(load_key("two", Path())).open(blob) is None
    assert SEALER.open(blob[:-6] + "AAAAAA") is None


def test_a_key_is_generated_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    first = load_key(None, tmp_path / "data")
    assert load_key(None, tmp_path / "data") == first
    (file,) = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_writable_directory_there_is_still_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(load_key(None, blocked / "below")) == 32
