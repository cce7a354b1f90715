"""Where a marker begins: one that is complete, or one that may become complete."""

import re
from collections.abc import Iterable, Mapping

from antiphon.core.stream.text_calls.blocks import NEED_MORE, Block, Outcome
from antiphon.core.stream.text_calls.forms import LINE_MARKED, MARKED
from antiphon.core.stream.text_calls.source import Reading, Source


class Markers:
    def __init__(self, blocks: Mapping[str, Block]) -> None:
        self._blocks = blocks
        self._pattern = re.compile("|".join(map(re.escape, blocks)))
        self._beginnings = frozenset(marker[:end] for marker in blocks for end in range(1, len(marker)))
        self._longest = max(map(len, blocks))

    def at(self, text: str, at: int) -> Block | Outcome | None:
        """The block whose marker is at this position. NEED_MORE: the text ends inside a marker."""
        found = self._pattern.match(text, at)
        if found is not None:
            return self._blocks[found[0]]
        return NEED_MORE if text[at : at + self._longest] in self._beginnings else None


# So many characters of a marker show that it is most likely one.
_TELLING = 4


def beginnings(markers: Iterable[str]) -> str:
    """A pattern that matches the first character of each marker, wherever one may begin, and hardly anywhere else. A marker
    that the end of the text cuts off is one of those places."""
    by_first: dict[str, set[str]] = {}
    for marker in markers:
        by_first.setdefault(marker[0], set()).add(re.escape(marker[1:_TELLING]))
    cut_off = rf"[\s\S]{{0,{_TELLING - 2}}}\Z"
    return "|".join(rf"{re.escape(first)}(?={'|'.join(sorted(rests))}|{cut_off})" for first, rests in by_first.items())


ANYWHERE = Markers(MARKED)
AT_LINE = Markers(LINE_MARKED)


def marked_block(source: Source) -> Reading[Block | None]:
    """The block that begins here, if there is one. Its marker is not read."""
    while isinstance(found := ANYWHERE.at(source.text, source.at), Outcome):
        yield from source.more()
    return found
