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


def say(line: str) -> None:
    """At once, also where standard output is a file or a pipe."""
    print(line, flush=True)


def version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (SOURCES / "__init__.py").read_text(), re.M)
    assert found is not None
    return found[1]


def warn_of_changes() -> None:
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    if changed:
        say(f"Warning: there are changes that are not committed, and they are part of this build:\n{changed}")


def make(folder: Path) -> None:
    warn_of_changes()
    time = commit_time()
    say("Building a wheel and a source distribution into dist/")
    archives = build(DIST, time)
    say("Building them again, to compare them byte by byte")
    check_same(archives, build(folder / "again", time))
    (wheel,) = (archive for archive in archives if archive.suffix == ".whl")
    check_contents(wheel, source_files())
    say(f"Built, twice the same: {', '.join(archive.name for archive in archives)}")
    say("Installing the wheel into a clean environment")
    environment = CleanEnvironment(folder / "environment")
    environment.install(wheel)
    (folder / "empty").mkdir()
    say("Trying the library, the command and a gateway there")
    say(environment.smoke_test(folder / "empty", version()).rstrip())
    say("Installing all extras there. This takes a minute or two")
    environment.install(wheel, EVERYTHING)
    say("Listing the components of that installation")
    components = DIST / f"antiphon-{version()}.cdx.json"
    environment.list_components(components, version())
    sums = checksums([*archives, components])
    (DIST / "SHA256SUMS").write_text(sums)
    say(f"In dist/, with their checksums in SHA256SUMS:\n{sums.rstrip()}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-release-") as folder:
        try:
            make(Path(folder))
        except ReleaseFails as reason:
            sys.exit(f"release: {reason}")


if __name__ == "__main__":
    main()
