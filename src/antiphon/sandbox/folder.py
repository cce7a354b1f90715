"""The folder of a sandbox, seen from outside: whatever the code inside has put there, nothing outside of it is read or written.

No link is followed, neither in the last part of a path nor before it, and only plain files are opened: a pipe would not end, a
device is not a file. Files without a name that code keeps open or mapped take up room, too. Nothing here is quick: run it in a
thread.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from msgspec import Struct, structs

from antiphon.sandbox.runs import MOST_FILES, SandboxLimits

# A tree that is deeper than this was made to be.
DEEPEST = 32


def _flags(*names: str) -> int:
    """Windows has few of them, and imports this module all the same."""
    return sum(getattr(os, name, 0) for name in names)


_FOLDER = _flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE = _flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
_NEW_FILE = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC")
# A folder has the name that a file should get.
_TAKEN = (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)


class FolderFile(Struct, frozen=True):
    path: str  # inside the folder, with `/`
    size: int
    changed: int  # nanoseconds: another content has another one, which code inside cannot set


class Usage(Struct, frozen=True):
    size: int
    files: int  # and folders
    # Deeper than anybody needs, or in folders that we may not read: what is there cannot be counted.
    hidden: bool = False

    def exceeds(self, limits: SandboxLimits) -> bool:
        return self.hidden or self.size > limits.disk or self.files > limits.files


class NotAFile(Exception):
    """There is no plain file of this name in the folder."""


def list_files(folder: Path, most: int = MOST_FILES) -> list[FolderFile]:
    """The plain files, in the order of their paths. Left out: links, pipes, sockets, devices, and names that are not UTF-8."""
    found = [
        FolderFile(path, status.st_size, status.st_ctime_ns)
        for path, status in _entries(folder, most)
        if stat.S_ISREG(status.st_mode) and _is_text(path)
    ]
    return sorted(found, key=lambda file: file.path)


def open_file(folder: Path, path: str) -> BinaryIO:
    """A file of the folder, for reading. Raises NotAFile."""
    with _parent(folder, path) as (parent, name):
        try:
            descriptor = os.open(name, _FILE, dir_fd=parent)
        except OSError as failed:
            raise NotAFile(path) from failed
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFile(path)
    return os.fdopen(descriptor, "rb")


def write_file(folder: Path, name: str, pieces: Iterable[bytes]) -> FolderFile:
    """Puts a file into the folder, in place of what has its name. The name is one part of a path: see `file_name`. Raises
    NotAFile if a folder has it, and OSError if the file could not be written."""
    if name != file_name(name):
        raise NotAFile(name)
    root = os.open(folder, _FOLDER)
    temporary = f".{secrets.token_hex(8)}.part"
    try:
        descriptor = os.open(temporary, _NEW_FILE, 0o644, dir_fd=root)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    file.write(piece)
                _give(descriptor, os.fstat(root).st_uid)
            os.rename(temporary, name, src_dir_fd=root, dst_dir_fd=root)
        except BaseException as failed:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=root)
            if isinstance(failed, OSError) and failed.errno in _TAKEN:
                raise NotAFile(name) from failed
            raise
        status = os.stat(name, dir_fd=root, follow_symlinks=False)
    finally:
        os.close(root)
    return FolderFile(name, status.st_size, status.st_ctime_ns)


def delete_file(folder: Path, path: str) -> bool:
    """Whether it was there. A link is deleted, never what it points to."""
    with contextlib.suppress(OSError, NotAFile), _parent(folder, path) as (parent, name):
        os.unlink(name, dir_fd=parent)
        return True
    return False


def file_name(name: str) -> str:
    """A name that a client has sent, as that of a file in the folder: its last part, without what cannot be in one."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    kept = "".join(letter for letter in last if letter.isprintable()).encode("utf-8", "ignore")[:200].decode("utf-8", "ignore")
    return kept if kept.strip(". ") else "file"


def usage(folder: Path, limits: SandboxLimits) -> Usage:
    """How much is in it. Counting ends where a limit is exceeded."""
    return _counted(_entries(folder, limits.files + 1), limits)


def shrink(folder: Path, limits: SandboxLimits) -> None:
    """Removes what was changed last, so that the folder is within its limits. Nothing is counted twice: code may leave
    thousands of entries."""
    entries = sorted(os.scandir(folder), key=_change_order)
    for entry in entries[_how_many_fit(folder, entries, limits) :]:
        if entry.is_dir(follow_symlinks=False):
            remove_folder(Path(entry.path))
        else:
            os.unlink(entry.path)


def _change_order(entry: os.DirEntry[str]) -> tuple[int, bool]:
    """When it was changed: a folder when something in it was, and what is in there goes with it. The clock of a file system may
    stand still for some milliseconds: a file then counts as the older one."""
    return entry.stat(follow_symlinks=False).st_ctime_ns, entry.is_dir(follow_symlinks=False)


