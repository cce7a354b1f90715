"""Fetches models from the Hugging Face hub. Its own library knows where the hub is, its tokens and proxies."""

import asyncio
import hashlib
import importlib.util
import re
from pathlib import Path

import msgspec

from antiphon.child_processes.child import killed_if_cancelled, python_command
from antiphon.engines.embedded import CannotEmbed, WrongBytes
from antiphon.engines.embedded.downloads import DownloadFailed, download
from antiphon.engines.embedded.hub_process import REPORTED, HubAddress
from antiphon.engines.embedded.named_models import HubFile, ModelFile, Source
from antiphon.engines.embedded.progress import Candidate, Progress, ShowProgress, sha256_of
from antiphon.installation import missing_extra
from antiphon.logs import log

PREFIX = "hf:"
FORM = f"{PREFIX}OWNER/NAME/FILE.gguf"
# The hub's tag of a large file is its checksum.
_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse_hub_name(model: str) -> tuple[str, str, str]:
    """Owner, repository and file of a name that is written as in FORM."""
    owner, _, rest = model.removeprefix(PREFIX).partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise CannotEmbed(f"a model from the Hugging Face hub is written {FORM}, not {model}")
    return owner, repository, file


async def fetch_from_hub(model: str, show: ShowProgress) -> Path:
    """The file stays in the library's own cache."""
    owner, repository, file = parse_hub_name(model)
    try:
        with show(file) as progress:
            return Path(await _library("download", f"{owner}/{repository}", file, progress=progress))
    except LibraryFailed as failed:
        raise CannotEmbed(f"{model} could not be downloaded: {failed}") from None


async def fetch_hub_file(
    model: ModelFile, source: Source, workplace: Path, first_pause: float, show: ShowProgress
) -> Candidate:
    assert isinstance(source, HubFile)
    with show(model.name) as progress:
        path = await _resumable(model, source, workplace, progress, first_pause)
        if path is None:
            folder = str(workplace / "library")
            path = Path(await _library("download", source.repository, source.file, folder, progress=progress))
    with show(model.name, "Checking") as progress:
        return Candidate(path, await sha256_of(path, progress))


async def _resumable(model: ModelFile, source: HubFile, workplace: Path, progress: Progress, first_pause: float) -> Path | None:
    """The library begins a file that was interrupted again, so it is only asked for the address. None: the server at that
    address gives us nothing, but perhaps it does to the library."""
    while True:
        address = msgspec.json.decode(await _library("find", source.repository, source.file), type=HubAddress)
        if _SHA256.fullmatch(address.tag) and address.tag != model.sha256:
            raise WrongBytes(f"it has other bytes than the known ones: their SHA-256 is {address.tag}, not {model.sha256}")
        # The name identifies the content, so that a part is never completed with another file's bytes.
        part = workplace / f"{hashlib.sha256(address.tag.encode()).hexdigest()[:16]}.gguf.part"
        before = _size(part)
        if before == model.size:
            # An earlier run ended before it had verified the file.
            progress(before, model.size)
            return part
        try:
            await download(address.url, part, progress, first_pause=first_pause)
        except DownloadFailed as failed:
            if _size(part) == before == 0:
                log("download failed", what=source.file, reason=str(failed))
                return None
            if _size(part) <= before:
                raise CannotEmbed(str(failed)) from None
            # It grew. Perhaps the address is no longer valid: there is a new one for the rest.
        else:
            return part


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class LibraryFailed(CannotEmbed):
    """The message is the library's."""


async def _library(*arguments: str, progress: Progress | None = None) -> str:
    """Runs the library in a process: in a thread it could not be stopped. `progress`: of what it downloads."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise CannotEmbed(missing_extra("a model from the Hugging Face hub", "hf"))
    command = python_command("antiphon.engines.embedded.hub_process", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    output = ""
    async with killed_if_cancelled(process):
        async for line in process.stdout:
            output = line.decode(errors="replace").strip()
            if progress is not None and (reported := REPORTED.fullmatch(output)) is not None:
                progress(int(reported[1]), int(reported[2]))
        await process.wait()
    if process.returncode != 0:
        raise LibraryFailed(output or f"exit code {process.returncode}")
    return output
