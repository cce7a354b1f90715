"""The wheel and the source distribution: built twice, compared, and compared with the sources."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "antiphon"


class ReleaseFails(Exception):
    """The message says what is wrong with the package."""


def commit_time() -> str:
    """The time that all files of the archives get, so that the same commit gives the same bytes."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def build(folder: Path, time: str) -> list[Path]:
    """The archives, in a folder that is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    environment = os.environ | {"SOURCE_DATE_EPOCH": time}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseFails(f"the package cannot be built:\n{done.stdout}{done.stderr}")
    return sorted(folder.iterdir())


def check_same(first: list[Path], second: list[Path]) -> None:
    differing = [one.name for one, other in zip(first, second, strict=True) if one.read_bytes() != other.read_bytes()]
    if differing:
        raise ReleaseFails(f"two builds of the same commit differ: {', '.join(differing)}")


def source_files(sources: Path = SOURCES) -> set[str]:
    """Modules and data: all that the package needs at run time."""
    files = (file.relative_to(sources.parent) for file in sources.rglob("*") if file.is_file())
    return {file.as_posix() for file in files if "__pycache__" not in file.parts}


def check_contents(wheel: Path, expected: set[str]) -> None:
    """Raises ReleaseFails if a file is missing, or was not meant to be there."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    if missing := sorted(expected - packed):
        raise ReleaseFails(f"{wheel.name} lacks files of the package: {', '.join(missing)}")
    if unknown := sorted(packed - expected):
        raise ReleaseFails(f"{wheel.name} has files that are not in the sources: {', '.join(unknown)}")


def checksums(files: list[Path]) -> str:
    """As `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
