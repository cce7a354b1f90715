"""The folder of a sandbox, seen from outside. What code can put there is in test_attacks.py; here are names and sizes."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.bubblewrap import SMALL
from support.operations import assert_linear, count_calls

from antiphon.sandbox import folder as folders
from antiphon.sandbox.runs import SandboxLimits


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("report.csv", "report.csv"),
        ("Größe 1.csv", "Größe 1.csv"),
        ("../../etc/passwd", "passwd"),
        ("/etc/shadow", "shadow"),
        ("C:\\Users\\me\\data.xlsx", "data.xlsx"),
        ("folder/", "folder"),
        ("..", "file"),
        (".", "file"),
        ("", "file"),
        ("a\0b\nc\x1b[31m.txt", "abc[31m.txt"),
        ("\ud800.txt", ".txt"),
        ("x" * 500, "x" * 200),
    ],
)
def test_the_name_of_an_upload_is_one_part_of_a_path(sent: str, name: str) -> None:
    assert folders.file_name(sent) == name
    assert folders.file_name(name) == name


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/b", "..", ".", "", "a\0b"])
def test_no_other_name_is_written(folder: Path, name: str) -> None:
    with pytest.raises(folders.NotAFile):
        folders.write_file(folder, name, [b"x"])
    assert sorted(path.name for path in folder.parent.iterdir()) == ["data"]
    assert list(folder.iterdir()) == []


def test_a_file_is_whole_or_not_there(folder: Path) -> None:
    def pieces() -> list[bytes]:
        raise ValueError("the client is gone")

    with pytest.raises(ValueError, match="gone"):
        folders.write_file(folder, "a.txt", (piece for number in range(2) for piece in ([b"x"] if number == 0 else pieces())))
    assert list(folder.iterdir()) == []
    folders.write_file(folder, "a.txt", [b"one"])
    written = folders.write_file(folder, "a.txt", [b"two", b"!"])
    assert (written.path, written.size) == ("a.txt", 4)
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_a_folder_of_that_name_is_not_replaced(folder: Path) -> None:
    (folder / "taken").mkdir()
    with pytest.raises(folders.NotAFile):
        folders.write_file(folder, "taken", [b"x"])
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_a_full_disk_is_not_taken_for_a_folder_of_that_name(folder: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        folders.write_file(folder, "a.txt", pieces())
    assert list(folder.iterdir()) == []


def test_another_content_has_another_time(folder: Path) -> None:
    first = folders.write_file(folder, "a.txt", [b"one"])
    assert folders.list_files(folder) == [first]
    (folder / "a.txt").write_text("two")
    os.utime(folder / "a.txt", ns=(0, 0))
    assert folders.list_files(folder)[0].changed > first.changed


def test_a_link_in_place_of_the_folder_itself_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("key")
    folder.rmdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert folders.list_files(folder) == []
    with pytest.raises((folders.NotAFile, OSError)):
        folders.open_file(folder, "secret")


def test_a_link_in_place_of_a_file_is_not_opened(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for anybody inside")
    (folder / "below").mkdir()
    for link in (folder / "link", folder / "below" / "link"):
        link.symlink_to(tmp_path / "secret")
        with pytest.raises(folders.NotAFile):
            folders.open_file(folder, str(link.relative_to(folder)))


def test_deleting_a_link_leaves_what_it_points_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (folder / "link").symlink_to(tmp_path / "target")
    assert folders.delete_file(folder, "link")
    assert not folders.delete_file(folder, "link")
    assert not folders.delete_file(folder, "../target")
    assert (tmp_path / "target").read_text() == "kept"


def test_removing_a_folder_removes_nothing_else(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "below").mkdir()
    (folder / "below" / "link").symlink_to(tmp_path / "outside")
    folders.remove_folder(folder)
    folders.remove_folder(folder)  # it is gone already
    assert not folder.exists()
    assert (tmp_path / "outside" / "kept").read_text() == "kept"


def test_what_is_counted_are_blocks_so_a_sparse_file_is_small(folder: Path) -> None:
    with (folder / "sparse").open("wb") as file:
        file.truncate(100 * SMALL.disk)
    assert not folders.usage(folder, SMALL).exceeds(SMALL)


def wait_for_its_clock(path: Path) -> None:
    """Until a file would be newer than this one: the clock of a file system may stand still for some milliseconds."""
    probe = path.parent.parent / "probe"
    probe.touch()
    while probe.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        probe.touch()


def test_what_was_changed_last_is_removed_first(folder: Path) -> None:
    limits = SandboxLimits(disk=100_000, files=10)
    for name in ("first", "second", "third"):
        folders.write_file(folder, name, [os.urandom(40_000)])
        wait_for_its_clock(folder / name)
    folders.shrink(folder, limits)
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]


def test_a_file_counts_as_older_than_a_folder_of_the_same_time() -> None:
    """Both were changed within one tick of the clock."""
    changed = Mock(st_ctime_ns=1)
    file, deep = (Mock(stat=Mock(return_value=changed), is_dir=Mock(return_value=is_folder)) for is_folder in (False, True))
    assert sorted([deep, file], key=folders._change_order) == [file, deep]


def test_the_work_to_remove_files_grows_with_their_number(tmp_path: Path) -> None:
    def work_of(size: int) -> Callable[[], None]:
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / "first").touch()
        for number in range(size):
            os.link(folder / "first", folder / str(number))

        def work() -> None:
            folders.shrink(folder, SandboxLimits(files=size // 3))
            assert len(list(folder.iterdir())) == size // 3

        return work

    assert_linear(work_of, 1_000, count_calls)


def test_a_folder_that_does_not_fit_is_removed_with_all_that_is_in_it(folder: Path) -> None:
    (folder / "large" / "below").mkdir(parents=True)
    for number in range(5):
        (folder / "large" / "below" / str(number)).touch()
    folders.shrink(folder, SandboxLimits(files=7))
    assert len(list(folder.rglob("*"))) == 7
    folders.shrink(folder, SandboxLimits(files=6))
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_that_are_put_there_belong_to_the_folders_owner(folder: Path) -> None:
    os.chown(folder, 1_900_000_123, 1_900_000_123)
    folders.write_file(folder, "a.txt", [b"x"])
    status = (folder / "a.txt").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1_900_000_123, 1_900_000_123, 0o644)
