"""The folder of prompts: `ID.md`, or `ID@VERSION.md`, each a text with TOML between two lines of +++ before it."""

import asyncio
import logging
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from antiphon.core.protocols.responses.fields import refuse_unsupported
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.errors import ApiError
from antiphon.gateway.stored_prompts.prompts import FIELDS, VARIABLE, StoredPrompt, StoredPrompts
from antiphon.logs import log
from antiphon.patterns import late_pattern

# Seconds between two looks at the files.
INTERVAL = 2.0
# The most bytes of a file.
LARGEST = 1024 * 1024
_BEGIN = late_pattern(r"\A\+\+\+[ \t]*(?:\n|\Z)")
_FRONT = late_pattern(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_NAME = late_pattern(r"([A-Za-z0-9_.-]+?)(?:@([A-Za-z0-9_.-]+))?\.md")


class UnusablePrompt(Exception):
    """A file that cannot be used. The message names it."""


def read_folder(folder: Path) -> StoredPrompts:
    """Raises UnusablePrompt."""
    if not folder.is_dir():
        raise UnusablePrompt(f"{folder} is not a folder")
    return StoredPrompts(map(_read, _files(folder)))


def _files(folder: Path) -> list[Path]:
    """Editors and file systems keep hidden files beside those that they write."""
    return sorted(file for file in folder.glob("*.md") if not file.name.startswith("."))


def _read(file: Path) -> StoredPrompt:
    named = _NAME.fullmatch(file.name)
    if named is None:
        raise UnusablePrompt(f"{file}: a name has letters, digits, - _ and ., and may end with @VERSION")
    try:
        text = _text(file)
        front = _FRONT.match(text)
        members = tomllib.loads(front[1]) if front is not None else {}
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as broken:
        raise UnusablePrompt(f"{file}: {broken}") from None
    if front is None and _BEGIN.match(text):
        raise UnusablePrompt(f"{file}: the first +++ has no second one")
    body = text[front.end() :].strip() if front is not None else text.strip()
    defaults = members.pop("variables", {})
    _check(file, body, members, defaults)
    try:
        request, _ = body_to_request(msgspec.json.encode({**members, "input": ""}))
        refuse_unsupported(request)
    except ApiError as wrong:
        raise UnusablePrompt(f"{file}: {wrong.message}") from None
    return StoredPrompt(named[1], named[2], body, defaults, request)


def _text(file: Path) -> str:
    # To open a pipe would wait for its other end.
    if not file.is_file():
        raise UnusablePrompt(f"{file} is not a file, or a link to none")
    if file.stat().st_size > LARGEST:
        raise UnusablePrompt(f"{file}: a prompt has at most {LARGEST:,} bytes")
    return file.read_text(encoding="utf-8-sig")


def _check(file: Path, body: str, members: dict[str, Any], defaults: Any) -> None:
    if unknown := sorted(members.keys() - set(FIELDS)):
        raise UnusablePrompt(f"{file}: {unknown[0]} must be one of: {', '.join((*FIELDS, 'variables'))}")
    if not isinstance(defaults, dict) or not all(isinstance(each, str) for each in defaults.values()):
        raise UnusablePrompt(f"{file}: variables must be a table of texts, each the value of a variable that is not given")
    if unused := sorted(defaults.keys() - set(VARIABLE.findall(body))):
        raise UnusablePrompt(f"{file}: the text has no variable {{{{{unused[0]}}}}}")


def _state(folder: Path) -> list[tuple[str, tuple[int, ...]]]:
    """Which changes if a file does, or who may read it."""

    def of(file: Path) -> tuple[int, ...]:
        try:
            found = file.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    return [(file.name, of(file)) for file in _files(folder)]


async def watch_folder(folder: Path, use: Callable[[StoredPrompts], None], interval: float = INTERVAL) -> None:
    """Reads it again whenever it has changed. Files that cannot be used change nothing."""
    state: list[tuple[str, tuple[int, ...]]] | None = None
    while True:
        try:
            found = await asyncio.to_thread(_state, folder)
            if found != state:
                state = found
                use(await asyncio.to_thread(read_folder, folder))
        except (UnusablePrompt, OSError) as unusable:
            log("prompts not read", level=logging.ERROR, reason=str(unusable))
        await asyncio.sleep(interval)
