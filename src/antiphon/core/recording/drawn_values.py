"""What an exchange draws from its environment: ids, times, seals, and what others have found out. Noted, and given again."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, Flaw, Grammar
from antiphon.core.exchange.environment import Environment, KnownDefinitions, definition_digest
from antiphon.core.prompt.documents import KnownDocuments, outcome_without_images
from antiphon.sealing import NO_SEALER, Sealer

T = TypeVar("T")

# What a thing that is noted takes in memory beside its text.
OVERHEAD = 120
# A seal ends with its authentication code, which no other seal has.
SEAL_KEY_LENGTH = 32


class Drawn(Struct):
    """What an exchange got from its environment, in this order."""

    ids: list[str] = []
    times: list[float] = []
    padding: list[str] = []
    sealed: list[str] = []
    # By the end of each seal: what was in it.
    opened: dict[str, str | None] = {}
    # By their digests: definitions and documents that were known before this exchange needed them.
    definitions: dict[str, Flaw | str | None] = {}
    documents: dict[str, CheckOutcome] = {}


# ---- noted -------------------------------------------------------------------------------------------------------------


def noting_environment(environment: Environment, drawn: Drawn, grow: Callable[[int], None]) -> Environment:
    """The same, and what is drawn from it is noted. `grow`: counts the bytes that this takes."""
    ids, times, paddings, seals, opened = drawn.ids, drawn.times, drawn.padding, drawn.sealed, drawn.opened

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

    def seal(text: str) -> str:
        sealed = environment.sealer.seal(text)
        seals.append(sealed)
        grow(len(sealed))
        return sealed

    def open_sealed(blob: str) -> str | None:
        text = environment.sealer.open(blob)
        key = blob[-SEAL_KEY_LENGTH:]
        if key not in opened:
            grow(len(text or "") + OVERHEAD)
        opened[key] = text
        return text

    return environment.changed(
        new_id=new_id,
        now=now,
        padding=padding,
        sealer=environment.sealer if environment.sealer is NO_SEALER else Sealer(seal, open_sealed),
        definitions=NotedDefinitions(environment.definitions, drawn.definitions),
        documents=NotedDocuments(environment.documents, drawn.documents, grow),
    )


class NotedDefinitions(KnownDefinitions):
    """Those of all exchanges. What one of them finds there is noted, but for what it has added itself."""

    def __init__(self, shared: KnownDefinitions, noted: dict[str, Flaw | str | None]) -> None:
        self._shared = shared
        self._noted = noted
        self._own: set[bytes] = set()

    def __contains__(self, definition: bytes | Grammar) -> bool:
        known = definition in self._shared
        if known and (digest := definition_digest(definition)) not in self._own:
            self._noted[digest.hex()] = self._shared.flaw(definition)
        return known

    def flaw(self, definition: bytes | Grammar) -> Flaw | None:
        return self._shared.flaw(definition) if definition in self else None

    def add(self, definition: bytes | Grammar, flaw: Flaw | None) -> None:
        self._own.add(definition_digest(definition))
        self._shared.add(definition, flaw)


class NotedDocuments(KnownDocuments):
    """Those of all exchanges, in the same way."""

    def __init__(self, shared: KnownDocuments, noted: dict[str, CheckOutcome], grow: Callable[[int], None]) -> None:
        self._shared = shared
        self._noted = noted
        self._grow = grow
        self._own: set[bytes] = set()

    def get(self, digest: bytes) -> CheckOutcome | None:
        outcome = self._shared.get(digest)
        if outcome is not None and digest not in self._own and digest.hex() not in self._noted:
            self._noted[digest.hex()] = kept = outcome_without_images(outcome)
            self._grow(len(kept.text))
        return outcome

    def add(self, digest: bytes, outcome: CheckOutcome) -> None:
        self._own.add(digest)
        self._shared.add(digest, outcome)


# ---- given again -------------------------------------------------------------------------------------------------------


def replaying_environment(
    environment: Environment, drawn: Drawn, trouble: Callable[[str], None], *, seals: bool
) -> Environment:
    """Gives what was drawn again. `trouble`: called when that is not enough. `seals`: there was a sealer."""

    def again(values: Sequence[T], otherwise: T) -> Callable[[], T]:
        left = iter(values)

        def take() -> T:
            for value in left:
                return value
            trouble("It drew more ids, times or seals than it did before.")
            return otherwise

        return take

    ids, times, padding = again(drawn.ids, "id"), again(drawn.times, 0.0), again(drawn.padding, "x" * 16)
    sealed, opened = again(drawn.sealed, ""), drawn.opened
    return environment.changed(
        new_id=lambda prefix: ids(),
        now=times,
        padding=padding,
        sealer=Sealer(lambda text: sealed(), lambda blob: opened.get(blob[-SEAL_KEY_LENGTH:])) if seals else NO_SEALER,
        report=lambda event, **members: None,
        definitions=ReplayedDefinitions(drawn),
        documents=_replayed_documents(drawn),
    )


class ReplayedDefinitions(KnownDefinitions):
    """Those that were known then."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__(len(drawn.definitions) + 1000)
        # Older recordings have only the reason.
        self._flaws = {
            bytes.fromhex(digest): Flaw(flaw) if isinstance(flaw, str) else flaw for digest, flaw in drawn.definitions.items()
        }


def _replayed_documents(drawn: Drawn) -> KnownDocuments:
    documents = KnownDocuments(1 << 62)
    for digest, outcome in drawn.documents.items():
        documents.add(bytes.fromhex(digest), outcome)
    return documents
