"""What a search found, in the web or in files, or a page that was opened: its text for the model, with numbers to cite by.

What a model read of its searches of files and of its code is stored with the items of these calls. Clients see only the outputs
that they `include`, but the model must read the same text in every later turn: it answers from it, and the engine's prompt
cache stays valid. So a stored item has one member more, which is cut off wherever the item is shown. An item that a client
sends back gets it from the stored one.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct, structs

from antiphon.core.hosted.hosted_tool import data_of
from antiphon.core.items.item_type import SHOWN_RESULT
from antiphon.core.stream.citations import FileSource, Source, Sources, without_marks
from antiphon.core.toolbox.prompt_texts import CITE_RESULT
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import counted
from antiphon.patterns import late_pattern
from antiphon.wire.input_items import Item

_TAG = late_pattern(r"</?[A-Za-z][^<>]{0,200}>")
# Footnotes of the page itself. The model would repeat them, and they would be taken for our numbers.
_FOOTNOTE = late_pattern(r"\[\d{1,4}\]|【\d{1,4}[^】]{0,20}】")
_SPACES = late_pattern(r"[ \t\r\f\v\xa0]+")
_EMPTY_LINES = late_pattern(r"\n{3,}")

# More of a snippet is not read.
LONGEST_SNIPPET = 20_000
# Of a file, where the model reads it.
LONGEST_NAME = 200
# Files of prose, whose footnotes are left out of what the model reads. In others, `[1]` may be code.
PROSE = (".pdf", ".docx", ".doc", ".odt", ".rtf", ".pptx", ".odp", ".epub", ".html", ".htm", ".md", ".txt")

CUT = "\n(cut here: {left} more characters)"
NO_ROOM = "({more} left out: there is no room for more.)"
# Characters that the words around the results take.
AROUND = 300
# However little room there is: less of a result would say nothing.
LEAST_TEXT = 200


class SearchResult(Struct, frozen=True):
    """A page that was found, or opened, and what is shown of it."""

    url: str
    title: str
    text: str = ""

    @property
    def source(self) -> Source:
        return Source(0, self.url, self.title)

    @property
    def heading(self) -> str:
        return f"{self.title}\n{self.url}" if self.title else self.url

    @property
    def shown_text(self) -> str:
        return self.text


class FileResult(Struct, frozen=True):
    """A passage of a file."""

    file_id: str
    filename: str
    text: str
    score: float = 0.0
    attributes: dict[str, Any] | None = None
    # What the model reads in place of the text. None: the text.
    shown: str | None = None

    @property
    def source(self) -> FileSource:
        return FileSource(0, self.file_id, self.filename)

    @property
    def heading(self) -> str:
        """In one line: the name is what a stranger may have written."""
        return " ".join((self.filename or self.file_id).split())[:LONGEST_NAME]

    @property
    def shown_text(self) -> str:
        return self.text if self.shown is None else self.shown


def without_own_marks(result: FileResult) -> FileResult:
    """For the model, prose has no footnotes that could be taken for our numbers. It may take long: a result can have many."""
    if not result.filename.lower().endswith(PROSE) or (shown := without_marks(result.text)) == result.text:
        return result
    return structs.replace(result, shown=shown)


class WebSearchData(Struct, frozen=True):
    """What came of one call. `words` stand before the results."""

    origin: ClassVar[str] = "the web"

    results: list[SearchResult] = []
    words: str = ""
    # How many searches were made. Of a page, it says nothing.
    searches: int = 1


class FileSearchData(Struct, frozen=True):
    origin: ClassVar[str] = "files"

    results: list[FileResult] = []
    words: str = ""


SearchData = WebSearchData | FileSearchData


def data_to_result(data: SearchData) -> ToolResult:
    """The numbers begin at 1 until the response gives the next ones: see `numbered()`."""
    return ToolResult(results_to_text(data, 1), data=data)


def results_to_text(data: SearchData, first_number: int, texts: Sequence[str] | None = None) -> str:
    """As the model sees it. `texts`: those of the first results, if there is no room for all."""
    texts = [each.shown_text for each in data.results] if texts is None else texts
    parts = [data.words] if data.words else []
    headings = [result.heading for result in data.results]
    for number, (heading, text) in enumerate(zip(headings, texts, strict=False), first_number):
        parts.append("\n".join(filter(None, (f"[{number}] {heading}", text))))
    if more := len(data.results) - len(texts):
        parts.append(NO_ROOM.format(more=f"{counted(more, 'result')} {'was' if more == 1 else 'were'}"))
    if data.results:
        parts.append(CITE_RESULT.format(number=first_number, origin=data.origin))
    return "\n\n".join(parts)


def numbered(kind: type[SearchData], result: ToolResult, sources: Sources, room: int) -> ToolResult:
    """The result of a search with the numbers of its response, to whose sources it is added. `kind`: of what it found. `room`:
    for how many characters there is room. Results that do not fit are left out, and cannot be cited."""
    data: SearchData | None = data_of(result, kind)
    if data is None or not data.results:
        return result
    texts = _fitting(data, room)
    first = sources.add(each.source for each in data.results[: len(texts)])
    return structs.replace(result, output=results_to_text(data, first, texts))


def _fitting(data: SearchData, room: int) -> list[str]:
    """The texts of the results for which there is room: the first one in any case, as much of it as fits."""
    left = room - AROUND - len(data.words)
    texts: list[str] = []
    for result in data.results:
        text = result.shown_text
        left -= len(result.heading) + len(text) + len("[1000] \n\n\n")
        if left < 0:
            return texts or [shortened(text, max(LEAST_TEXT, len(text) + left - len(CUT)))]
        texts.append(text)
    return texts


# ---- texts of strangers ----------------------------------------------------------------------------------------------


def clean(text: Any) -> str:
    """A title or a snippet: without markup, in one line."""
    if not isinstance(text, str):
        return ""
    return " ".join(without_footnotes(html.unescape(_TAG.sub("", text[:LONGEST_SNIPPET]))).split())


def clean_page(text: str) -> str:
    return _EMPTY_LINES.sub("\n\n", _SPACES.sub(" ", without_footnotes(text).replace(" \n", "\n"))).strip()


def without_footnotes(text: str) -> str:
    return _FOOTNOTE.sub("", text)


def shortened(text: str, longest: int) -> str:
    left = len(text) - longest
    return text if left <= 0 else text[:longest].rstrip() + CUT.format(left=left)


# What the model reads of a call in a later turn, where that is not known.
CALL_FAILED = "(the call failed)"
RESULT_NOT_SHOWN = "(the result is not shown again)"


class CitedFile(Struct, frozen=True):
    """A file that can be cited by a number in the text."""

    # Marks have no more digits.
    number: Annotated[int, Meta(ge=1, le=9999)]
    file_id: str
    filename: str

    @property
    def source(self) -> FileSource:
        return FileSource(self.number, self.file_id, self.filename)


class ShownResult(Struct, frozen=True, omit_defaults=True):
    text: str
    files: list[CitedFile] = []


def to_shown_result(text: str, sources: Iterable[Source | FileSource]) -> ShownResult:
    files = [CitedFile(each.number, each.file_id, each.filename) for each in sources if isinstance(each, FileSource)]
    return ShownResult(text, files)


def shown_result(item: Item) -> ShownResult | None:
    """None: it is not known."""
    if SHOWN_RESULT not in item:
        return None
    try:
        return msgspec.convert(item[SHOWN_RESULT], ShownResult)
    except msgspec.ValidationError:
        # A client wrote it.
        return None


def item_to_view(item: Item) -> Item:
    """As a client sees it."""
    return {name: value for name, value in item.items() if name != SHOWN_RESULT} if SHOWN_RESULT in item else item


def files_shown(items: Iterable[Item]) -> list[FileSource]:
    """The files that a history lets the model cite."""
    if not (shown := [shown_result(item) for item in items if SHOWN_RESULT in item]):
        return []
    return [file.source for each in shown if each is not None for file in each.files]
