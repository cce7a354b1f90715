"""Measured figures as a Markdown table, and as a file with which a later tree is compared."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One figure. `value` is given where two trees can be compared by a percentage."""

    what: str
    measured: str
    target: str = ""
    value: float | None = None
    names: tuple[str, ...] = ()


class Figures(msgspec.Struct, frozen=True):
    """All rows of one tree. `of` says which tree that was, `measured_with` on which Python, and with which tools."""

    of: str
    measured_with: str
    rows: tuple[Row, ...]


def read_figures(path: Path) -> Figures:
    return msgspec.json.decode(path.read_bytes(), type=Figures)


def write_figures(path: Path, figures: Figures) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")


def to_markdown(rows: Sequence[Row], before: Figures | None = None) -> str:
    """A column "before" is added where there are earlier figures. A row is known by its first column."""
    heads = ["what", "target", "measured", *(["before"] if before else [])]
    lines = [heads, ["---"] * len(heads)]
    earlier = {row.what: row for row in before.rows} if before else {}
    for row in rows:
        old = earlier.get(row.what)
        lines.append(
            [row.what, row.target, row.measured + _change(row, old), *([old.measured if old else ""] if before else [])]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names_to_markdown(rows: Iterable[Row]) -> str:
    """The names behind the figures, for those rows that have any."""
    return "\n\n".join(f"{row.what}:\n" + "\n".join(f"- {name}" for name in row.names) for row in rows if row.names)


def _change(row: Row, old: Row | None) -> str:
    if old is None or not old.value or row.value is None:
        return ""
    return f" ({100 * (row.value / old.value - 1):+.1f} %)"
