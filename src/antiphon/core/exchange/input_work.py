"""The work that has to be done before an engine can be asked: documents are read, schemas and grammars are compiled."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct, structs

from antiphon.core.checks.work import (
    MALFORMED,
    CheckOutcome,
    DefinitionWork,
    DocumentWork,
    Flaw,
    Grammar,
    StoredFileWork,
    UrlWork,
)
from antiphon.core.exchange.environment import Environment
from antiphon.core.prompt.convert import Conversion
from antiphon.core.prompt.documents import ReadWork, files_of, outcome_size, work_digest
from antiphon.core.prompt.truncation import size_of
from antiphon.wire.input_items import Item

Work = ReadWork | DefinitionWork

# At first, and mostly to the end. Shared: an empty dictionary for each request would take memory.
NOTHING_TO_DO: Iterator[Work] = iter(())
NOTHING_DEFINED: Mapping[bytes | Grammar, Flaw | None] = MappingProxyType({})
NOTHING_READ: Mapping[bytes, CheckOutcome] = MappingProxyType({})

TOO_SLOW = Flaw("it takes too long to compile")
TOO_SLOW_TO_READ = "it takes too long, or too much memory"


class InputWork(Struct):
    """What a conversion waits for, and what is known of it: for this request, or from others."""

    _environment: Environment
    _left: Iterator[Work] = NOTHING_TO_DO
    # There may be some left.
    is_pending: bool = False
    # What came of it changes the conversion.
    is_outdated: bool = False
    # The schemas and grammars that were compiled for this request, and why one was not.
    _defined: Mapping[bytes | Grammar, Flaw | None] = NOTHING_DEFINED
    # How much was fetched for it.
    _fetched: int = 0
    # What came of reading its documents, by their digests.
    _read: Mapping[bytes, CheckOutcome] = NOTHING_READ

    def begin(self, conversion: Conversion) -> None:
        """The work of this conversion takes the place of what was left of the one before."""
        self.is_outdated = False
        definitions = [DefinitionWork(each.definition) for each in conversion.definitions]
        self._left = iter((*conversion.unread, *definitions))
        self.is_pending = bool(conversion.unread or conversion.definitions)

    def next(self) -> Work | None:
        """The next work that nobody has done yet."""
        for work in self._left:
            if not self._knows(work):
                return self._bounded(work)
        return None

    def _bounded(self, work: Work) -> Work:
        """An image in a file may be as large as one in a request; and what is fetched for a request has a bound in all."""
        environment = self._environment
        if isinstance(work, UrlWork):
            left = max(0, environment.fetched_bytes - self._fetched)
            return structs.replace(work, most_bytes=min(left, environment.limits.image_bytes) if work.is_image else left)
        is_image = isinstance(work, StoredFileWork) and work.is_image
        return structs.replace(work, most_bytes=environment.limits.image_bytes) if is_image else work

    def done(self, work: Work, outcome: CheckOutcome) -> None:
        """What was not finished may be on a machine that is less busy: it is known for this request only."""
        if isinstance(work, DefinitionWork):
            self._add_definition(work.definition, outcome)
        else:
            self._add_document(work, outcome)

    def _add_document(self, work: ReadWork, outcome: CheckOutcome) -> None:
        """What is in an uploaded file counts for this request only: it may be removed, and others must not get it."""
        self.is_outdated = True
        digest = work_digest(work)
        found = CheckOutcome(complaint=TOO_SLOW_TO_READ) if outcome.unfinished else outcome
        self._read = {**self._read, digest: found}
        if isinstance(work, UrlWork):
            self._fetched += outcome_size(outcome)
        if isinstance(work, DocumentWork) and not outcome.unfinished:
            self._environment.documents.add(digest, outcome)

    def _add_definition(self, definition: bytes | Grammar, outcome: CheckOutcome) -> None:
        flaw = None if outcome.complaint is None else Flaw(outcome.complaint, outcome.code == MALFORMED)
        flaw = TOO_SLOW if outcome.unfinished else flaw
        self.is_outdated = self.is_outdated or flaw is not None
        self._defined = {**self._defined, definition: flaw}
        if not outcome.unfinished:
            self._environment.definitions.add(definition, flaw)

    def _knows(self, work: Work) -> bool:
        """It was done before, for this request or for another."""
        if not isinstance(work, DefinitionWork):
            return self.outcome_of(work_digest(work)) is not None
        return work.definition in self._defined or work.definition in self._environment.definitions

    def outcome_of(self, digest: bytes) -> CheckOutcome | None:
        return self._read.get(digest) or self._environment.documents.get(digest)

    def flaw_of(self, definition: bytes | Grammar) -> Flaw | None:
        return self._defined.get(definition) or self._environment.definitions.flaw(definition)

    def size_of(self, item: Item) -> int:
        """With what was read of the files that it names."""
        found = (self._read.get(work_digest(file)) for file in files_of(item))
        return size_of(item) + sum(outcome_size(outcome) for outcome in found if outcome is not None)
