"""A text, divided into chunks that overlap.

Chunks end at the end of a paragraph, else of a sentence, a line or a word. Tokens are estimated by length, as everywhere:
four bytes make one. A letter that takes several bytes counts for more, as it does for tokenizers.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Protocol

from antiphon.core.prompt.truncation import CHARACTERS_PER_TOKEN
from antiphon.files.vector_stores.search.found import Piece
from antiphon.patterns import late_pattern


class Chunking(Protocol):
    """In tokens. The overlap is at most half of the size."""

    @property
    def size(self) -> int: ...

    @property
    def overlap(self) -> int: ...


# Where a chunk ends best, the best first. Each pattern is found just behind such a place.
BOUNDARIES = tuple(
    late_pattern(pattern)
    for pattern in (
        r"\n[ \t]*\n\s*",
        r"[.!?…]['\"”’»)\]]*\s+|[。！？．]['\"”’»」』）)\]]*\s*",
        r"\n\s*",
        r"\s+|[-–—/,;、，；](?=\w)",
    )
)
# A chunk that ended earlier would be short, and the next one would begin little later: this also bounds the work.
LEAST_FILLED = 3 / 4
# How much of the overlap may be given up for a better beginning.
LEAST_OVERLAP = 1 / 2
# Behind a letter: joiners, selectors of a variant, and colours of skin.
JOINER = "\u200d"
FOLLOWING = frozenset((JOINER, "\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))))
# No letter has more marks than this, unless somebody plays with us.
MOST_MARKS = 32


# As readers of documents write headings, and Markdown does.
HEADING = late_pattern(r"^(#{1,6}) +(\S.*)$", re.MULTILINE)
LONGEST_HEADING = 100


def tokens_of(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // CHARACTERS_PER_TOKEN)


def chunks(text: str, chunking: Chunking) -> list[str]:
    """The text of each chunk, without space around it. None is empty."""
    return [chunk for start, end in spans(text, chunking) if (chunk := text[start:end].strip())]


def pieces(text: str, chunking: Chunking) -> list[Piece]:
    """Each chunk with the headings above its beginning. Those in it are part of its text."""
    found: list[Piece] = []
    headings = [(match.start(), len(match[1]), match[2].strip()) for match in HEADING.finditer(text)]
    above: dict[int, str] = {}
    at = previous = 0
    for start, end in spans(text, chunking):
        while at < len(headings) and headings[at][0] < start:
            _, level, title = headings[at]
            above = {each: above[each] for each in above if each < level} | {level: title[:LONGEST_HEADING]}
            at += 1
        chunk = text[start:end].strip()
        if chunk:
            begins = text.index(chunk[0], start)
            found.append(Piece(chunk, " > ".join(above.values()), max(0, min(len(chunk), previous - begins))))
        previous = end
    return found


def spans(text: str, chunking: Chunking) -> Iterator[tuple[int, int]]:
    """Where each chunk begins and ends. All of the text is in one of them, at least."""
    start = end = 0
    while start < len(text):
        limit = _forward(text, start, chunking.size)
        end = limit if limit == len(text) else _end(text, start, limit, end)
        yield start, end
        if end == len(text):
            return
        # Past `start` in any case: the shortest end is further from it than the longest overlap.
        start = max(start + 1, _beginning(text, end, min(chunking.overlap, chunking.size // 2)))


def _forward(text: str, start: int, tokens: int) -> int:
    """The furthest end of a text from `start` that has no more than so many tokens."""
    most_bytes = tokens * CHARACTERS_PER_TOKEN
    window = text[start : start + most_bytes]
    if window.isascii():
        return start + len(window)
    kept = window.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")
    return start + max(1, len(kept))


def _backward(text: str, end: int, tokens: int) -> int:
    """The furthest beginning of a text up to `end` that has no more than so many tokens."""
    most_bytes = tokens * CHARACTERS_PER_TOKEN
    if most_bytes == 0:
        return end
    window = text[max(0, end - most_bytes) : end]
    if window.isascii():
        return end - len(window)
    return end - len(window.encode("utf-8", "replace")[-most_bytes:].decode("utf-8", "ignore"))


def _end(text: str, start: int, limit: int, previous: int) -> int:
    """Past the previous end, which is nearer than the limit, because chunks overlap by half at most."""
    earliest = max(previous, start + max(1, int((limit - start) * LEAST_FILLED)))
    for boundary in BOUNDARIES:
        # One more character than may be taken: a boundary may need to see it.
        ends = [min(found.end(), limit) for found in boundary.finditer(text, earliest, min(len(text), limit + 1))]
        if ends:
            return ends[-1]
    return _between_letters(text, limit, earliest)


def _beginning(text: str, end: int, overlap: int) -> int:
    earliest = _backward(text, end, overlap)
    latest = end - int((end - earliest) * LEAST_OVERLAP)
    for boundary in BOUNDARIES:
        if (found := boundary.search(text, max(0, earliest - 1), latest)) and found.end() >= earliest:
            return found.end()
    return _after_marks(text, earliest, end)


def _between_letters(text: str, at: int, least: int) -> int:
    """At or before a place in the text: not between a letter and what belongs to it."""
    for earlier in range(at, max(least, at - MOST_MARKS), -1):
        if not _is_inside_letter(text, earlier):
            return earlier
    return at


def _after_marks(text: str, at: int, most: int) -> int:
    for later in range(at, min(most, at + MOST_MARKS)):
        if not _is_inside_letter(text, later):
            return later
    return at


def _is_inside_letter(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    return bool(unicodedata.combining(text[at])) or text[at] in FOLLOWING or text[at - 1] == JOINER
