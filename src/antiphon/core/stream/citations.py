"""Citations: the model cites a source by its number, the client sees a link and an annotation that points at it.

A mark such as `[1]` may be split over any pieces of the stream. Only what may still become a mark is buffered, which is never
much. Nothing is a mark in code, in a link, as an index, or with a number that is not a source's. The mark of a page becomes a
link; that of a file is cut out, with the space that belongs to it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct, structs

from antiphon.core.events.deltas import (
    Citation,
    CitedDelta,
    Delta,
    TextDelta,
)
from antiphon.core.stream.file_links import CodeFile, ContainerFile, FileLinks
from antiphon.core.stream.text_calls import CallFinder
from antiphon.core.stream.text_calls.markdown import MarkdownWithTildes
from antiphon.patterns import Pattern

if TYPE_CHECKING:
    import regex

# Of a source that is shown as a link.
LONGEST_URL = 2048
# What would end a link, or mean something else in Markdown.
_UNSAFE_IN_URL = re.compile(r"""[\x00-\x20\x7f()<>\[\]{}\\^`|"]|\s""")
_UNSAFE_IN_TEXT = re.compile(r"([\\\[\]`*<>|])")

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
_BEGINNING = re.compile(r"[\[【]")
_NAME = re.compile("†[^】]*")
_DIGITS = re.compile("[0-9]+")
# A `[` that follows one of these, or a letter or digit, is an index: `a[1]`, `f(x)[1]`, `a[0][1]`; or it is escaped.
_BEFORE_INDEX = frozenset("_)]\\")
# Unless that is the end of a word: `Paris[1].` cites, and `rows[1]`, `a[1]`, `x2[1]`, `o.rows[1]` and `myRows[1]` do not.
LONGEST_WORD = 40
_WORD = re.compile(rf"(?:^|[\s(\[{{\"'“‘«*,—–-])(?P<word>[^\W\d_]{{2,{LONGEST_WORD - 1}}})$")
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


class Source(Struct, frozen=True):
    """A page. Its mark becomes a link."""

    number: int
    url: str
    title: str = ""

    @property
    def shown(self) -> str | None:
        try:
            scheme, host = urlsplit(self.url).scheme, urlsplit(self.url).hostname
        except ValueError:
            return None
        if scheme not in ("http", "https") or not host or len(self.url) > LONGEST_URL:
            return None
        name = _UNSAFE_IN_TEXT.sub(r"\\\1", host.removeprefix("www."))
        url = _UNSAFE_IN_URL.sub(lambda found: quote(found[0], safe=""), self.url)
        return f"([{name}]({url}))"

    def annotation(self, start: int, end: int) -> dict[str, Any]:
        return {"type": "url_citation", "start_index": start, "end_index": end, "url": self.url, "title": self.title}


class FileSource(Struct, frozen=True):
    """A file. Its mark is cut out of the text."""

    number: int
    file_id: str
    filename: str

    @property
    def shown(self) -> str:
        return ""

    def annotation(self, start: int, end: int) -> dict[str, Any]:
        return {"type": "file_citation", "index": start, "file_id": self.file_id, "filename": self.filename}


NO_SOURCES: Mapping[int, Source | FileSource] = {}
NO_FILES: Mapping[str, ContainerFile] = {}


class Sources:
    """What the model of one response can cite. Numbers run on over all calls of its tools. `earlier`: what the history lets it
    cite, with the numbers that the model has read; the last of several with one number counts."""

    __slots__ = ("_sources", "files", "next_number")

    def __init__(self, earlier: Collection[Source | FileSource] = ()) -> None:
        self._sources = {source.number: source for source in earlier} if earlier else NO_SOURCES
        self.next_number = max(self._sources) + 1 if self._sources else 1
        # Files of containers, by their names there. They are cited by links.
        self.files = NO_FILES

    def __len__(self) -> int:
        return len(self._sources) + len(self.files)

    def add(self, sources: Iterable[Source | FileSource]) -> int:
        """Gives them the next numbers, whatever theirs are. The first of these."""
        first = self.next_number
        numbered = [structs.replace(source, number=number) for number, source in enumerate(sources, first)]
        self._sources = {**self._sources, **{source.number: source for source in numbered}}
        self.next_number += len(numbered)
        return first

    def since(self, number: int) -> list[Source | FileSource]:
        """Those with this number, and later ones."""
        return [self._sources[each] for each in range(number, self.next_number)]

    def add_files(self, container_id: str, files: Iterable[CodeFile]) -> None:
        """All files that a container has now."""
        others = {name: file for name, file in self.files.items() if file.container_id != container_id}
        self.files = others | {file.name: ContainerFile(container_id, file.id, file.name) for file in files}

    def get(self, number: int) -> Citable | None:
        return self._sources.get(number)


class CitationMarks:
    """`feed()` the text of an answer, in any pieces; `finish()` where it ends, or where something else begins."""

    def __init__(self, sources: Sources) -> None:
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


class _AnySources(Sources):
    """Every number is a source's."""

    def get(self, number: int) -> Citable:
        return FileSource(number, "", "")


def without_marks(text: str) -> str:
    """The text without what would be taken for a mark, if a model repeated it: the footnotes of a document."""
    marks = CitationMarks(_AnySources())
    return "".join(delta.text for delta in [*marks.feed(text), *marks.finish()])


class CitedText:
    """A CallFinder around another one: what that one takes for text is searched for citations."""

    __slots__ = ("_finder", "_links", "_marks", "names")

    def __init__(self, finder: CallFinder | None, sources: Sources) -> None:
        self._finder = finder
        self._marks = CitationMarks(sources)
        self._links = FileLinks(sources.files)
        self.names: Collection[str] = () if finder is None else finder.names

    @property
    def buffered(self) -> int:
        return 0 if self._finder is None else self._finder.buffered

    def take_if_plain(self, text: str) -> bool:
        """No piece is: the place of a citation is counted in what has been received."""
        return False

    def receive(self, text: str) -> list[Delta]:
        return self._searched([TextDelta(text)] if self._finder is None else self._finder.receive(text))

    def release(self) -> list[Delta]:
        return [*self._searched([] if self._finder is None else self._finder.release()), *self._finish()]

    def close(self) -> list[Delta]:
        return [*self._searched([] if self._finder is None else self._finder.close()), *self._finish()]

    def _searched(self, deltas: Iterable[Delta]) -> list[Delta]:
        searched: list[Delta] = []
        for delta in deltas:
            searched += self._linked(self._marks.feed(delta.text)) if isinstance(delta, TextDelta) else [*self._finish(), delta]
        return searched

    def _linked(self, deltas: Iterable[TextDelta]) -> list[Delta]:
        """Links to files are looked for in the text between other citations."""
        linked: list[Delta] = []
        for delta in deltas:
            linked += [*self._links.finish(), delta] if isinstance(delta, CitedDelta) else self._links.feed(delta.text)
        return linked

    def _finish(self) -> list[Delta]:
        return [*self._linked(self._marks.finish()), *self._links.finish()]
