"""Encryption of sealed text."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from antiphon.gateway.state.seal import load_key, make_sealer

KEY = load_key("one", Path())
SEALER = make_sealer(KEY)
OLD_SEAL = (Path(__file__).parent / "seals" / "without_owner.txt").read_text().strip()


@given(st.text())
def test_sealed_text_can_be_opened(text: str) -> None:
    assert SEALER.open(SEALER.seal(text)) == text.encode("utf-8", "replace").decode()


@given(st.text())
def test_other_text_cannot_be_opened_and_is_no_error(blob: str) -> None:
    assert SEALER.open(blob) is None
    assert SEALER.open("antiphon1." + blob) is None
    assert make_sealer(KEY, "ada").open("antiphon2." + blob) is None


def test_another_key_or_a_damaged_blob_opens_nothing() -> None:
    blob = SEALER.seal("secret")
    assert "secret" not in blob
    assert make_sealer(load_key("two", Path())).open(blob) is None
    assert SEALER.open(blob[:-6] + "AAAAAA") is None


def test_a_seal_opens_for_its_owner_and_for_nobody_else() -> None:
    blob = make_sealer(KEY, "ada").seal("secret")
    assert make_sealer(KEY, "ada").open(blob) == "secret"
    for other in ("", "bob", "ad", "ada2", "Ada"):
        assert make_sealer(KEY, other).open(blob) is None
    # The version in front is bound, too.
    assert make_sealer(KEY, "ada").open(blob.replace("antiphon2.", "antiphon1.")) is None


def test_a_seal_opens_for_the_owner_that_its_owner_has_become() -> None:
    blob = make_sealer(KEY, "hash").seal("secret")
    assert make_sealer(KEY, "ada", ["other", "hash"]).open(blob) == "secret"
    assert make_sealer(KEY, "ada", ["other"]).open(blob) is None


def test_a_seal_that_was_made_without_owners_opens_for_all_who_have_the_key() -> None:
    for owner in ("", "ada"):
        assert make_sealer(load_key("for the tests", Path()), owner).open(OLD_SEAL) == "I think so."
        assert make_sealer(KEY, owner).open(OLD_SEAL) is None


def test_a_key_is_generated_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    first = load_key(None, tmp_path / "data")
    assert load_key(None, tmp_path / "data") == first
    (file,) = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_writable_directory_there_is_still_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(load_key(None, blocked / "below")) == 32


def test_the_cipher_is_made_once_for_all_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def make(key: bytes) -> AESGCM:
        made.append(key)
        return AESGCM(key)

    monkeypatch.setattr("cryptography.hazmat.primitives.ciphers.aead.AESGCM", make)
    key = load_key("for this test", Path())
    for owner in ("ada", "bob", "ada"):
        assert make_sealer(key, owner).open(make_sealer(key, owner).seal("secret")) == "secret"
    assert made == [key]
