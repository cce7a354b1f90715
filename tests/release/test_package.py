"""`make release`: what it finds wrong with a package, and that its own package has nothing wrong."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import antiphon
from release.package import ReleaseFails, check_contents, check_same, checksums, source_files

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make") or "make"


def wheel_of(folder: Path, *names: str) -> Path:
    path = folder / "antiphon-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*names, "antiphon-0.dist-info/METADATA"):
            archive.writestr(name, "")
    return path


def test_the_sources_have_data_beside_the_modules() -> None:
    files = source_files()
    assert {"antiphon/__init__.py", "antiphon/py.typed", "antiphon/engines/embedded/chatml_tools.jinja"} <= files
    assert not any("__pycache__" in file for file in files)


def test_a_wheel_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    expected = {"antiphon/__init__.py", "antiphon/py.typed"}
    check_contents(wheel_of(tmp_path, *expected), expected)
    with pytest.raises(ReleaseFails, match=r"lacks files of the package: antiphon/py\.typed"):
        check_contents(wheel_of(tmp_path, "antiphon/__init__.py"), expected)


def test_a_wheel_with_more_than_the_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseFails, match=r"not in the sources: antiphon/secret\.txt"):
        check_contents(wheel_of(tmp_path, "antiphon/__init__.py", "antiphon/secret.txt"), {"antiphon/__init__.py"})


def test_two_builds_that_differ_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    other.write_text("a")
    check_same([one], [other])
    other.write_text("b")
    with pytest.raises(ReleaseFails, match="differ: one"):
        check_same([one], [other])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_release_is_built_tried_and_listed(tmp_path: Path) -> None:
    clone = tmp_path / "antiphon"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANTIPHON_"))}
    command = [MAKE, "release", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the library, the command and a gateway work" in done.stdout
    dist = clone / "dist"
    archives = sorted(file for file in dist.iterdir() if file.suffix in (".whl", ".gz", ".json"))
    assert sorted(file.suffix for file in archives) == [".gz", ".json", ".whl"]
    assert sorted((dist / "SHA256SUMS").read_text().splitlines()) == sorted(checksums(archives).splitlines())
    (listed,) = dist.glob("*.cdx.json")
    components = json.loads(listed.read_text())
    assert components["bomFormat"] == "CycloneDX"
    component = components["metadata"]["component"]
    assert (component["name"], component["version"]) == ("antiphon", antiphon.__version__)
    names = {component["name"] for component in components["components"]}
    assert {"aiohttp", "asyncpg", "msgspec"} <= names
    # Only what an installation needs.
    assert names.isdisjoint({"pytest", "setuptools", "hatchling"})
