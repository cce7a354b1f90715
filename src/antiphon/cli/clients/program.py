"""The program that a command runs, and what the command was asked for."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

NOT_FOUND = "{name} was not found on the PATH. Install it with `npm install -g {package}`, then run this again."


class CannotStart(Exception):
    """The program cannot run. The message says why, and what to do about it."""


class Program(Struct, frozen=True):
    # As people call it.
    name: str
    # The name of its binary, and of Antiphon's command for it.
    command: str
    # In npm's registry.
    package: str
    # The variable from which its key of the gateway is read, if the settings have none.
    key_variable: str

    def find(self) -> str:
        """The path of its binary."""
        if (binary := shutil.which(self.command)) is None:
            raise CannotStart(NOT_FOUND.format(name=self.name, package=self.package))
        return binary


class Choice(Struct, frozen=True):
    """What a command was asked for."""

    # The arguments for the program.
    arguments: Sequence[str] = ()
    # What the program would get is printed. Nothing is started.
    only_prints: bool = False
    # The program keeps all of its features, whatever the model is.
    full: bool = False
    # The program is started even if the context window is too small for it.
    anyway: bool = False
    # Of a gateway.
    url: str | None = None
    # The file with the settings.
    file: Path | None = None

    @property
    def own_options(self) -> list[str]:
        """Those that decide which gateway is used."""
        file = ["--config", str(self.file)] if self.file is not None else []
        return [*(["--url", self.url] if self.url is not None else []), *file]
