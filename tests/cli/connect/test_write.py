"""What `antiphon connect --write` does to the files of clients."""

import json
import os
from pathlib import Path

import pytest

from antiphon.cli.connect.client import Facts, ServedModel
from antiphon.cli.connect.table import CLIENTS
from antiphon.cli.connect.write import CannotWrite, write

FACTS = Facts("http://127.0.0.1:8484", [ServedModel("mock", 32_768)], "secret", shows_key=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_new_file_is_for_its_user_only(folder: Path) -> None:
    path, backup = write(CLIENTS["continue"], FACTS)
    assert (path, backup) == (folder / "home" / ".continue" / "config.yaml", None)
    assert 'apiKey: "secret"' in path.read_text()
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_what_the_user_has_is_kept_and_copied(folder: Path) -> None:
    file = folder / "opencode.json"
    before = '{"theme": "mine", "provider": {"other": {"npm": "x"}, "antiphon": {"name": "A"}}, "model": "other/m"}'
    file.write_text(before)
    file.chmod(0o644)
    path, backup = write(CLIENTS["opencode"], FACTS)
    assert (path, backup) == (file, folder / "opencode.json.before-antiphon")
    assert backup is not None
    assert backup.read_text() == before
    written = json.loads(file.read_text())
    assert written["theme"] == "mine"
    assert written["provider"]["other"] == {"npm": "x"}
    assert written["provider"]["antiphon"]["name"] == "A"
    assert written["provider"]["antiphon"]["options"]["apiKey"] == "{env:ANTIPHON_API_KEY}"
    assert written["model"] == "antiphon/mock"
    assert file.stat().st_mode & 0o777 == 0o644

    assert write(CLIENTS["opencode"], FACTS) == (file, None), "it has all of it already"
    assert write(CLIENTS["opencode-chat"], FACTS) == (file, folder / "opencode.json.before-antiphon-2")


def test_a_link_stays_a_link(folder: Path) -> None:
    real = folder / "dotfiles.json"
    real.write_text("{}")
    (folder / "opencode.json").symlink_to(real)
    write(CLIENTS["opencode"], FACTS)
    assert (folder / "opencode.json").is_symlink()
    assert json.loads(real.read_text())["model"] == "antiphon/mock"


@pytest.mark.parametrize(
    ("client", "file", "content", "said"),
    [
        ("opencode", "opencode.json", '{\n  // mine\n  "model": "x"\n}', "it has comments, or is no JSON object"),
        ("opencode", "opencode.json", "[]", "it has comments, or is no JSON object"),
        ("continue", "home/.continue/config.yaml", "models: []\n", "only JSON can be added to"),
    ],
)
def test_what_cannot_be_added_to_safely_is_left_alone(folder: Path, client: str, file: str, content: str, said: str) -> None:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    with pytest.raises(CannotWrite, match=said):
        write(CLIENTS[client], FACTS)
    assert path.read_text() == content
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_client_without_a_file_says_so() -> None:
    with pytest.raises(CannotWrite, match="there is no one file for it"):
        write(CLIENTS["copilot"], FACTS)


def test_a_folder_in_place_of_the_file_is_an_error(folder: Path) -> None:
    (folder / "opencode.json").mkdir()
    with pytest.raises(CannotWrite, match="could not be written"):
        write(CLIENTS["opencode"], FACTS)
