"""Gateways announce themselves in a folder of their user, so that the other commands find them without an address.

A file says where a gateway listens. A lock that the gateway keeps on a second file says that it still runs: the system releases
it when the process ends, however that happens, and a number that now belongs to another process deceives nobody.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import platformdirs
from filelock import FileLock, Timeout
from msgspec import Struct

from antiphon.logs import log
from antiphon.settings.settings import APP, PREFIX

FOLDER = "gateways"
ONLY_THIS_USER = 0o600
# An address that stands for all addresses of a machine → one of them, to which its programs connect.
EVERY_ADDRESS: Mapping[str, str] = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class RunningGateway(Struct, frozen=True, kw_only=True):
    """What a gateway announces. It never contains a key."""

    # Without a path: http://127.0.0.1:8484
    url: str
    pid: int
    # When it was ready to accept requests, in seconds since 1970.
    started: float
    version: str
    # The Unix socket at which its supervisor takes commands. None: it is a single process.
    control: str | None = None


def local_url(host: str, port: int) -> str:
    """The address of a gateway that listens there, for programs on the same machine."""
    reachable = EVERY_ADDRESS.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def announcements_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The same for all commands of a user, whatever settings file each of them reads. Only the environment can move it."""
    data = environment.get(f"{PREFIX}DATA_DIR")
    return (Path(data) if data else platformdirs.user_data_path(APP, appauthor=False)) / FOLDER


@contextlib.contextmanager
def announce(url: str, version: str, folder: Path | None = None, *, control: str | None = None) -> Iterator[None]:
    """Until the end of the block, `find` finds this gateway. Where nothing can be written, it runs without being found."""
    folder = folder or announcements_folder()
    gateway = RunningGateway(url=url, pid=os.getpid(), started=time.time(), version=version, control=control)
    # Processes of several containers may have the same number.
    file = folder / f"{gateway.pid}-{secrets.token_hex(4)}.json"
    lock = _lock_of(file)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before the file, which would be taken for one that was left behind.
        lock.acquire()
        _write(file, msgspec.json.encode(gateway))
    except OSError as reason:
        log("gateway not announced", folder=str(folder), reason=str(reason))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            _remove(file, lock)


def find(folder: Path | None = None) -> list[RunningGateway]:
    """The gateways that run, the newest first. Files of those that do not run any more are removed."""
    files = (folder or announcements_folder()).glob("*.json")
    found = [gateway for file in files if (gateway := _read(file)) is not None]
    return sorted(found, key=lambda gateway: gateway.started, reverse=True)


def _read(file: Path) -> RunningGateway | None:
    lock = _lock_of(file)
    with contextlib.suppress(OSError, msgspec.DecodeError, Timeout):
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return msgspec.json.decode(file.read_bytes(), type=RunningGateway)
        _remove(file, lock)
    return None


def _lock_of(file: Path) -> FileLock:
    return FileLock(file.with_suffix(".lock"), mode=ONLY_THIS_USER)


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all: others may read it at any time."""
    temporary = file.with_suffix(".new")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, ONLY_THIS_USER), "wb") as opened:
        opened.write(content)
    temporary.replace(file)


def _remove(file: Path, lock: FileLock) -> None:
    file.unlink(missing_ok=True)
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)
