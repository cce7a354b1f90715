"""The values that an exchange gets from its environment: ids, times, seals, and what others have found out. They are kept, and
given again when the exchange is run again."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, Flaw, Grammar
from antiphon.core.exchange.environment import Environment, KnownDefinitions, definition_digest
from antiphon.core.prompt.documents import KnownDocuments, outcome_without_images
from antiphon.sealing import NO_SEALER, Sealer

T = TypeVar("T")

# What a value takes in memory beside its text.
OVERHEAD = 120
# A seal ends with its authentication code, which no other seal has.
SEAL_KEY_LENGTH = 32


class EnvironmentValues(Struct):
    """The values of one exchange, in the order in which it got them."""

    ids: list[str] = []
    times: list[float] = []
    padding: list[str] = []
    sealed: list[str] = []
    # By the end of each seal: what was in it.
    opened: dict[str, str | None] = {}
    # By their digests: definitions and documents that were known before this exchange needed them.
    definitions: dict[str, Flaw | str | None] = {}
    documents: dict[str, CheckOutcome] = {}


# ---- kept --------------------------------------------------------------------------------------------------------------


def recording_environment(environment: Environment, values: EnvironmentValues, grow: Callable[[int], None]) -> Environment:
    """The same, and the values that it gives are kept. `grow`: counts the bytes that this takes."""
    recorded = RecordedValues(environment, values, grow)
    return environment.with_values(
        recorded.new_id,
        recorded.now,
        recorded.padding,
        NO_SEALER if environment.sealer is NO_SEALER else Sealer(recorded.seal, recorded.open_sealed),
        RecordedDefinitions(shared=environment.definitions, kept=values.definitions),
        RecordedDocuments(shared=environment.documents, kept=values.documents, grow=grow),
    )


class RecordedValues(Struct, eq=False):
    """What an environment gives, which is kept. One object: a function for each value would take as long to make as it."""

    _environment: Environment
    _values: EnvironmentValues
    _grow: Callable[[int], None]

    def new_id(self, prefix: str) -> str:
        id = self._environment.new_id(prefix)
        self._values.ids.append(id)
        return id

    def now(self) -> float:
        moment = self._environment.now()
        self._values.times.append(moment)
        return moment

    def padding(self) -> str:
        characters = self._environment.padding()
        self._values.padding.append(characters)
        return characters

    def seal(self, text: str) -> str:
        sealed = self._environment.sealer.seal(text)
        self._values.sealed.append(sealed)
        self._grow(len(sealed))
        return sealed

    def open_sealed(self, blob: str) -> str | None:
        text, opened = self._environment.sealer.open(blob), self._values.opened
        key = blob[-SEAL_KEY_LENGTH:]
        if key not in opened:
            self._grow(len(text or "") + OVERHEAD)
        opened[key] = text
        return text


class RecordedDefinitions(KnownDefinitions, kw_only=True):
    """Those of all exchanges. What one of them finds there is kept, but for what it has added itself."""

    shared: KnownDefinitions
    kept: dict[str, Flaw | str | None]
    # Made when it is needed: most requests define nothing.
    _own: set[bytes] | None = None

    def __contains__(self, definition: bytes | Grammar) -> bool:
        known = definition in self.shared
        if known and (digest := definition_digest(definition)) not in (self._own or ()):
            self.kept[digest.hex()] = self.shared.flaw(definition)
        return known

    def flaw(self, definition: bytes | Grammar) -> Flaw | None:
        return self.shared.flaw(definition) if definition in self else None

    def add(self, definition: bytes | Grammar, flaw: Flaw | None) -> None:
        self._own = self._own or set()
        self._own.add(definition_digest(definition))
        self.shared.add(definition, flaw)


class RecordedDocuments(KnownDocuments, kw_only=True):
    """Those of all exchanges, in the same way."""

    shared: KnownDocuments
    kept: dict[str, CheckOutcome]
    grow: Callable[[int], None]
    _own: set[bytes] | None = None

    def get(self, digest: bytes) -> CheckOutcome | None:
        outcome = self.shared.get(digest)
        if outcome is not None and digest not in (self._own or ()) and digest.hex() not in self.kept:
            self.kept[digest.hex()] = known = outcome_without_images(outcome)
            self.grow(len(known.text))
        return outcome

    def add(self, digest: bytes, outcome: CheckOutcome) -> None:
        self._own = self._own or set()
        self._own.add(digest)
        self.shared.add(digest, outcome)


# ---- given again -------------------------------------------------------------------------------------------------------


def replaying_environment(
    environment: Environment, values: EnvironmentValues, trouble: Callable[[str], None], *, seals: bool
) -> Environment:
    """Gives the same values again. `trouble`: called when they are not enough. `seals`: there was a sealer."""

    def again(kept: Sequence[T], otherwise: T) -> Callable[[], T]:
        left = iter(kept)

        def take() -> T:
            for value in left:
                return value
            trouble("It asked for more ids, times or seals than it did before.")
            return otherwise

        return take

    ids, times, padding = again(values.ids, "id"), again(values.times, 0.0), again(values.padding, "x" * 16)
    sealed, opened = again(values.sealed, ""), values.opened
    return environment.changed(
        new_id=lambda prefix: ids(),
        now=times,
        padding=padding,
        sealer=Sealer(lambda text: sealed(), lambda blob: opened.get(blob[-SEAL_KEY_LENGTH:])) if seals else NO_SEALER,
        report=lambda event, **members: None,
        definitions=_replayed_definitions(values),
        documents=_replayed_documents(values),
    )


def _replayed_definitions(values: EnvironmentValues) -> KnownDefinitions:
    """Those that were known then."""
    # Older recordings have only the reason.
    flaws = {
        bytes.fromhex(digest): Flaw(flaw) if isinstance(flaw, str) else flaw for digest, flaw in values.definitions.items()
    }
    return KnownDefinitions(len(flaws) + 1000, flaws)


def _replayed_documents(values: EnvironmentValues) -> KnownDocuments:
    documents = KnownDocuments(1 << 62)
    for digest, outcome in values.documents.items():
        documents.add(bytes.fromhex(digest), outcome)
    return documents
