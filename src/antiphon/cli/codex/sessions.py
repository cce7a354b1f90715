"""The sessions that Codex keeps in its folder, and how to continue one with Antiphon."""

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

# What the interactive Codex calls itself in its sessions. After others, it does not say how to continue them either.
INTERACTIVE = "cli"
# Codex itself has just named `codex resume ID`, which looks in the user's own folder.
CONTINUE = "This session is one of Antiphon's. To continue it, run:\n  {command}"


class _Meta(Struct):
    id: str
    # Of sessions that an agent has started, this is an object.
    source: str


class _FirstLine(Struct):
    payload: _Meta


def continue_hint(home: Path, since: float, options: Sequence[str], arguments: Sequence[str] = ()) -> str | None:
    """About the interactive session that was written last, if that was after `since`, a time in seconds since 1970; or about
    the one that `arguments`, those of Codex, name: it may have been looked at only. `options`: those of `antiphon codex`."""
    changed = {file: file.stat().st_mtime for file in home.glob("sessions/*/*/*/rollout-*.jsonl")}
    for file in sorted(changed, key=changed.__getitem__, reverse=True):
        if changed[file] < since and not file.stem.endswith(tuple(filter(_is_id, arguments))):
            continue
        if (session := _interactive(file)) is not None:
            return CONTINUE.format(command=shlex.join(["antiphon", "codex", *options, "resume", session]))
    return None


def _is_id(argument: str) -> bool:
    with contextlib.suppress(ValueError):
        return str(UUID(argument)) == argument
    return False


def _interactive(file: Path) -> str | None:
    with contextlib.suppress(OSError, msgspec.DecodeError), file.open("rb") as lines:
        meta = msgspec.json.decode(lines.readline(), type=_FirstLine).payload
        return meta.id if meta.source == INTERACTIVE else None
    return None
