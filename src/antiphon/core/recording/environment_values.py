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
    ids, times, paddings = values.ids, values.times, values.padding

    def new_id(prefix: str) -> str:
        id = environment.new_id(prefix)
        ids.append(id)
        return id

    def now() -> float:
        moment = environment.now()
        times.append(moment)
        return moment

    def padding() -> str:
        characters = environment.padding()
        paddings.append(characters)
        return characters

    sealer = environment.sealer
    return environment.changed(
        new_id=new_id,
        now=now,
        padding=padding,
        sealer=sealer if sealer is NO_SEALER else _recording_sealer(sealer, values, grow),
        definitions=RecordedDefinitions(shared=environment.definitions, kept=values.definitions),
        documents=RecordedDocuments(shared=environment.documents, kept=values.documents, grow=grow),
    )


def _recording_sealer(sealer: Sealer, values: EnvironmentValues, grow: Callable[[int], None]) -> Sealer:
    seals, opened = values.sealed, values.opened

    def seal(text: str) -> str:
        sealed = sealer.seal(text)
        seals.append(sealed)
        grow(len(sealed))
        return sealed

    def open_sealed(blob: str) -> str | None:
        text = sealer.open(blob)
        key = blob[-SEAL_KEY_LENGTH:]
        if key not in opened:
            grow(len(text or "") + OVERHEAD)
        opened[key] = text
        return text

    return Sealer(seal, open_sealed)


class RecordedDefinitions(KnownDefinitions, kw_only=True):
    """Those of all exchanges. What one of them finds there is kept, but for what it has added itself."""

    shared: KnownDefinitions
    kept: dict[str, Flaw | str | None]
    _own: set[bytes] = set()

    def __contains__(self, definition: bytes | Grammar) -> bool:
        known = definition in self.shared
        if known and (digest := definition_digest(definition)) not in self._own:
            self.kept[digest.hex()] = self.shared.flaw(definition)
        return known

    def flaw(self, definition: bytes | Grammar) -> Flaw | None:
        return self.shared.flaw(definition) if definition in self else None

    def add(self, definition: bytes | Grammar, flaw: Flaw | None) -> None:
        self._own.add(definition_digest(definition))
        self.shared.add(definition, flaw)


class RecordedDocuments(KnownDocuments, kw_only=True):
    """Those of all exchanges, in the same way."""

    shared: KnownDocuments
    kept: dict[str, CheckOutcome]
    grow: Callable[[int], None]
    _own: set[bytes] = set()

    def get(self, digest: bytes) -> CheckOutcome | None:
        outcome = self.shared.get(digest)
        if outcome is not None and digest not in self._own and digest.hex() not in self.kept:
            self.kept[digest.hex()] = known = outcome_without_images(outcome)
            self.grow(len(known.text))
        return outcome

    def add(self, digest: bytes, outcome: CheckOutcome) -> None:
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
