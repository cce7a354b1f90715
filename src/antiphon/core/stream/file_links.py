"""Links to the files of a container: the target of `[plot](sandbox:/mnt/data/plot.png)` gets an annotation.

The text is not changed. A target may be split over any pieces of the stream: only what may still become one is buffered.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from antiphon.core.events.deltas import CitedDelta, TextDelta
from antiphon.patterns import Pattern

# Where the files of a container are, as code sees them; and how the model links them.
FOLDER = "/mnt/data/"
LINK = f"sandbox:{FOLDER}"


class CodeFile(Struct, frozen=True):
    """A file of a container. `name`: its path below the folder."""

    id: str
    name: str


# By the ids of containers.
NO_FILES: Mapping[str, Sequence[CodeFile]] = {}


# What continues a name: `plot.png` is not meant in `plot.png.bak`.
_GOES_ON = Pattern(r"[\p{L}\p{N}_-]|\.[\p{L}\p{N}_-]")
# Bytes. A path that is longer is not linked.
LONGEST_NAME = 255


class ContainerFile(Struct, frozen=True):
    """A file that can be linked."""

    container_id: str
    file_id: str
    name: str

    def annotation(self, start: int, end: int) -> dict[str, Any]:
        return {
            "type": "container_file_citation",
            "container_id": self.container_id,
            "file_id": self.file_id,
            "filename": self.name.rpartition("/")[2],
            "start_index": start,
            "end_index": end,
        }


class _Targets:
    """What a link may point to. Files are made by code, as many and with such names as it likes: nothing here may be slow."""

    def __init__(self, files: Mapping[str, ContainerFile]) -> None:
        short = {name: file for name, file in files.items() if len(name.encode()) <= LONGEST_NAME}
        # Spaces and the like are often escaped in a link.
        self.files = {quote(name): file for name, file in short.items()} | short
        self._sorted = sorted(self.files)
        self._lengths = sorted({len(target) for target in self.files}, reverse=True)

    def longest(self, text: str, at: int) -> str | None:
        """The longest target that the text has here."""
        known = (length for length in self._lengths if text[at : at + length] in self.files)
        return next((text[at : at + length] for length in known if at + length <= len(text)), None)

    def may_go_on(self, text: str, at: int) -> bool:
        """What begins here is not decided before more has come."""
        rest = text[at:]
        # In their order, those that begin with it come right after it.
        after = bisect_right(self._sorted, rest)
        if after < len(self._sorted) and self._sorted[after].startswith(rest):
            return True
        # One character more says whether the name continues, and after a dot it takes another one.
        target = self.longest(text, at)
        return target is not None and rest[len(target) :] in ("", ".")


class FileLinks:
    """`feed()` the text of an answer, in any pieces; `finish()` where it ends, or where something else begins."""

    def __init__(self, files: Mapping[str, ContainerFile]) -> None:
        """`files`: by their names below the folder."""
        self._files = files
        self._rest = ""

    @cached_property
    def _targets(self) -> _Targets:
        """Most answers have no link."""
        return _Targets(self._files)

    def feed(self, text: str) -> list[TextDelta]:
        return self._read(self._rest + text, is_end=False)

    def finish(self) -> list[TextDelta]:
        return self._read(self._rest, is_end=True)

    def _read(self, text: str, *, is_end: bool) -> list[TextDelta]:
        self._rest = ""
        if not self._files:
            return [TextDelta(text)] if text else []
        deltas: list[TextDelta] = []
        shown = at = 0
        while (begin := text.find(LINK, at)) >= 0:
            at = begin + len(LINK)
            if not is_end and self._targets.may_go_on(text, at):
                break
            target = self._targets.longest(text, at)
            if target is None or _GOES_ON.match(text, at + len(target)) is not None:
                continue
            _add(deltas, text[shown:begin])
            deltas.append(CitedDelta(LINK + target, citation=self._targets.files[target]))
            shown = at = at + len(target)
        end = len(text) if is_end else begin if begin >= 0 else max(shown, len(text) - _cut_prefix(text))
        _add(deltas, text[shown:end])
        self._rest = text[end:]
        return deltas


def _add(deltas: list[TextDelta], text: str) -> None:
    if text:
        deltas.append(TextDelta(text))


def _cut_prefix(text: str) -> int:
    """How many characters at the end may be the beginning of a link."""
    longest = min(len(text), len(LINK) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(LINK[:length])), 0)
