"""Citations: the model cites a source by its number, the client sees a link and an annotation that points at it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, structs

from antiphon.core.events.deltas import CitedDelta, Delta, TextDelta
from antiphon.core.stream.citation_marks import Citable, CitationMarks
from antiphon.core.stream.file_links import CodeFile, ContainerFile, FileLinks
from antiphon.core.stream.text_calls import CallFinder
from antiphon.patterns import late_pattern
from antiphon.wire.events import DOCUMENT_CITATION

# Of a source that is shown as a link.
LONGEST_URL = 2048
# What would end a link, or mean something else in Markdown.
_UNSAFE_IN_URL = late_pattern(r"""[\x00-\x20\x7f()<>\[\]{}\\^`|"]|\s""")
_UNSAFE_IN_TEXT = late_pattern(r"([\\\[\]`*<>|])")


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


class DocumentSource(Struct, frozen=True):
    """A passage of a document that the client has sent. Its mark is cut out of the text."""

    number: int
    # Where it is, as the client's protocol says it.
    location: dict[str, Any]

    @property
    def shown(self) -> str:
        return ""

    def annotation(self, start: int, end: int) -> dict[str, Any]:
        return {"type": DOCUMENT_CITATION, "index": start, "location": self.location}


NO_SOURCES: Mapping[int, Source | FileSource] = {}
NO_DOCUMENTS: Mapping[int, DocumentSource] = {}
NO_FILES: Mapping[str, ContainerFile] = {}


class Sources:
    """What the model of one response can cite. Numbers run on over all calls of its tools. `earlier`: what the history lets it
    cite, with the numbers that the model has read; the last of several with one number counts."""

    __slots__ = ("_documents", "_sources", "files", "next_number")

    def __init__(self, earlier: Collection[Source | FileSource] = ()) -> None:
        self._sources = {source.number: source for source in earlier} if earlier else NO_SOURCES
        self.next_number = max(self._sources) + 1 if self._sources else 1
        # Files of containers, by their names there. They are cited by links.
        self.files = NO_FILES
        # Passages of the prompt itself, which come before what tools find.
        self._documents = NO_DOCUMENTS

    def __len__(self) -> int:
        return len(self._sources) + len(self.files) + len(self._documents)

    def set_documents(self, passages: Sequence[DocumentSource]) -> None:
        """What the prompt is now lets the model cite these. No number means two things."""
        self._documents = {passage.number: passage for passage in passages} if passages else NO_DOCUMENTS
        self.next_number = max(self.next_number, len(passages) + 1)

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
        return self._sources.get(number) or self._documents.get(number)


class _AnySources:
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
