"""The extras of the installation, and the command that adds one to it.

Antiphon is in no public index, so that is a checkout or a wheel. A package by itself might come in another version.
"""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

# As in pyproject.toml: extra → the packages that it installs.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "embedded": ("huggingface_hub", "pip", "xllamacpp"),
    "hf": ("huggingface_hub",),
    "postgres": ("asyncpg",),
    "pdf": ("pypdf",),
    "files": ("charset-normalizer", "pypdf"),
    "web": ("trafilatura", "lxml_html_clean"),
    "browser": ("playwright",),
    "code": ("matplotlib", "numpy", "pandas"),
    "mcp": ("mcp",),
    "search": ("numpy", "threadpoolctl", "tokenizers", "usearch", "wordllama"),
    "otel": ("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"),
}

# The file that a way of installing leaves in the root of the environment → the command. All of these make the environment
# anew, so they name every extra that is to be there. The last file is made by deploy/Dockerfile.
IMAGE = "antiphon-image"
MADE_ANEW: Mapping[str, str] = {
    "uv-receipt.toml": "uv tool install --force '{place}[{extras}]'",
    "pipx_metadata.json": "pipx install --force '{place}[{extras}]'",
    IMAGE: "docker build -f deploy/Dockerfile -t antiphon --build-arg EXTRAS={extras} .",
}


class Installation(NamedTuple):
    """How Antiphon was installed."""

    # The interpreter, in the environment with this root.
    python: Path
    prefix: Path
    # "pip" or "uv", which write it down.
    installer: str
    # The wheel or the checkout that it was installed from. None: nobody has written it down.
    source: Path | None
    editable: bool
    # Those of which every package is there.
    extras: frozenset[str]

    def advice(self, extra: str) -> str:
        """The command that adds the extra, and where it is typed. It names no folder of this machine: clients see it, too."""
        where = "In a checkout of Antiphon" if self._place == "." else f"In the folder with {self._place[2:]}"
        return f"{where}: {self._command(extra)}"

    def _command(self, extra: str) -> str:
        for file, command in MADE_ANEW.items():
            if (self.prefix / file).exists():
                return command.format(place=self._place, extras=",".join(sorted(_largest({*self.extras, extra}))))
        return f"{self._installer} {'--editable ' * self.editable}'{self._place}[{extra}]'"

    @property
    def _place(self) -> str:
        wheel = self.source is not None and self.source.suffix == ".whl" and not (self.prefix / IMAGE).exists()
        return f"./{self.source.name}" if self.source is not None and wheel else "."

    @property
    def _installer(self) -> str:
        """Of an environment inside the checkout, with its interpreter; of another one, as it is typed where it is activated."""
        inside = self.source is not None and self.python.is_relative_to(self.source)
        python = self.python.relative_to(self.source).as_posix() if inside and self.source is not None else None
        if self.installer == "uv":
            return f"uv pip install --python {python}" if python else "uv pip install"
        return f"{python} -m pip install" if python else "pip install"


def own_command() -> str:
    """What a person types in the folder of this process to run `antiphon`. `make serve` installs it where no `PATH` leads."""
    if shutil.which("antiphon") is not None:
        return "antiphon"
    installed = shutil.which("antiphon", path=str(Path(sys.executable).parent))
    if installed is None:
        return f"{sys.executable} -m antiphon"
    place = Path(installed)
    return str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)


def as_typed(message: str) -> str:
    """A message for the person at this terminal, in which commands of Antiphon, such as `antiphon doctor`, can be typed."""
    return re.sub(r"`antiphon(?=[ `])", lambda _: f"`{own_command()}", message)


def missing_extra(what: str, extra: str) -> str:
    """What the operator has to do. `what`: needs the extra."""
    return f"{what} needs the extra {extra}, which is not installed. {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    assert extra in EXTRAS
    return this_installation().advice(extra)


def this_installation() -> Installation:
    # It takes longer to import than most of Antiphon, and is needed for a message only.
    from importlib.metadata import PackageNotFoundError, distribution

    def is_there(package: str) -> bool:
        try:
            distribution(package)
        except PackageNotFoundError:
            return False
        return True

    extras = frozenset(extra for extra, packages in EXTRAS.items() if all(map(is_there, packages)))
    python, prefix = Path(sys.executable), Path(sys.prefix)
    try:
        files = distribution("antiphon")
    except PackageNotFoundError:
        return Installation(python, prefix, "pip", None, False, extras)
    # Imported here: it brings all of `http` and `email`, for which other processes than a gateway have no use.
    from urllib.request import url2pathname

    address = json.loads(files.read_text("direct_url.json") or "{}")
    source = urlsplit(address.get("url", ""))
    return Installation(
        python,
        prefix,
        (files.read_text("INSTALLER") or "pip").strip(),
        Path(url2pathname(source.path)) if source.scheme == "file" else None,
        address.get("dir_info", {}).get("editable", False),
        extras,
    )


def _largest(extras: set[str]) -> set[str]:
    """Without those whose packages another one has as well."""
    return {one for one in extras if not any({*EXTRAS[one]} < {*EXTRAS[other]} for other in extras)}
