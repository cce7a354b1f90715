"""Builds a release in dist/, and fails if anything is wrong with it."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from release.clean_environment import CleanEnvironment
from release.package import ROOT, SOURCES, ReleaseFails, build, check_contents, check_same, checksums, commit_time, source_files

DIST = ROOT / "dist"
# For the list of components: all that an installation can have.
EVERYTHING = "all"


def version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (SOURCES / "__init__.py").read_text(), re.M)
    assert found is not None
    return found[1]


def warn_of_changes() -> None:
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    if changed:
        print(f"Warning: there are changes that are not committed, and they are part of this build:\n{changed}")


def make(folder: Path) -> None:
    warn_of_changes()
    time = commit_time()
    archives = build(DIST, time)
    check_same(archives, build(folder / "again", time))
    (wheel,) = (archive for archive in archives if archive.suffix == ".whl")
    check_contents(wheel, source_files())
    print(f"built, twice the same: {', '.join(archive.name for archive in archives)}")
    environment = CleanEnvironment(folder / "environment")
    environment.install(wheel)
    (folder / "empty").mkdir()
    print(environment.smoke_test(folder / "empty", version()), end="")
    environment.install(wheel, EVERYTHING)
    components = DIST / f"antiphon-{version()}.cdx.json"
    environment.list_components(components, version())
    sums = checksums([*archives, components])
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-release-") as folder:
        try:
            make(Path(folder))
        except ReleaseFails as reason:
            sys.exit(f"release: {reason}")


if __name__ == "__main__":
    main()
