"""Documents in a request that are not plain text, and uploaded files: reading them is slow work, which is done before the
engine is asked."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from antiphon.core.checks.work import NO_SUCH_FILE, NO_URLS, CheckOutcome, DocumentWork, StoredFileWork, UrlWork, digest_of
from antiphon.core.protocols.responses.references import is_address, is_stored
from antiphon.core.stream.citations import DocumentSource
from antiphon.errors import InvalidRequest
from antiphon.patterns import late_pattern

# How many characters of documents are remembered.
MOST_CHARACTERS = 16 * 1024 * 1024

ReadWork = DocumentWork | StoredFileWork | UrlWork
# How many addresses one request may have, with its history.
MOST_URLS = 100
TOO_MANY_URLS = CheckOutcome(complaint=f"a request may have {MOST_URLS} addresses at most")
NOT_READ = CheckOutcome()


# The codes of complaints that clients get as they are.
OWN_CODES = frozenset({NO_SUCH_FILE, NO_URLS.code, "unsupported_file"})


def work_digest(work: ReadWork) -> bytes:
    """An uploaded file is known by its id, what is at an address by that, and no document has the digest of one of these."""
    if isinstance(work, DocumentWork):
        return digest_of(work.document)
    if isinstance(work, UrlWork):
        name, person = work.url, b"image at url" if work.is_image else b"file at url"
    else:
        name, person = work.id, b"stored image" if work.is_image else b"stored file"
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16, person=person).digest()


# Documents that may look like text.
DOCUMENTS = (b"%PDF-", b"{\\rtf")


def plain_text(raw: bytes) -> str | None:
    """Text goes as it is. None: it is a document, or text in another encoding."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or raw.startswith(DOCUMENTS) else text


def nothing_read(digest: bytes) -> CheckOutcome | None:
    return None


class Documents(Struct, eq=False):
    """The documents of one conversion: the texts of those that were read, and the work that reads the others."""

    # What came of reading a document, by its digest; None if it was not read yet.
    _outcome_of: Callable[[bytes], CheckOutcome | None] = nothing_read
    # What is at addresses can be had.
    fetches: bool = False
    _urls: set[str] | None = None
    unread: list[ReadWork] = []
    # By their ids, the places of the uploaded files that the client sends now.
    sent_files: dict[str, str] = {}
    notices: list[str] = []
    # The passages that the model can cite, with numbers that run on.
    cited: list[DocumentSource] = []

    def read(self, work: ReadWork, where: str) -> CheckOutcome:
        """The text or the pages of a document, or what is in an uploaded file. Empty as long as it was not read. `where`: its
        path in the request."""
        if isinstance(work, StoredFileWork) and not is_stored(where):
            self.sent_files.setdefault(work.id, where)
        outcome = self._unfetched(work) if isinstance(work, UrlWork) else None
        outcome = outcome or self._outcome_of(work_digest(work))
        if outcome is None:
            self.unread.append(work)
            return NOT_READ
        if outcome.complaint is not None:
            return self._complain(outcome, where)
        if outcome.images and (isinstance(work, DocumentWork) or not work.is_image):
            self.notices.append(f"`{where}`: the PDF has no text, the images on its pages take its place")
        return outcome

    def _unfetched(self, work: UrlWork) -> CheckOutcome | None:
        """Why it is not fetched."""
        if not self.fetches:
            return NO_URLS
        self._urls = {*(self._urls or ()), work.url}
        return TOO_MANY_URLS if len(self._urls) > MOST_URLS else None

    def cite(self, locations: Iterable[dict[str, Any]]) -> int:
        """Gives numbers to passages, by their places in a document. The first of these."""
        first = len(self.cited) + 1
        self.cited += [DocumentSource(number, location) for number, location in enumerate(locations, first)]
        return first

    def _complain(self, outcome: CheckOutcome, where: str) -> CheckOutcome:
        problem = f"`{where}` cannot be read: {outcome.complaint}."
        if not is_stored(where):
            code = outcome.code if outcome.code in OWN_CODES else "unreadable_file"
            raise InvalidRequest(problem, param=where, code=code)
        self.notices.append(problem)
        return CheckOutcome(f"(This file cannot be read: {outcome.complaint}.)")


