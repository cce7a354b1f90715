"""`python -m release.sizes`: the megabytes that the core and each extra download, as docs/quick_start.md has them."""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.clean_environment import CONSTRAINTS
from release.package import ROOT

# What stands for others, and what only the development needs.
NOT_LISTED = frozenset({"all", "dev", "browser"})


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True, stdout=sys.stderr)


def needed(requirements: Sequence[str], wheels: Path, report: Path) -> frozenset[str]:
    """The names of the wheels that an empty environment would get for these requirements."""
    where = ("--dry-run", "--ignore-installed", "--no-index", "--find-links", str(wheels), "--report", str(report))
    # Isolated: other folders of wheels, which this machine may know, have other versions.
    pip("--isolated", "install", *where, *requirements)
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return frozenset(each["download_info"]["url"].rpartition("/")[2] for each in installed)


def megabytes(names: frozenset[str], wheels: Path) -> float:
    # Addresses have other characters percent-encoded; the name of a wheel has none of those but "+".
    return sum((wheels / name.replace("%2B", "+")).stat().st_size for name in names) / 1e6


def measured(core: Sequence[str], extras: Mapping[str, Sequence[str]], folder: Path) -> dict[str, float]:
    """ "core" has what is always downloaded; an extra has what it adds to that."""
    wheels = folder / "wheels"
    everything = [*core, *(requirement for requirements in extras.values() for requirement in requirements)]
    pip("download", "--only-binary", ":all:", "--constraint", str(CONSTRAINTS), "--dest", str(wheels), *everything)
    always = needed(core, wheels, folder / "report.json")
    sizes = {"core": megabytes(always, wheels)}
    for extra, requirements in extras.items():
        sizes[extra] = megabytes(needed([*core, *requirements], wheels, folder / "report.json") - always, wheels)
    return sizes | {"all": megabytes(needed(everything, wheels, folder / "report.json") - always, wheels)}


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in NOT_LISTED}
    with tempfile.TemporaryDirectory(prefix="antiphon-sizes-") as folder:
        for name, size in measured(project["dependencies"], extras, Path(folder)).items():
            print(f"{name:10} {size:6.1f} MB")


if __name__ == "__main__":
    main()
