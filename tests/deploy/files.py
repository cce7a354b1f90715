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
DASHBOARD = DEPLOY / "grafana" / "antiphon.json"
ALL = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: each one whole, without comments."""
    lines = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#"))
    found = [line.partition(" ") for line in lines.replace("\\\n", " ").splitlines()]
    return [(name, " ".join(rest.split()) if name != "HEALTHCHECK" else rest.strip()) for name, _, rest in found]


def argument(name: str) -> str:
    """Of the last instruction of this name: it counts."""
    return [rest for found, rest in instructions() if found == name][-1]


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


def service() -> dict[str, list[str]]:
    """The members of the section [Service]: each may come several times."""
    section = re.split(r"^\[(\w+)\]$", SERVICE.read_text(), flags=re.MULTILINE)
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(SERVICE.read_text())
    assert parser.sections() == ["Unit", "Service", "Install"]
    members: dict[str, list[str]] = {}
    for line in section[section.index("Service") + 1].splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            members.setdefault(name, []).append(value)
    return members


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded
