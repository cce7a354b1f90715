"""Marks such as `[1]` in the text of an answer → what is shown in their place.

A mark may be split over any pieces of the stream. Only what may still become a mark is buffered, which is never much. Nothing
is a mark in code, in a link, as an index, or with a number that is not a source's. The mark of a page becomes a link; that of a
file is cut out, with the space that belongs to it.
"""

from typing import TYPE_CHECKING, Any, Protocol

from antiphon.core.events.deltas import Citation, CitedDelta, TextDelta
from antiphon.core.stream.text_calls.markdown import MarkdownWithTildes
from antiphon.patterns import Pattern, late_pattern

if TYPE_CHECKING:
    import regex

# `[1]`, `[1, 2]`, `[^1]`, `【1】`, `【1†source】`, each with a space before it; and some of them in brackets: `([1], [2])`.
_NUMBER = "[0-9]{1,4}"
_LIST = rf"{_NUMBER}(?:,[ ]?{_NUMBER}){{0,15}}"
_NAMED = r"(?:†[^】【\[`\n]{0,80})?"
_ONE = rf"(?:\[\^?{_NUMBER}\]|【{_NUMBER}】)"
_GROUP = rf"(?:{_ONE}(?:[,;]?[ ]?{_ONE}){{1,5}}|\[\^?{_LIST}\]|【{_NUMBER}{_NAMED}】)"
_MARK = Pattern(
    rf"(?P<space>[ ]?)(?:(?P<mark>\[(?P<list>{_LIST})\]|\[\^(?P<note>{_NUMBER})\]|【(?P<lens>{_NUMBER}){_NAMED}】)"
    rf"|\((?P<group>{_GROUP})\))"
)
# What marks begin with, after the space or the bracket before them.
_BEGINNING = late_pattern(r"[\[【]")
_NAME = late_pattern("†[^】]*")
_DIGITS = late_pattern("[0-9]+")
# A `[` that follows one of these, or a letter or digit, is an index: `a[1]`, `f(x)[1]`, `a[0][1]`; or it is escaped.
_BEFORE_INDEX = frozenset("_)]\\")
# Unless that is the end of a word: `Paris[1].` cites, and `rows[1]`, `a[1]`, `x2[1]`, `o.rows[1]` and `myRows[1]` do not.
LONGEST_WORD = 40
_WORD = late_pattern(rf"(?:^|[\s(\[{{\"'“‘«*,—–-])(?P<word>[^\W\d_]{{2,{LONGEST_WORD - 1}}})$")
# Shorter words without a capital are names of variables as often as not.
SHORTEST_WORD = 4
# Longer ones that are, too.
NAMES = frozenset(
    "args argv array arrays board buffer bytes cells char chars children column columns cols data dict elem element "
    "elements entries field fields grid index indices item items keys lines list lists match matches matrix memory "
    "node nodes nums numbers object objects options params parts path paths pixels points queue result results row "
    "rows self stack string strings table text token tokens tree tuple tuples value values vals vars vector vectors "
    "words".split()
)
# What may follow a mark behind a word: nothing that continues an expression.
_AFTER_WORD = frozenset(".,;:!?)]}\"'”’»*[【—–-")
# No space belongs between these and a link.
_OPENING = frozenset("([{\"'“‘«「『（【")


class Citable(Citation, Protocol):
    """Something that can be cited."""

    @property
    def number(self) -> int: ...

    @property
    def shown(self) -> str | None:
        """What takes the place of its mark. None: it cannot be cited, and the mark stays."""


class NumberedSources(Protocol):
    def get(self, number: int) -> Citable | None:
        """The source with this number."""


class CitationMarks:
    """`feed()` the text of an answer, in any pieces; `finish()` where it ends, or where something else begins."""

    def __init__(self, sources: NumberedSources) -> None:
        self._sources = sources
        self._begin()

    def _begin(self) -> None:
        # What is passed on before the next citation.
        self._text: list[str] = []
        # The end of the text so far, if it may be the beginning of a mark; or a mark, until it is known what follows it.
        self._rest = ""
        self._markdown = MarkdownWithTildes()
        # The last character of what the model wrote, and whether it is that of a mark; and what may be the word before a mark.
        self._last = ""
        self._after_mark = False
        self._tail = ""
        # A mark was cut out behind a space, or at the beginning of a line: the space that follows it goes too.
        self._drops_space = False
        # Without their place: the annotations of marks that were cut out since the last text.
        self._cited_here: list[dict[str, Any]] = []

    def feed(self, text: str) -> list[TextDelta]:
        return self._read(self._rest + text, is_end=False)

    def finish(self) -> list[TextDelta]:
        deltas = self._read(self._rest, is_end=True)
        self._begin()
        return deltas

    def _read(self, text: str, *, is_end: bool) -> list[TextDelta]:
        deltas: list[TextDelta] = []
        at = 0
        self._rest = ""
        while (found := _next_mark(text, at, is_end=is_end)) is not None:
            self._pass_on(text[at : found.start()])
            at = found.start()
            if found.partial:
                self._rest = text[at:] if self._may_be_mark(text[at:]) else ""
                break
            if found["group"] is not None:
                at = self._read_brackets(found, text, deltas)
                continue
            cited = self._cited(found, text[found.end() : found.end() + 1])
            if cited and not is_end and found.end() == len(text) and found["lens"] is None:
                self._rest = found[0]
                break
            at = found.end()
            if cited:
                self._cite(cited, found["space"], found[0], deltas)
            else:
                self._pass_on(found[0])
        self._pass_on(text[at : len(text) - len(self._rest)])
        self._show_text(deltas)
        return deltas

    def _pass_on(self, text: str) -> None:
        if text:
            self._text.append(text[1:] if self._drops_space and text[0] == " " else text)
            self._markdown.advance(text)
            self._last = text[-1]
            self._tail = (text if len(text) >= LONGEST_WORD else self._tail + text)[-LONGEST_WORD:]
            self._after_mark = self._drops_space = False
            self._cited_here.clear()

    def _show_text(self, deltas: list[TextDelta]) -> None:
        if text := "".join(self._text):
            deltas.append(TextDelta(text))
        self._text.clear()

    # ---- what is a mark ----------------------------------------------------------------------------------------------

    def _may_be_mark(self, text: str) -> bool:
        """Where the text so far ends like this."""
        self._markdown.end_backticks()
        return not self._markdown.in_code and not (self._is_index(text) and text != "[")

    def _is_index(self, text: str) -> bool:
        """Other brackets, and notes, stand right behind a word."""
        if not text.startswith("[") or text.startswith("[^") or self._after_mark or not self._last.isascii():
            return False
        return self._last in _BEFORE_INDEX or (self._last.isalnum() and not self._ends_word)

    @property
    def _ends_word(self) -> bool:
        """The text so far ends with a word that is not likely to be the name of a variable."""
        if (found := _WORD.search(self._tail)) is None:
            return False
        word = found["word"]
        if word.lower() in NAMES:
            return False
        return len(word) >= SHORTEST_WORD if word.islower() else word.isupper() or word[1:].islower()

    def _continues_expression(self, mark: str, following: str) -> bool:
        """What looks like a mark behind a word is an index after all."""
        if not mark.startswith("[") or mark.startswith("[^") or self._after_mark or not self._last.isalnum():
            return False
        return following != "" and not following.isspace() and following not in _AFTER_WORD and following.isascii()

    def _cited(self, found: "regex.Match[str]", following: str) -> list[Citable]:
        """What is cited there; nothing if that is no mark."""
        if not self._may_be_mark(found[0]) or self._is_link(found["mark"], following):
            return []
        if not found["space"] and self._continues_expression(found["mark"], following):
            return []
        return self._known(found["list"] or found["note"] or found["lens"])

    def _known(self, numbers: str) -> list[Citable]:
        """The sources, if all of them can be cited."""
        sources = [self._sources.get(number) for number in dict.fromkeys(map(int, _DIGITS.findall(numbers)))]
        known = [source for source in sources if source is not None and source.shown is not None]
        return known if len(known) == len(sources) else []

    def _is_link(self, mark: str, following: str) -> bool:
        """It is the text of a link, or the definition of a footnote or a link."""
        return mark.startswith("[") and (following == "(" or (following == ":" and self._markdown.line_start))

    # ---- what becomes of it ------------------------------------------------------------------------------------------

    def _read_brackets(self, found: "regex.Match[str]", text: str, deltas: list[TextDelta]) -> int:
        """Brackets in which nothing would be left go with their marks. Others are text, and their marks are read next. Returns
        where to go on."""
        cited = self._known(_NAME.sub("", found["group"])) if self._may_be_mark(found[0]) else []
        stands_alone = bool(found["space"]) or self._markdown.line_start
        if cited and stands_alone and not any(source.shown for source in cited):
            self._cite(cited, found["space"], found[0], deltas)
            return found.end()
        self._pass_on(text[found.start() : found.start("group")])
        return found.start("group")

    def _cite(self, sources: list[Citable], space: str, written: str, deltas: list[TextDelta]) -> None:
        """`written`: what the model wrote for it. `space`: the one that it begins with."""
        before = space or self._last
        at_line_start = not space and (self._markdown.line_start or self._last.isspace())
        for source in sources:
            shown = source.shown
            if shown:
                needs_space = before and not before.isspace() and before not in _OPENING
                self._text.append(" " if needs_space else space)
                space, before = "", shown[-1]
            elif self._is_cited_here(source):
                continue
            self._show_text(deltas)
            deltas.append(CitedDelta(shown or "", citation=source))
        self._drops_space = not shown and (at_line_start or self._drops_space)
        self._markdown.advance(written)
        self._last = self._tail = "]"
        self._after_mark = True

    def _is_cited_here(self, source: Citable) -> bool:
        """Two passages of one file are one citation in one place."""
        annotation = source.annotation(0, 0)
        if annotation in self._cited_here:
            return True
        self._cited_here.append(annotation)
        return False


def _next_mark(text: str, at: int, *, is_end: bool) -> "regex.Match[str] | None":
    """The first mark, or what may become one at the end of the text. Marks are rare: the pattern is tried only where a bracket
    is, and in front of it."""
    for beginning in _BEGINNING.finditer(text, at):
        place = beginning.start()
        before = max(at, place - 2 if text[place - 1 : place] == "(" else place - 1)
        for start in range(before, place + 1):
            if (found := _MARK.match(text, start, partial=not is_end)) is not None:
                return found
    end = _last_word_end(text, at)
    return None if is_end or end == len(text) else _MARK.match(text, end, partial=True)


def _last_word_end(text: str, at: int) -> int:
    """Where the end of the text may begin a mark that has no bracket yet: a space, or brackets around it."""
    end = len(text)
    if end > at and text[end - 1] == "(":
        end -= 1
    return end - 1 if end > at and text[end - 1] == " " else end
