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
from release import __main__ as release
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


def test_each_step_is_said_before_it_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They take minutes. Here none of them does anything, but look at what has been said so far."""
    said: dict[str, str] = {}

    def begun(step: str) -> None:
        (*_, said[step]) = capsys.readouterr().out.splitlines()

    class Environment:
        def __init__(self, folder: Path) -> None:
            begun("environment")

        def install(self, wheel: Path, extra: str = "") -> None:
            if extra:
                begun("extras")

        def smoke_test(self, empty: Path, version: str) -> str:
            begun("trial")
            return "it works\n"

        def list_components(self, to: Path, version: str) -> None:
            begun("components")
            to.write_text("{}")

    def build(folder: Path, time: str) -> list[Path]:
        begun("again" if said else "build")
        return [wheel_of(tmp_path, *source_files())]

    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(release, "build", build)
    monkeypatch.setattr(release, "CleanEnvironment", Environment)
    release.make(tmp_path)
    assert said == {
        "build": "Building a wheel and a source distribution into dist/",
        "again": "Building them again, to compare them byte by byte",
        "environment": "Installing the wheel into a clean environment",
        "trial": "Trying the library, the command and a gateway there",
        "extras": "Installing all extras there. This takes a minute or two",
        "components": "Listing the components of that installation",
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_release_is_built_tried_and_listed(tmp_path: Path) -> None:
    clone = tmp_path / "antiphon"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANTIPHON_"))}
    command = [MAKE, "release", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = iter(done.stdout.splitlines())
    for step in (
        "Building a wheel and a source distribution into dist/",
        "Building them again, to compare them byte by byte",
        f"Built, twice the same: antiphon-{antiphon.__version__}-py3-none-any.whl, antiphon-{antiphon.__version__}.tar.gz",
        "Installing the wheel into a clean environment",
        "Trying the library, the command and a gateway there",
        "Installing all extras there. This takes a minute or two",
        "Listing the components of that installation",
        "In dist/, with their checksums in SHA256SUMS:",
    ):
        assert step in said, f"{step} is not said, or not in this place: {done.stdout}"
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
