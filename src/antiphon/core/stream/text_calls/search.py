"""Calls anywhere in the text, in the shapes that models write them, found however the text is split.

Text is emitted as it arrives, except for what may still become a call. What turns out not to be a call is emitted unchanged.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from antiphon.core.events.deltas import CallDelta, Delta, TextDelta
from antiphon.core.stream.text_calls.bare import ACTION, bare_calls
from antiphon.core.stream.text_calls.blocks import (
    ANYWHERE,
    AT_LINE,
    LINE_MARKED,
    MARKED,
    NEED_MORE,
    NO_MATCH,
    Block,
    Candidate,
    CandidateFactory,
    Match,
    Outcome,
    beginnings,
)
from antiphon.core.stream.text_calls.harmony import HEADER, Harmony
from antiphon.core.stream.text_calls.markdown import MarkdownState
from antiphon.core.stream.text_calls.shapes import MAX_BUFFERED, ToolNames
from antiphon.core.stream.text_calls.source import skip_whitespace
from antiphon.patterns import late_pattern

# What looked like a call and is none is searched for calls again, and so is what looked like one inside it. So many characters
# of an answer are read again at most; then the rest is text. What is found not to be a call at its first character counts, too.
MOST_WASTED = 4 * MAX_BUFFERED
# A longer text is read in pieces. An answer that is not streamed may come as one text of many megabytes.
LONGEST_PIECE = 16 * 1024
_BRACKETS = frozenset("{[")
# With what a call may begin that is one only at the beginning of a line.
_LINE_OPENINGS = re.escape("".join(sorted({marker[0] for marker in (*LINE_MARKED, ACTION)})))
# Where a call or code may begin, but for the first visible character: at a marker, or at the beginning of a line. Texts are
# full of brackets, and nearly all of them are skipped here. Every alternative begins with a character of its own: only then
# is a text without these characters skipped at full speed.
_OPENINGS = late_pattern(rf"{beginnings(MARKED)}|\n[^\S\n]*+(?=[{{\[`{_LINE_OPENINGS}])")

# With what something may begin or end: in a line, at its beginning, in code in a line, in a fence, and in a Harmony message. A
# piece without it is plain.
Search = Callable[[str], re.Match[str] | None]
_IN_LINE: Search = re.compile(rf"{_OPENINGS.pattern}|`").search
_AT_LINE: Search = re.compile(rf"\A[^\S\n]*+[{{\[`{_LINE_OPENINGS}]|{_OPENINGS.pattern}|`").search
_IN_CODE: Search = re.compile(r"[`\n]").search
_IN_FENCE: Search = re.compile(r"`").search
_IN_MESSAGE: Search = re.compile(r"<").search
# The rest of a text is not searched any more.
_NOWHERE: Search = re.compile(r"(?!)").search


class CallFinder(Protocol):
    """Turns visible text into deltas, some of which are calls. Each finder numbers its calls from 0."""

    # The functions that may be called.
    names: Collection[str]

    @property
    def buffered(self) -> int:
        """How many characters are buffered because they may be a call."""

    def take_if_plain(self, text: str) -> bool:
        """True if the piece is certainly only text: it is then taken, and must not be received."""

    def receive(self, text: str) -> list[Delta]: ...

    def release(self) -> list[Delta]:
        """Something else begins, such as a call that the engine has parsed, or the answer after a thought: what is buffered is
        only text."""

    def close(self) -> list[Delta]:
        """The text has ended: what is buffered becomes calls or text."""


class TextCalls:
    """A CallFinder for the tools with these names."""

    __slots__ = (
        "_after_call",
        "_candidate",
        "_find_special",
        "_harmony",
        "_leading_space",
        "_markdown",
        "_numbers",
        "_only_marked",
        "_rest",
        "_text_begun",
        "_tools",
        "_wasted",
        "names",
    )

    def __init__(self, names: Collection[str], *, only_marked: bool = False) -> None:
        """`names`: as the keys of a mapping, they come with the schemas of their parameters, or None.
        `only_marked`: what has no marker is never a call."""
        self.names = names
        self._tools = ToolNames(names)
        self._only_marked = only_marked
        self._numbers = itertools.count()
        self._wasted = 0
        self._reset()

    def _reset(self) -> None:
        self._rest = ""
        self._candidate: Candidate | None = None
        self._harmony: Harmony | None = None
        self._markdown = MarkdownState()
        # White space before the first visible text. It is dropped if a call comes first.
        self._leading_space: list[str] = []
        self._text_begun = False
        self._after_call = False
        # None: no piece is plain here.
        self._find_special: Search | None = None

    @property
    def buffered(self) -> int:
        return len(self._rest)

    def take_if_plain(self, text: str) -> bool:
        find_special = self._find_special
        if find_special is None or not text or find_special(text) is not None:
            return False
        markdown = self._markdown
        if markdown.line_start or "\n" in text:
            markdown.advance(text)
            self._find_special = self._special_here()
        else:
            markdown.last = text[-1]
        return True

    def receive(self, text: str) -> list[Delta]:
        if self.take_if_plain(text):
            return [TextDelta(text)]
        if len(text) <= LONGEST_PIECE:
            deltas = self._read(text)
        else:
            # Every step copies what is left of the text.
            pieces = (text[at : at + LONGEST_PIECE] for at in range(0, len(text), LONGEST_PIECE))
            deltas = [delta for piece in pieces for delta in self._read(piece)]
        self._find_special = self._special_here()
        return deltas

    def release(self) -> list[Delta]:
        deltas: list[Delta] = [] if self._harmony is None else self._harmony.release()
        self._emit_text(self._rest, deltas)
        return self._finish(deltas)

    def close(self) -> list[Delta]:
        deltas = self._read("", final=True)
        if self._harmony is not None:
            deltas += self._harmony.close()
        return self._finish(deltas)

    def _finish(self, deltas: list[Delta]) -> list[Delta]:
        leading_space = "".join(self._leading_space)
        self._reset()
        return [*deltas, TextDelta(leading_space)] if leading_space else deltas

    def _special_here(self) -> Search | None:
        if self._harmony is not None:
            return _IN_MESSAGE if self._harmony.emits_text else None
        if self._rest or self._after_call or not self._text_begun:
            return None
        if self._wasted > MOST_WASTED:
            return _NOWHERE
        markdown = self._markdown
        if markdown.in_backticks:
            return None
        if markdown.in_code:
            return _IN_FENCE if markdown.in_fence else _IN_CODE
        return _AT_LINE if markdown.line_start else _IN_LINE

    def _read(self, text: str, *, final: bool = False) -> list[Delta]:
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and self._step(deltas, final):
            pass
        return deltas

    def _step(self, deltas: list[Delta], final: bool) -> bool:
        """Takes something from the text, and returns whether there may be more to take."""
        if self._harmony is not None:
            rest, self._rest = self._rest, ""
            deltas += self._harmony.receive(rest)
            return False
        if self._after_call:
            self._rest = self._rest.lstrip()
            self._after_call = not self._rest
            return True
        return self._search(deltas, final) if self._candidate is None else self._match_candidate(self._candidate, deltas, final)

    def _search(self, deltas: list[Delta], final: bool) -> bool:
        """Emits the text up to the first position where a call may begin."""
        if self._wasted > MOST_WASTED:
            return self._emit_rest(deltas)
        rest, at = self._rest, 0
        first = -1 if self._text_begun else skip_whitespace(rest)
        markdown = self._markdown
        for here in _openings(rest, markdown.line_start):
            if self._wasted > MOST_WASTED:
                break
            if at < here:
                markdown.advance(rest[at:here])
                at = here
            found = self._opened_at(here, here == first, final)
            if found is None or (callable(found) and self._rejects(found(self._tools, here), final)):
                continue
            self._emit_text(rest[:here], deltas)
            self._rest = rest[here:]
            if isinstance(found, Outcome):
                return False
            if isinstance(found, Harmony):
                self._harmony, self._leading_space = found, []
            else:
                self._candidate = found(self._tools, 0)
            return True
        markdown.advance(rest[at:])
        return self._emit_rest(deltas)

    def _opened_at(self, here: int, at_beginning: bool, final: bool) -> CandidateFactory | Harmony | Outcome | None:
        rest, markdown = self._rest, self._markdown
        if rest[here] == "`":
            return bare_calls(at_beginning) if markdown.may_open_fence and not self._only_marked else None
        markdown.end_backticks()
        # A block directly after the backticks that open inline code is all quoted, even if it has several lines.
        if markdown.in_fence or (markdown.in_code and markdown.last != "`"):
            return None
        marked = self._marked_at(here, at_beginning, final)
        if marked is not None or self._only_marked or not markdown.line_start:
            return marked
        return self._bare_at(here, at_beginning, final)

    def _marked_at(self, here: int, at_beginning: bool, final: bool) -> CandidateFactory | Harmony | Outcome | None:
        found = ANYWHERE.at(self._rest, here)
        if isinstance(found, Block):
            return found.quoted_candidate if self._markdown.quoted else found.candidate
        if self._markdown.line_start and found is None:
            found = AT_LINE.at(self._rest, here)
        header = HEADER.match(self._rest, here, partial=True) if at_beginning and self._rest[here] == "<" else None
        if header is not None and not header.partial:
            return Harmony(self._tools, self._numbers)
        if isinstance(found, Block):
            return found.candidate
        return NEED_MORE if (header is not None or found is NEED_MORE) and not final else None

    def _bare_at(self, here: int, at_beginning: bool, final: bool) -> CandidateFactory | Outcome | None:
        written = self._rest[here : here + len(ACTION)]
        if at_beginning or written[0] in _BRACKETS or written == ACTION:
            return bare_calls(at_beginning)
        return NEED_MORE if ACTION.startswith(written) and not final else None

    def _rejects(self, candidate: Candidate, final: bool) -> bool:
        """Most of what might begin a call does not, which the first match shows."""
        result = self._match(candidate, final)
        if result is NO_MATCH:
            self._wasted += candidate.wasted(result)
        return result is NO_MATCH

    def _match(self, candidate: Candidate, final: bool) -> Match | Outcome:
        return NO_MATCH if self._wasted > MOST_WASTED else candidate.match(self._rest, final)

    def _match_candidate(self, candidate: Candidate, deltas: list[Delta], final: bool) -> bool:
        result = self._match(candidate, final)
        if result is not NEED_MORE:
            self._wasted += candidate.wasted(result)
        if isinstance(result, Match) and not result.is_text and result.end <= MAX_BUFFERED:
            self._emit_calls(result, deltas)
            return True
        if result is NEED_MORE and len(self._rest) <= MAX_BUFFERED:
            return False
        # It is not a call, or too long to be buffered.
        text = self._rest[: self._length_of_text(candidate, result)]
        self._candidate = None
        self._markdown.advance(text)
        self._emit_text(text, deltas)
        self._rest = self._rest[len(text) :]
        return True

    def _length_of_text(self, candidate: Candidate, result: Match | Outcome) -> int:
        if result is NO_MATCH:
            return candidate.plain_prefix
        return min(result.end, MAX_BUFFERED) if isinstance(result, Match) and result.is_text else MAX_BUFFERED

    def _emit_calls(self, match: Match, deltas: list[Delta]) -> None:
        for call in match.calls:
            deltas.append(CallDelta(next(self._numbers), name=call.name, arguments=call.arguments))
            self._leading_space = []
        self._rest = self._rest[match.end :]
        self._candidate = match.following
        self._after_call = True
        self._markdown = MarkdownState()

    def _emit_rest(self, deltas: list[Delta]) -> bool:
        rest, self._rest = self._rest, ""
        self._emit_text(rest, deltas)
        return False

    def _emit_text(self, text: str, deltas: list[Delta]) -> None:
        if not self._text_begun:
            self._leading_space.append(text)
            if not text or text.isspace():
                return
            text, self._leading_space, self._text_begun = "".join(self._leading_space), [], True
        if not text:
            return
        if deltas and isinstance(deltas[-1], TextDelta):
            deltas[-1] = TextDelta(deltas[-1].text + text)
        else:
            deltas.append(TextDelta(text))


def _openings(text: str, line_start: bool) -> Iterator[int]:
    """Where a call or code may begin. `line_start`: only white space, or nothing, is before it on its line."""
    last = -1
    if line_start and (last := skip_whitespace(text)) < len(text):
        yield last
    for opening in _OPENINGS.finditer(text):
        here = opening.end() if opening[0][0] == "\n" else opening.start()
        # A marker at the beginning of a line is found twice.
        if here > last:
            last = here
            yield here
