"""The markers of all forms, the block that each begins, and where one is in a text, complete or cut off by its end."""

import re
from collections.abc import Iterable, Mapping

from antiphon.core.stream.text_calls.blocks import NEED_MORE, Block, Outcome
from antiphon.core.stream.text_calls.forms import FORMS, Place
from antiphon.core.stream.text_calls.model_bodies import ANY_BODY
from antiphon.core.stream.text_calls.source import Reading, Source


def _block(marker: str) -> Block:
    rows = [form for form in FORMS if marker in form.markers and form.body is not None]
    ends = [end for form in rows for end in form.ends]
    bodies = dict.fromkeys([*(form.body for form in rows if form.body is not None), *(ANY_BODY if ends else ())])
    return Block(
        "" if any(form.in_head for form in rows) else marker,
        list(dict.fromkeys(ends)),
        bodies,
        [body for form in rows for body in form.following],
        [end for form in rows for end in form.stray],
    )


def _blocks(place: Place) -> dict[str, Block]:
    return {marker: _block(marker) for form in FORMS if form.place is place for marker in form.markers}


# The block that begins with each marker.
MARKED = _blocks(Place.ANYWHERE)
LINE_MARKED = _blocks(Place.LINE)


class Markers:
    """Finds the markers of these blocks."""

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


# This many characters of a marker show that it is most likely one.
_SIGNIFICANT = 4


def beginnings(markers: Iterable[str]) -> str:
    """A pattern that matches the first character of each marker, wherever one may begin, and hardly anywhere else. A marker
    that the end of the text cuts off is one of those places."""
    by_first: dict[str, set[str]] = {}
    for marker in markers:
        by_first.setdefault(marker[0], set()).add(re.escape(marker[1:_SIGNIFICANT]))
    cut_off = rf"[\s\S]{{0,{_SIGNIFICANT - 2}}}\Z"
    return "|".join(rf"{re.escape(first)}(?={'|'.join(sorted(rests))}|{cut_off})" for first, rests in by_first.items())


ANYWHERE = Markers(MARKED)
AT_LINE = Markers(LINE_MARKED)


def marked_block(source: Source) -> Reading[Block | None]:
    """The block that begins here, if there is one. Its marker is not read."""
    while isinstance(found := ANYWHERE.at(source.text, source.at), Outcome):
        yield from source.more()
    return found
