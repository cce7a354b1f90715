"""Documents in a request that are not plain text: reading them is slow work, which is done before the engine is asked."""

import hashlib
from collections.abc import Callable

from antiphon.core.check_work import CheckOutcome, DocumentWork
from antiphon.core.item_paths import is_stored
from antiphon.errors import InvalidRequest

# How many characters of documents are remembered.
MOST_CHARACTERS = 16 * 1024 * 1024

# The text or the pages of a document, by its bytes, its path in the request, and its name.
ReadDocument = Callable[[bytes, str, str], CheckOutcome]

NOT_READ = CheckOutcome()
# What a kind of complaint is called in an error. The others are about this one file, not about its kind.
CODES = {"unsupported_file": "unsupported_file"}


def digest_of(content: bytes, salt: bytes = b"") -> bytes:
    return hashlib.blake2b(content, digest_size=16, salt=salt).digest()


def document_digest(work: DocumentWork) -> bytes:
    """The ending of its name may say how it is read."""
    ending = work.filename.rpartition(".")[2].lower()
    return digest_of(work.document, ending.encode("utf-8", "replace")[: hashlib.blake2b.SALT_SIZE])


class Documents:
    """The documents of one conversion: the texts of those that were read, and the work that reads the others."""

    def __init__(self, outcome_of: Callable[[bytes], CheckOutcome | None] = lambda digest: None) -> None:
        """`outcome_of`: what came of reading a document, by its digest; None if it was not read yet."""
        self._outcome_of = outcome_of
        self.unread: list[DocumentWork] = []
        self.notices: list[str] = []

    def read(self, document: bytes, where: str, filename: str) -> CheckOutcome:
        """Empty as long as it was not read."""
        work = DocumentWork(document, filename)
        outcome = self._outcome_of(document_digest(work))
        if outcome is None:
            self.unread.append(work)
            return NOT_READ
        if outcome.images:
            self.notices.append(f"`{where}`: the PDF has no text, the images on its pages take its place")
        if outcome.complaint is None:
            return outcome
        problem = f"`{where}` cannot be read: {outcome.complaint}."
        if not is_stored(where):
            raise InvalidRequest(problem, param=where, code=CODES.get(outcome.code, "unreadable_file"))
        self.notices.append(problem)
        return CheckOutcome(f"(This file cannot be read: {outcome.complaint}.)")


class KnownDocuments:
    """What came of reading documents, the latest ones: the same ones come with every request of a conversation."""

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most_characters
        self._outcomes: dict[bytes, CheckOutcome] = {}
        self._size = 0

    def get(self, digest: bytes) -> CheckOutcome | None:
        return self._outcomes.get(digest)

    def add(self, digest: bytes, outcome: CheckOutcome) -> None:
        self._remove(digest)
        self._outcomes[digest] = outcome
        self._size += _size(outcome)
        while self._size > self._most:
            self._remove(next(iter(self._outcomes)))

    def _remove(self, digest: bytes) -> None:
        if (outcome := self._outcomes.pop(digest, None)) is not None:
            self._size -= _size(outcome)


def _size(outcome: CheckOutcome) -> int:
    # An outcome without a text takes some memory, too.
    return len(outcome.text) + sum(map(len, outcome.images)) + 1000
