"""A recording: the inputs of one exchange, from which `core/replay.py` runs it again.

An exchange does no I/O. So its events follow from its request, the history, what was known of the engines, what it drew (ids,
times, seals), and what its caller did with it. Only these are kept: no event, and no copy of what the engine was asked.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from antiphon.core.check_work import CheckOutcome
from antiphon.core.documents import KnownDocuments
from antiphon.core.environment import Environment, KnownDefinitions, definition_digest
from antiphon.core.exchange import Exchange
from antiphon.core.fast_path import AnyEvent
from antiphon.core.knowledge import KnownFacts
from antiphon.core.sealed_text import NO_SEALER, Sealer
from antiphon.core.tools import Grammar, ToolResult
from antiphon.errors import ApiError
from antiphon.wire.responses import CreateResponse, Usage

Item = dict[str, Any]

# The call of an exchange's method, or of its compaction's: when, its name, its arguments.
Call = tuple[float, str, Any]

RECEIVE = "receive"
ASKED = "asked"
# In front of the calls of the exchange that compacts the history.
OF_COMPACTION = "compaction."

# What a call, or something that was drawn, takes in memory beside its text.
OVERHEAD = 160
# A seal ends with its authentication code, which no other seal has.
SEAL_KEY_LENGTH = 32

# Fields of a request that are set after it was read.
SET_LATER = ("model", "stream", "store", "background", "generate")

# Images are not kept: only their length and their hash, in letters that base64 has too.
_IMAGE = re.compile(rb"(data:image/[A-Za-z0-9.+-]+;base64,)([A-Za-z0-9+/=_\\-]{200,})")


def without_images(data: bytes) -> bytes:
    """JSON with a short text in place of every image in a data URL. It still is a data URL."""
    return _IMAGE.sub(_to_image_note, data) if b";base64," in data else data


def _to_image_note(found: re.Match[bytes]) -> bytes:
    image = found[2]
    digest = hashlib.blake2b(image, digest_size=8).hexdigest()
    note = f"not/kept/{len(image)}/characters/blake2b/{digest}"
    return found[1] + note.ljust(-(-len(note) // 4) * 4, "/").encode()


class Drawn(Struct):
    """What an exchange got from its environment, in this order."""

    ids: list[str] = []
    times: list[float] = []
    padding: list[str] = []
    sealed: list[str] = []
    # By the end of each seal: what was in it.
    opened: dict[str, str | None] = {}
    # By their digests: definitions and documents that were known before this exchange needed them.
    definitions: dict[str, str | None] = {}
    documents: dict[str, CheckOutcome] = {}


class Options(NamedTuple):
    """The other arguments of an exchange."""

    compact: bool = False
    response_id: str | None = None
    created_at: int | None = None
    notices: Sequence[str] = ()


@dataclass(slots=True)
class Recording:
    """`make_exchange()` begins it; the exchange adds its calls, and who passes the engine's bytes on adds those."""

    # The client's request as it came, without images.
    body: bytes
    now: Callable[[], float]
    # The body is a request of the Responses API. Otherwise the request that was read from it is kept, too.
    is_plain: bool = True
    request: bytes | None = None
    # The fields that were set after the body was read.
    set_later: dict[str, Any] = field(default_factory=dict)
    engines: Sequence[KnownFacts] = ()
    environment: Environment | None = None
    # The stored items before the input, as JSON, without images.
    history: bytes = b"[]"
    options: Options = field(default_factory=Options)
    drawn: Drawn = field(default_factory=Drawn)
    calls: list[Call] = field(default_factory=list)
    # The bytes of memory that it takes, about.
    size: int = 0
    # Nothing more is added: it would be too large.
    is_cut: bool = False
    # The name under which the engine's bytes are noted.
    receive: str = RECEIVE
    # Of the terminal event.
    last_number: int | None = None

    def make_exchange(
        self,
        request: CreateResponse,
        engines: Sequence[Any],
        environment: Environment,
        *,
        history: Sequence[Item],
        **options: Any,
    ) -> Exchange:
        self.body = without_images(self.body)
        if not self.is_plain:
            self.request = without_images(msgspec.json.encode(request))
        self.set_later = {name: getattr(request, name) for name in SET_LATER}
        self.engines = [engine.facts() for engine in engines]
        self.environment = environment
        self.history = without_images(msgspec.json.encode(history)) if history else b"[]"
        self.options = Options(**options)
        self.size = len(self.body) + len(self.request or b"") + len(self.history) + OVERHEAD
        return RecordedExchange(self, request, engines, noting_environment(environment, self), history=history, **options)

    @property
    def has_sealer(self) -> bool:
        return self.environment is not None and self.environment.sealer is not NO_SEALER

    def asked(self, engine: str) -> None:
        """A chat request is sent to this engine now: it may have waited for its place there."""
        self.note(self.receive.removesuffix(RECEIVE) + ASKED, engine)

    def note(self, name: str, arguments: Any = None, size: int = 0) -> None:
        if not self.is_cut:
            self.calls.append((self.now(), name, arguments))
            self.size += size + OVERHEAD


