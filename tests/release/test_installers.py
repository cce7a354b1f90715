"""The package with each program that people install it with: it works, and says how that program adds an extra to it."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import antiphon

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "release" / "smoke.py"
COMMANDS = {"uv": "uv tool install", "pipx": "pipx install", "pip": "pip install"}
# What the environment of the tests says of their own installation.
FOREIGN = ("PYTHON", "ANTIPHON_", "VIRTUAL_ENV", "UV_", "PIPX_")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with uv and pipx."""
    folder = tmp_path_factory.mktemp("programs")
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv", "pipx"], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout") / "antiphon"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, checkout], check=True)
    (wheel,) = folder.iterdir()
    return wheel


class Shell:
    """Of somebody who has the programs, and an environment for pip that is activated."""

    def __init__(self, folder: Path, programs: Path) -> None:
        own = folder / "own"
        venv.create(own, with_pip=True)
        self._folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | {
            "PATH": os.pathsep.join((str(own / "bin"), str(programs), os.environ["PATH"])),
            "UV_TOOL_DIR": str(folder / "uv"),
            "UV_TOOL_BIN_DIR": str(folder / "uv-bin"),
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "pipx-bin"),
            "ANTIPHON_DATA_DIR": str(folder / "data"),
        }

    def run(self, *command: str | Path, where: Path, code: int = 0, **more: str) -> str:
        done = subprocess.run(command, cwd=where, env=self.environment | more, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def binaries(self) -> Path:
        """Of the environment in which Antiphon is."""
        (found,) = {path.parent for path in self._folder.glob("**/bin/antiphon") if not path.is_symlink()}
        return found


@pytest.fixture
def shell(tmp_path: Path, programs: Path) -> Shell:
    return Shell(tmp_path, programs)


@pytest.mark.parametrize("program", COMMANDS)
def test_a_wheel_is_installed_works_and_gets_an_extra_by_the_command_that_it_names(
    program: str, shell: Shell, wheel: Path, tmp_path: Path
) -> None:
    shell.run("bash", "-c", f"{COMMANDS[program]} ./{wheel.name}", where=wheel.parent)
    binaries = shell.binaries()
    (tmp_path / "empty").mkdir()
    shell.run(binaries / "python", "-I", SMOKE, antiphon.__version__, ROOT, where=tmp_path / "empty")
    serve = (binaries / "antiphon", "serve", "--upstream", "http://127.0.0.1:1", "--port", "0")
    said = shell.run(*serve, where=tmp_path, code=2, ANTIPHON_OTEL="true")
    command = re.search(rf"In the folder with {re.escape(wheel.name)}: (.*)", said)
    assert command is not None, said
    assert command[1].startswith(COMMANDS[program])
    shell.run("bash", "-c", command[1], where=wheel.parent)
    shell.run(binaries / "python", "-c", "import opentelemetry.sdk", where=tmp_path)


@pytest.mark.parametrize("program", ["uv", "pipx"])
def test_a_checkout_is_installed_with_all_extras(program: str, shell: Shell, checkout: Path, tmp_path: Path) -> None:
    """The command of the README."""
    shell.run("bash", "-c", f"{COMMANDS[program]} '.[all]'", where=checkout)
    assert shell.run(shell.binaries() / "antiphon", "--version", where=tmp_path).strip() == f"antiphon {antiphon.__version__}"
