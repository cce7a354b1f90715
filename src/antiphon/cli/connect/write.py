"""Writes a configuration into the file of a client: only where nothing of the user's can be lost, and with a backup."""

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.connect.client import Client, Facts
from antiphon.errors import UNREADABLE

BACKUP = ".before-antiphon"
# It may have a key in it.
ONLY_THIS_USER = 0o600

HAS_NO_FILE = "For {title}, nothing can be written: there is no one file for it. `antiphon connect {name}` prints it."
PRINTS = "`antiphon connect {name}` prints what belongs in it."
IS_THERE = "{path} is there already. It is not changed, because only JSON can be added to. " + PRINTS
NOT_PLAIN = "{path} is not changed: it has comments, or is no JSON object. " + PRINTS
NOT_WRITTEN = "{path} could not be written: {reason}"


class CannotWrite(Exception):
    """Nothing was changed. The message says why."""


def write(client: Client, facts: Facts) -> tuple[Path, Path | None]:
    """The file, and the copy of what it was before. No copy: it is new, or had all of it already."""
    if client.file is None:
        raise CannotWrite(HAS_NO_FILE.format(title=client.title, name=client.name))
    path = Path(client.file).expanduser().absolute()
    try:
        before = path.read_bytes() if path.exists() else None
        content = client.render(facts).encode() if before is None else _added(client, facts, path, before)
        backup = None
        if content != before:
            backup = _back_up(path) if before is not None else None
            _replace(path.resolve(), content)
    except OSError as failed:
        raise CannotWrite(NOT_WRITTEN.format(path=path, reason=failed.strerror or failed)) from None
    return path, backup


def _added(client: Client, facts: Facts, path: Path, before: bytes) -> bytes:
    """What the file has, and what the client needs beside it."""
    if client.config is None:
        raise CannotWrite(IS_THERE.format(path=path, name=client.name))
    try:
        own = msgspec.json.decode(before)
    except UNREADABLE:
        own = None
    ours = client.config(facts)
    if not isinstance(own, dict) or not isinstance(ours, dict):
        raise CannotWrite(NOT_PLAIN.format(path=path, name=client.name))
    merged = _merged(own, ours)
    return before if merged == own else msgspec.json.format(msgspec.json.encode(merged), indent=2) + b"\n"


def _merged(own: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Ours wins where both have a value; objects are merged."""
    merged = dict(own)
    for name, value in ours.items():
        there = merged.get(name)
        merged[name] = _merged(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return merged


def _back_up(path: Path) -> Path:
    """An earlier copy is kept."""
    number, backup = 1, path.with_name(path.name + BACKUP)
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}{BACKUP}-{number}")
    shutil.copy2(path, backup)
    return backup


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all. A file that was there keeps its permissions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, ONLY_THIS_USER), "wb") as opened:
        opened.write(content)
    if path.exists():
        shutil.copymode(path, temporary)
    temporary.replace(path)
