"""The lock for sealed text."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.gateway.seal import load_key, make_sealer
from antiphon.settings import Settings

SEALER = make_sealer(load_key(Settings(seal_key="one")))


@given(st.text())
def test_what_was_sealed_opens_again(text: str) -> None:
    assert SEALER.open(SEALER.seal(text)) == text.encode("utf-8", "replace").decode()


@given(st.text())
def test_anything_else_does_not_open_and_is_no_error(blob: str) -> None:
    assert SEALER.open(blob) is None
    assert SEALER.open("antiphon1." + blob) is None


def test_another_key_does_not_open_it_and_a_damaged_blob_does_not_open() -> None:
    blob = SEALER.seal("secret")
    assert "secret" not in blob
    assert make_sealer(load_key(Settings(seal_key="two"))).open(blob) is None
    assert SEALER.open(blob[:-6] + "AAAAAA") is None


def test_a_key_is_made_once_and_kept_for_its_user_alone(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"))
    first = load_key(settings)
    assert load_key(settings) == first
    (kept,) = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_without_a_place_to_keep_it_a_key_still_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(load_key(Settings(data_dir=str(blocked / "below")))) == 32
