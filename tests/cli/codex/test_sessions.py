"""How to continue a session of Codex with Antiphon."""

import os
from pathlib import Path

import msgspec
import pytest

from antiphon.cli.codex.command import continue_hint

OLD = "01a1e3ab-d95d-7132-9a21-ba70f05a0394"
NEW = "01a1e3ab-0000-7132-9a21-ba70f05a0395"
BEGAN = 1000.0


def write_session(home: Path, id: str, written: float, source: str = "cli") -> None:
    folder = home / "sessions" / "2026" / "11" / "16"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"rollout-2026-11-16T09-00-00-{id}.jsonl"
    file.write_bytes(msgspec.json.encode({"payload": {"id": id, "source": source}}) + b"\n")
    os.utime(file, (written, written))


@pytest.mark.parametrize(
    ("arguments", "session"),
    [
        ([], None),
        (["resume", OLD], OLD),
        (["resume", "--last"], None),
        # An end of the name that is no id.
        (["resume", OLD[-4:]], None),
        (["resume", NEW], None),
    ],
)
def test_a_session_that_was_only_looked_at_is_named_if_it_was_asked_for(
    tmp_path: Path, arguments: list[str], session: str | None
) -> None:
    write_session(tmp_path, OLD, BEGAN - 1)
    hint = continue_hint(tmp_path, BEGAN, [], arguments)
    assert (hint or "").partition("resume ")[2] == (session or "")


def test_a_session_that_was_written_since_comes_first(tmp_path: Path) -> None:
    write_session(tmp_path, OLD, BEGAN - 1)
    write_session(tmp_path, NEW, BEGAN + 1)
    assert f"resume {NEW}" in (continue_hint(tmp_path, BEGAN, [], ["resume", OLD]) or "")