class KnownDocuments(Struct, eq=False):
    """What came of reading documents, the latest ones: the same ones come with every request of a conversation."""

    most_characters: int = MOST_CHARACTERS
    _outcomes: dict[bytes, CheckOutcome] = {}
    _size: int = 0

    def get(self, digest: bytes) -> CheckOutcome | None:
        return self._outcomes.get(digest)

    def add(self, digest: bytes, outcome: CheckOutcome) -> None:
        self._remove(digest)
        self._outcomes[digest] = outcome
        self._size += _size(outcome)
        while self._size > self.most_characters:
            self._remove(next(iter(self._outcomes)))

    def _remove(self, digest: bytes) -> None:
        if (outcome := self._outcomes.pop(digest, None)) is not None:
            self._size -= _size(outcome)


def _size(outcome: CheckOutcome) -> int:
    # An outcome without a text takes some memory, too.
    return outcome_size(outcome) + 1000


def outcome_size(outcome: CheckOutcome) -> int:
    """In characters."""
    return len(outcome.text) + sum(map(len, outcome.images))


# The members of a part that name what is elsewhere.
NAMES = ("file_id", "file_url", "image_url")


def files_of(item: dict[str, Any]) -> Iterator[StoredFileWork | UrlWork]:
    """The uploaded files and the addresses that an item names."""
    for member in ("content", "output"):
        parts = item.get(member)
        for part in parts if isinstance(parts, list) else ():
            if type(part) is not dict or part.keys().isdisjoint(NAMES):
                continue
            is_image = part.get("type") == "input_image"
            if isinstance(id := part.get("file_id"), str):
                yield StoredFileWork(id, is_image=is_image)
            elif isinstance(url := part.get("file_url") or part.get("image_url"), str) and is_address(url):
                yield UrlWork(url, is_image=is_image)


# ---- Images in data URLs, and those that tools made in earlier turns ---------------------------------------------------

# In every one of them.
DATA_URL = b";base64,"

# Shorter ones are not worth it.
_IMAGE = late_pattern(rb"(data:image/[A-Za-z0-9.+-]+;base64,)([A-Za-z0-9+/=_\\-]{200,})")
# The image of an item, and what is in every such item.
MADE_IMAGE = b'"image_generation_call"'
_MADE_IMAGE = late_pattern(rb'("result"\s*:\s*")([A-Za-z0-9+/=]{200,})(?=")')


def may_have_images(data: bytes) -> bool:
    return data.find(DATA_URL) >= 0 or data.find(MADE_IMAGE) >= 0


def without_images(data: bytes) -> bytes:
    """JSON with a short text in place of every image in a data URL, or in an item of image_generation."""
    # `in` would first try to take the bytes for a number, and drop the error that this makes.
    data = _IMAGE.sub(_to_image_note, data) if data.find(DATA_URL) >= 0 else data
    return _MADE_IMAGE.sub(_to_image_note, data) if data.find(MADE_IMAGE) >= 0 else data


def _to_image_note(found: re.Match[bytes]) -> bytes:
    image = found[2]
    digest = hashlib.blake2b(image, digest_size=8).hexdigest()
    # In letters that base64 has too: it still is a data URL.
    note = f"not/kept/{len(image)}/characters/blake2b/{digest}"
    return found[1] + note.ljust(-(-len(note) // 4) * 4, "/").encode()


def outcome_without_images(outcome: CheckOutcome) -> CheckOutcome:
    if not outcome.images:
        return outcome
    return structs.replace(outcome, images=tuple(without_images(image.encode()).decode() for image in outcome.images))