def _how_many_fit(folder: Path, entries: Sequence[os.DirEntry[str]], limits: SandboxLimits) -> int:
    for at, entry in enumerate(entries):
        used = _counted(_with_contents(folder, entry, limits.files + 1), limits)
        if used.exceeds(limits):
            return at
        limits = structs.replace(limits, disk=limits.disk - used.size, files=limits.files - used.files)
    return len(entries)


def _counted(entries: Iterable[tuple[str, os.stat_result]], limits: SandboxLimits) -> Usage:
    size = files = 0
    hidden = False
    for path, status in entries:
        size, files = size + status.st_blocks * 512, files + 1
        is_folder = stat.S_ISDIR(status.st_mode)
        hidden = is_folder and (path.count("/") >= DEEPEST or not _is_readable(status))
        if hidden or size > limits.disk or files > limits.files:
            break
    return Usage(size, files, hidden)


def remove_folder(folder: Path) -> None:
    """Removes it with all that is in it, however deep: folders that are not empty are moved up before they are removed."""
    with contextlib.suppress(FileNotFoundError):
        root = os.open(folder, _FOLDER)
        try:
            while names := os.listdir(root):
                for name in names:
                    _remove_or_raise_up(root, name)
        finally:
            os.close(root)
        os.rmdir(folder)


def give_away(folder: Path, uid: int) -> None:
    """Makes the folder and what the gateway has put into it somebody's."""
    for _, _, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        _give(descriptor, uid)
        for file in files:
            os.chown(file, uid, uid, dir_fd=descriptor, follow_symlinks=False)


def _give(descriptor: int, uid: int) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, uid, uid)


def _remove_or_raise_up(root: int, name: str) -> None:
    status = os.stat(name, dir_fd=root, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=root)
        return
    os.chmod(name, 0o700, dir_fd=root)
    inner = os.open(name, _FOLDER, dir_fd=root)
    try:
        for child in os.listdir(inner):
            if stat.S_ISDIR(os.stat(child, dir_fd=inner, follow_symlinks=False).st_mode):
                os.rename(child, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=root)
            else:
                os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=root)


def _with_contents(folder: Path, entry: os.DirEntry[str], most: int) -> Iterator[tuple[str, os.stat_result]]:
    yield entry.name, entry.stat(follow_symlinks=False)
    if entry.is_dir(follow_symlinks=False):
        yield from _entries(folder, most, entry.name)


def _entries(folder: Path, most: int, inside: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """What is in the folder and below, without following links; at most so many. `inside`: of a folder in it."""
    waiting = [inside]
    while waiting:
        inside = waiting.pop()
        with contextlib.suppress(OSError, NotAFile), _opened(folder, inside) as descriptor, os.scandir(descriptor) as scanned:
            for entry in scanned:
                path = f"{inside}/{entry.name}" if inside else entry.name
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    most -= 1
                    if most < 0:
                        return
                    yield path, status
                    if stat.S_ISDIR(status.st_mode) and path.count("/") < DEEPEST:
                        waiting.append(path)


@contextlib.contextmanager
def _parent(folder: Path, path: str) -> Iterator[tuple[int, str]]:
    """The folder that a file is in, opened step by step, and the file's name in it."""
    parts = PurePosixPath(path)
    if parts.name in ("", "..") or "\0" in path:
        raise NotAFile(path)
    above = "" if str(parts.parent) == "." else str(parts.parent)
    with _opened(folder, above) as descriptor:
        yield descriptor, parts.name


@contextlib.contextmanager
def _opened(folder: Path, inside: str) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        for part in filter(None, inside.split("/")):
            if part == "..":
                raise NotAFile(inside)
            try:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError as failed:
                raise NotAFile(inside) from failed
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _is_readable(status: os.stat_result) -> bool:
    return os.geteuid() == 0 or status.st_mode & 0o500 == 0o500


def _is_text(path: str) -> bool:
    with contextlib.suppress(UnicodeEncodeError):
        path.encode("utf-8")
        return True
    return False


DELETED = b" (deleted)\n"


def unlinked_bytes(processes: Iterable[int], folder: Path) -> int:
    """How much such files use on the disk of `folder`. Those that are on their way to another process are not found, and only
    root sees those that are mapped and not open."""
    device = folder.stat().st_dev
    found: dict[int, int] = {}
    for pid in processes:
        for path in (*_open_files(pid), *_mapped(pid)):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev == device:
                    found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def _open_files(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    return []


def _mapped(pid: int) -> Iterator[str]:
    """One path for each file, however often it is mapped: the list may have thousands of lines, most of them of libraries."""
    seen: set[bytes] = set()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        for line in maps:
            if line.endswith(DELETED):
                area, _, _, device, inode = line.split(None, 5)[:5]
                if (file := device + inode) not in seen:
                    seen.add(file)
                    start, end = (int(address, 16) for address in area.split(b"-"))
                    yield f"/proc/{pid}/map_files/{start:x}-{end:x}"