def noting_environment(environment: Environment, recording: Recording) -> Environment:
    """The same, and what is drawn from it is noted."""
    drawn = recording.drawn

    def new_id(prefix: str) -> str:
        id = environment.new_id(prefix)
        drawn.ids.append(id)
        return id

    def now() -> float:
        moment = environment.now()
        drawn.times.append(moment)
        return moment

    def padding() -> str:
        characters = environment.padding()
        drawn.padding.append(characters)
        return characters

    def seal(text: str) -> str:
        sealed = environment.sealer.seal(text)
        drawn.sealed.append(sealed)
        recording.size += len(sealed)
        return sealed

    def open_sealed(blob: str) -> str | None:
        text = environment.sealer.open(blob)
        key = blob[-SEAL_KEY_LENGTH:]
        if key not in drawn.opened:
            recording.size += len(text or "") + OVERHEAD
        drawn.opened[key] = text
        return text

    return replace(
        environment,
        new_id=new_id,
        now=now,
        padding=padding,
        sealer=environment.sealer if environment.sealer is NO_SEALER else Sealer(seal, open_sealed),
        definitions=NotedDefinitions(environment.definitions, drawn),
        documents=NotedDocuments(environment.documents, recording),
    )


class NotedDefinitions(KnownDefinitions):
    """Those of all exchanges. What one of them finds there is noted, but for what it has added itself."""

    def __init__(self, shared: KnownDefinitions, drawn: Drawn) -> None:
        super().__init__()
        self._shared = shared
        self._drawn = drawn
        self._own: set[bytes] = set()

    def __contains__(self, definition: bytes | Grammar) -> bool:
        known = definition in self._shared
        if known and (digest := definition_digest(definition)) not in self._own:
            self._drawn.definitions[digest.hex()] = self._shared.complaint(definition)
        return known

    def complaint(self, definition: bytes | Grammar) -> str | None:
        return self._shared.complaint(definition) if definition in self else None

    def add(self, definition: bytes | Grammar, complaint: str | None) -> None:
        self._own.add(definition_digest(definition))
        self._shared.add(definition, complaint)


class NotedDocuments(KnownDocuments):
    """Those of all exchanges, in the same way."""

    def __init__(self, shared: KnownDocuments, recording: Recording) -> None:
        super().__init__()
        self._shared = shared
        self._recording = recording
        self._own: set[bytes] = set()

    def get(self, digest: bytes) -> CheckOutcome | None:
        outcome = self._shared.get(digest)
        known = self._recording.drawn.documents
        if outcome is not None and digest not in self._own and digest.hex() not in known:
            known[digest.hex()] = kept = outcome_without_images(outcome)
            self._recording.size += len(kept.text)
        return outcome

    def add(self, digest: bytes, outcome: CheckOutcome) -> None:
        self._own.add(digest)
        self._shared.add(digest, outcome)


def outcome_without_images(outcome: CheckOutcome) -> CheckOutcome:
    if not outcome.images:
        return outcome
    return structs.replace(outcome, images=tuple(without_images(image.encode()).decode() for image in outcome.images))


class RecordedExchange(Exchange):
    """An exchange that notes every call of its caller. Its answer's bytes do not come through it: see `Recording.receive`."""

    def __init__(self, recording: Recording, *inputs: Any, part: str = "", **options: Any) -> None:
        self._recording = recording
        self._part = part
        # It calls itself: what follows from a noted call is not noted.
        self._is_inside = False
        super().__init__(*inputs, **options)

    def _make_compaction(self, *inputs: Any, **options: Any) -> Exchange:
        return RecordedExchange(self._recording, *inputs, part=OF_COMPACTION, **options)

    def _note(self, name: str, arguments: Any = None, size: int = 0) -> None:
        if not self._is_inside:
            self._recording.note(self._part + name, arguments, size)

    def start(self) -> list[AnyEvent]:
        self._note("start")
        self._recording.receive = self._part + RECEIVE
        return super().start()

    def heartbeat(self) -> list[AnyEvent]:
        self._note("heartbeat")
        return super().heartbeat()

    def finish(self, error: ApiError | None = None) -> list[AnyEvent]:
        self._note("finish", error)
        return super().finish(error)

    def refused(self, error: ApiError) -> list[AnyEvent]:
        self._note("refused", error, len(error.message))
        return super().refused(error)

    def abort(self, error: ApiError) -> list[AnyEvent]:
        self._note("abort", error)
        compaction = self.compaction
        if isinstance(compaction, RecordedExchange):
            compaction._is_inside = True
        try:
            return super().abort(error)
        finally:
            if isinstance(compaction, RecordedExchange):
                compaction._is_inside = False

    def checked(self, outcome: CheckOutcome) -> list[AnyEvent]:
        kept = outcome_without_images(outcome)
        self._note("checked", kept, len(kept.text))
        return super().checked(outcome)

    def tool_result(self, call_id: str, result: ToolResult) -> list[AnyEvent]:
        self._note("tool_result", (call_id, result), len(result.output))
        return super().tool_result(call_id, result)

    def estimated(self, usages: Sequence[Usage]) -> list[AnyEvent]:
        self._note("estimated", list(usages))
        return super().estimated(usages)

    def counted(self, tokens: int) -> list[AnyEvent]:
        self._note("counted", tokens)
        return super().counted(tokens)

    def compacted(self) -> list[AnyEvent]:
        self._note("compacted")
        return super().compacted()

    def end(self, error: ApiError | None = None) -> list[AnyEvent]:
        self._note("end", error)
        events = super().end(error)
        if self._part:
            self._recording.receive = RECEIVE
        else:
            self._recording.last_number = events[-1].sequence_number
        return events
