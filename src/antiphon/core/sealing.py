"""Sealed text: what a client carries back to us without reading it. The lock itself comes in as an argument."""

from collections.abc import Callable
from typing import NamedTuple

# A version in front, so that a later form can be told from this one.
PREFIX = "antiphon1."


class Sealer(NamedTuple):
    """`seal` hides a text; `open` gives it back, or None for a blob that is foreign or damaged."""

    seal: Callable[[str], str]
    open: Callable[[str], str | None]


# For a recording, or wherever nothing comes back: nothing can be opened.
NO_LOCK = Sealer(lambda text: "", lambda blob: None)
