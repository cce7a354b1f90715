"""How commands find the gateways that run: whoever runs is found, and nobody else."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from antiphon.app.running_gateways import announce, announcements_folder, find, local_url

URL = "http://127.0.0.1:8484"


def test_a_gateway_is_found_while_it_runs_and_not_after(tmp_path: Path) -> None:
    assert find(tmp_path) == []
    with announce(URL, "1.2.3", tmp_path):
        (found,) = find(tmp_path)
        assert (found.url, found.pid, found.version) == (URL, os.getpid(), "1.2.3")
    assert find(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_newest_gateway_comes_first(tmp_path: Path) -> None:
    with announce("http://127.0.0.1:1", "1", tmp_path), announce("http://127.0.0.1:2", "1", tmp_path):
        assert [gateway.url for gateway in find(tmp_path)] == ["http://127.0.0.1:2", "http://127.0.0.1:1"]


def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    with announce(URL, "1", tmp_path / "gateways"):
        files = list((tmp_path / "gateways").iterdir())
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "gateways").stat().st_mode) == 0o700


def test_the_file_has_no_more_than_this(tmp_path: Path) -> None:
    with announce(URL, "1", tmp_path):
        (file,) = tmp_path.glob("*.json")
        assert set(msgspec.json.decode(file.read_bytes())) == {"url", "pid", "started", "version", "control"}


PROGRAM = """
import os, pathlib, sys
from antiphon.app.running_gateways import announce
with announce("http://127.0.0.1:9", "1", pathlib.Path(sys.argv[1])):
    print("announced", flush=True)
    sys.stdin.read()
"""


def test_a_gateway_that_was_killed_is_not_found_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdin=-1, stdout=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == b"announced\n"
        assert [gateway.pid for gateway in find(tmp_path)] == [process.pid]
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir())
    assert find(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_another_process_under_the_number_of_a_gateway_is_none(tmp_path: Path) -> None:
    left = {"url": URL, "pid": os.getpid(), "started": 1.0, "version": "1"}
    (tmp_path / f"{os.getpid()}-0.json").write_bytes(msgspec.json.encode(left))
    assert find(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    with announce(URL, "1", tmp_path):
        (file,) = tmp_path.glob("*.json")
        file.write_bytes(b"{")
        assert find(tmp_path) == []


def test_a_gateway_that_cannot_write_runs_without_being_found(tmp_path: Path) -> None:
    (tmp_path / "gateways").touch()
    with announce(URL, "1", tmp_path / "gateways"):
        assert find(tmp_path / "gateways") == []


def test_the_environment_moves_the_folder() -> None:
    assert announcements_folder({"ANTIPHON_DATA_DIR": "/srv/data"}) == Path("/srv/data/gateways")
    assert announcements_folder({}).parts[-2:] == ("antiphon", "gateways")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("box.lan", "http://box.lan:80"),
    ],
)
def test_programs_of_this_machine_connect_to_an_address_that_they_can_reach(host: str, url: str) -> None:
    assert local_url(host, 80) == url
