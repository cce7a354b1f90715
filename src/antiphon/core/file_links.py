"""Links to the files of a container: the target of `[plot](sandbox:/mnt/data/plot.png)` gets an annotation.

The text is not changed. A target may be split over any pieces of the stream: only what may still become one is buffered.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import regex
from msgspec import Struct

from antiphon.core.code_results import LINK
from antiphon.core.deltas import CitedDelta, TextDelta

# What goes on with a name after it: `plot.png` is not meant in `plot.png.bak`.
_GOES_ON = regex.compile(r"[\p{L}\p{N}_-]|\.[\p{L}\p{N}_-]")


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


class FileLinks:
    """`feed()` the text of an answer, in any pieces; `finish()` where it ends, or where something else begins."""

    def __init__(self, files: Mapping[str, ContainerFile]) -> None:
        """`files`: by their names below the folder."""
        # Spaces and the like are often escaped in a link.
        self._files = {LINK + quote(name): file for name, file in files.items()} | {
            LINK + name: file for name, file in files.items()
        }
        self._rest = ""
        targets = "|".join(regex.escape(target) for target in sorted(self._files, key=len, reverse=True))
        self._target = regex.compile(targets) if targets else None

    def feed(self, text: str) -> list[TextDelta]:
        return self._read(self._rest + text, is_end=False)

    def finish(self) -> list[TextDelta]:
        return self._read(self._rest, is_end=True)

    def _read(self, text: str, *, is_end: bool) -> list[TextDelta]:
        self._rest = ""
        if self._target is None:
            return [TextDelta(text)] if text else []
        deltas: list[TextDelta] = []
        shown = at = 0
        while (begin := text.find(LINK, at)) >= 0:
            if not is_end and self._may_go_on(text[begin:]):
                break
            found = self._target.match(text, begin)
            if found is None or _GOES_ON.match(text, found.end()) is not None:
                at = begin + len(LINK)
                continue
            _add(deltas, text[shown:begin])
            deltas.append(CitedDelta(found[0], citation=self._files[found[0]]))
            shown = at = found.end()
        end = len(text) if is_end else begin if begin >= 0 else max(shown, len(text) - _cut_prefix(text))
        _add(deltas, text[shown:end])
        self._rest = text[end:]
        return deltas

    def _may_go_on(self, text: str) -> bool:
        """What begins here is not decided before more has come."""
        if any(len(text) < len(target) and target.startswith(text) for target in self._files):
            return True
        assert self._target is not None
        found = self._target.match(text)
        # One character more says whether the name goes on, and after a dot it takes another one.
        return found is not None and text[found.end() :] in ("", ".")


def _add(deltas: list[TextDelta], text: str) -> None:
    if text:
        deltas.append(TextDelta(text))


def _cut_prefix(text: str) -> int:
    """How many characters at the end may be the beginning of a link."""
    longest = min(len(text), len(LINK) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(LINK[:length])), 0)
