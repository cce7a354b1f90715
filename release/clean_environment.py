"""An environment with nothing but the package and its pinned dependencies, in which it is tried."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from release.package import ROOT, ReleaseFails

SMOKE = Path(__file__).with_name("smoke.py")
CONSTRAINTS = ROOT / "constraints.txt"


class CleanEnvironment:
    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        self.python = folder / scripts / "python"
        # Of older Pythons, an environment has it. It would hide that something needs it, and be listed.
        self._run("pip", "uninstall", "--quiet", "--yes", "setuptools")

    def install(self, wheel: Path, extra: str = "") -> None:
        requirement = f"{wheel}[{extra}]" if extra else str(wheel)
        self._run("pip", "--disable-pip-version-check", "install", "--quiet", "--constraint", str(CONSTRAINTS), requirement)

    def smoke_test(self, empty: Path, version: str) -> str:
        """In a folder outside the sources, without anything of theirs in the environment."""
        foreign = ("PYTHON", "ANTIPHON_", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        done = subprocess.run(
            [self.python, "-I", SMOKE, version, ROOT], cwd=empty, env=environment, capture_output=True, text=True, timeout=300
        )
        if done.returncode != 0:
            raise ReleaseFails(f"the installed package does not work:\n{done.stdout}{done.stderr}")
        return done.stdout

    def list_components(self, to: Path, version: str) -> None:
        """The software bill of materials, as CycloneDX."""
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-format", "JSON"]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(to), str(self.python)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise ReleaseFails(f"the components cannot be listed:\n{done.stderr}")
        listed = json.loads(to.read_text())
        # pyproject.toml does not say it, because the version is in the sources.
        listed["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/antiphon@{version}"}
        to.write_text(json.dumps(listed, indent=2) + "\n")

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([self.python, "-m", *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise ReleaseFails(f"{' '.join(arguments)} fails:\n{done.stderr}")
