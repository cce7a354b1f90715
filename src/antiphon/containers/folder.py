"""The files of one container, on disk."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

# What is imported where it is used is not there on every system.
if TYPE_CHECKING:
    from antiphon.sandbox.folder import FolderFile

# More files of one container are not seen.
MOST_FILES = 2_000
PIECE = 256 * 1024


class ContainerFolder:
    """Everything here may be slow: call it in a thread."""

    def __init__(self, base: Path) -> None:
        self._base = base
        # What code sees as /mnt/data.
        self.data = base / "data"
        # Uploads that are not whole yet: code does not see them.
        self._incoming = base / "incoming"

    def make(self) -> None:
        for folder in (self._base, self.data, self._incoming):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self) -> None:
        from antiphon.sandbox.folder import remove_folder

        remove_folder(self._base)

    def files(self) -> "list[FolderFile]":
        from antiphon.sandbox.folder import list_files

        return list_files(self.data, MOST_FILES)

    def open(self, name: str) -> BinaryIO:
        """Raises FileNotFoundError: there is no plain file of this name."""
        from antiphon.sandbox.folder import NotAFile, open_file

        try:
            return open_file(self.data, name)
        except NotAFile:
            raise FileNotFoundError(name) from None

    def delete(self, name: str) -> None:
        from antiphon.sandbox.folder import delete_file

        delete_file(self.data, name)

    # ---- uploads -----------------------------------------------------------------------------------------------------

    def begin_upload(self, number: str) -> BinaryIO:
        return (self._incoming / number).open("xb")

    def end_upload(self, number: str, name: str) -> None:
        """Puts it in its place. Whatever has this name is replaced, and not followed if it is a link. Raises FileExistsError if
        that is a folder."""
        from antiphon.sandbox.folder import NotAFile, write_file

        try:
            with (self._incoming / number).open("rb") as file:
                write_file(self.data, name, iter(lambda: file.read(PIECE), b""))
        except NotAFile:
            raise FileExistsError(name) from None

    def drop_upload(self, number: str) -> None:
        (self._incoming / number).unlink(missing_ok=True)


def clean_name(filename: str) -> str:
    """The name that an uploaded file has in a container: one that stays in its folder, whatever it was before."""
    from antiphon.sandbox.folder import file_name

    return file_name(filename)


def remove_tree(folder: Path) -> None:
    from antiphon.sandbox.folder import remove_folder

    remove_folder(folder)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or another one like it."""
    return next(each for each in _names(name) if each not in taken)


def _names(name: str) -> Iterator[str]:
    yield name
    stem, dot, suffix = name.rpartition(".")
    number = 1
    while True:
        number += 1
        yield f"{stem}_{number}{dot}{suffix}" if stem else f"{suffix}_{number}"
