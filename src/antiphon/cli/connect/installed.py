"""What is installed here: commands on the PATH, packages of Python and Node in the environment of the current folder."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

from antiphon.cli.connect.client import Client


class Installed:
    """What is looked up once for all clients."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._path = environment.get("PATH")
        self._modules = folder / "node_modules"
        self._python = {
            (package.metadata["Name"] or "").lower(): package.version
            for package in distributions(path=list(_site_packages(folder, environment)))
        }

    def find(self, client: Client) -> str | None:
        """Where it is, or its version; None: it is not here."""
        if client.command is not None and (found := shutil.which(client.command, path=self._path)) is not None:
            return found
        if client.python is not None and client.python in self._python:
            return f"{client.python} {self._python[client.python]}"
        if client.node is not None and (self._modules / client.node).is_dir():
            return str(self._modules / client.node)
        if client.folder is not None:
            pattern = Path(client.folder).expanduser()
            return next((str(found) for found in sorted(pattern.parent.glob(pattern.name))), None)
        return None


def _site_packages(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Of the environment that is active, of one in the folder, and of the one that this command runs in."""
    active = environment.get("VIRTUAL_ENV")
    for root in (*((Path(active),) if active else ()), folder / ".venv"):
        yield from (str(found) for found in (*root.glob("lib/python*/site-packages"), *root.glob("Lib/site-packages")))
    yield from (each for each in sys.path if each)
