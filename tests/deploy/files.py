"""The files in deploy/, read as the programs read them that they are for."""

import configparser
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes" / "antiphon.yaml"
SERVICE = DEPLOY / "systemd" / "antiphon.service"
CODE = DEPLOY / "systemd" / "antiphon-code.conf"
DASHBOARD = DEPLOY / "grafana" / "antiphon.json"
ALL = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def stages() -> dict[str, list[tuple[str, str]]]:
    """Of the Dockerfile, by their names: each instruction whole, without comments. The last stage has no name."""
    lines = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#"))
    found: dict[str, list[tuple[str, str]]] = {}
    for name, _, rest in (line.partition(" ") for line in lines.replace("\\\n", " ").splitlines()):
        if name == "FROM":
            found[rest.partition(" AS ")[2]] = stage = []
        stage.append((name, " ".join(rest.split()) if name not in {"HEALTHCHECK", "ENTRYPOINT"} else rest.strip()))
    return found


def instructions() -> list[tuple[str, str]]:
    """Of the image that is built without a target."""
    assert stages()[""] == [("FROM", "gateway")]
    return [*stages()["build"], *stages()["gateway"]]


def argument(name: str, stage: str = "gateway") -> str:
    """Of the last instruction of this name: it counts."""
    return [rest for found, rest in stages()[stage] if found == name][-1]


def image_environment() -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in shlex.split(argument("ENV")))


@cache
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


@cache
def manifests() -> dict[str, dict[str, Any]]:
    """By their kind."""
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(KUBERNETES.read_text())}


def service(*more: Path) -> dict[str, list[str]]:
    """The members of the section [Service] of the unit, and of its drop-ins: each may come several times, and an empty one
    takes back those before it."""
    members: dict[str, list[str]] = {}
    for path in (SERVICE, *more):
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(path.read_text())
        assert parser.sections() == (["Unit", "Service", "Install"] if path == SERVICE else ["Service"])
        section = re.split(r"^\[(\w+)\]$", path.read_text(), flags=re.MULTILINE)
        for line in section[section.index("Service") + 1].splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.partition("=")
                members[name] = [*members.get(name, ()), value] if value else []
    return members


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded
