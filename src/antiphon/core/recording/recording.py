"""A recording: the inputs of one exchange, from which `core/recording/rerun.py` runs it again.

An exchange does no I/O. So its events follow from its request, the history, what was known of the engines, the values of its
environment (ids, times, seals), and what its caller did with it. Only these are kept: no event, and no copy of what the engine
was asked.
"""

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

import msgspec
from msgspec import Struct, field

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.lifecycle import NO_CONTAINERS
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.knowledge.knowledge import EngineKnowledge, KnownFacts
from antiphon.core.prompt.documents import outcome_without_images, without_images
from antiphon.core.recording.environment_values import OVERHEAD, EnvironmentValues, recording_environment
from antiphon.core.stream.fast_path import shared_slice
from antiphon.core.stream.file_links import NO_FILES, CodeFile
from antiphon.core.toolbox.mcp_servers import MCP, Listing, body_without_secrets, has_secrets
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError
from antiphon.sealing import NO_SEALER
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse, Usage

# ---- The pieces of an engine's answers, as they came -----------------------------------------------------------------
# Most of them repeat the one before them but for a text in their middle. That text is all that is kept of such a piece, and
# what is around it once for all of them: a recording takes a quarter of the memory.


class Around(NamedTuple):
    head: bytes
    tail: bytes


NOTHING = Around(b"", b"")
# Bytes. With fewer in common, a piece is kept whole.
WORTHWHILE = 64
# So often it is looked for what pieces have in common, which takes longer than to keep one; and never in longer ones.
MOST_LOOKS = 64
LONGEST_COMPARED = 4096


class ReceivedPieces:
    __slots__ = (
        "_around",
        "_head",
        "_head_at",
        "_is_unlike",
        "_least",
        "_looks",
        "_middle_at",
        "_middles",
        "_shared",
        "_tail",
        "_tail_at",
    )

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        # Of each piece: what is its own, and what is around that. Of the last pieces, the second is not written down yet.
        self._middles: list[bytes] = []
        self._around: list[Around] = []
        self._looks = 0
        # Nothing is shared, so no piece is long enough.
        self._shared, self._least = NOTHING, sys.maxsize
        # A piece was unlike those before it, and was not compared.
        self._is_unlike = False
        for piece in pieces:
            self.append(piece)

    def _share(self, shared: Around) -> None:
        """What the next piece has, too, if it is like the last ones. Its parts are at hand: every piece is compared."""
        self._shared = shared
        self._head, self._tail = shared
        head, tail = len(self._head), len(self._tail)
        # In a piece that is shorter than both, they would overlap.
        self._least = head + tail if head else sys.maxsize
        self._head_at, self._tail_at = shared_slice(0, head), shared_slice(-tail if tail else sys.maxsize, None)
        self._middle_at = shared_slice(head, -tail if tail else None)

    def append(self, piece: bytes) -> None:
        if len(piece) >= self._least and piece[self._head_at] == self._head and piece[self._tail_at] == self._tail:
            self._middles.append(piece[self._middle_at])
        else:
            self._append_whole(piece)

    def _append_whole(self, piece: bytes) -> None:
        if self._middles:
            self._write_down()
            # The first piece that is unlike the others is mostly the last of all: it is not compared, but the next such one.
            self._is_unlike = self._shared is not NOTHING and not self._is_unlike
            may_look = not self._is_unlike and self._looks < MOST_LOOKS
            if may_look and max(len(piece), len(self._middles[-1])) <= LONGEST_COMPARED:
                self._looks += 1
                shared = _in_common(self._shared, piece) if self._shared is not NOTHING else NOTHING
                last = self[-1]
                self._share(shared if shared is not NOTHING else _in_common(Around(last, last), piece))
                if self._shared is not NOTHING:
                    self._middles.append(piece[self._middle_at])
                    return
        self._middles.append(piece)
        self._around.append(NOTHING)

    def _write_down(self) -> None:
        self._around += [self._shared] * (len(self._middles) - len(self._around))

    def kept(self, start: int) -> int:
        """How many bytes are kept of the pieces from there on."""
        return sum(map(len, self._middles[start:]))

    def copy(self) -> "ReceivedPieces":
        self._write_down()
        made = ReceivedPieces()
        made._middles, made._around = self._middles[:], self._around[:]
        return made

    def __len__(self) -> int:
        return len(self._middles)

    def __iter__(self) -> Iterator[bytes]:
        self._write_down()
        return map(_whole, self._around, self._middles)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        self._write_down()
        if isinstance(at, slice):
            return [*map(_whole, self._around[at], self._middles[at])]
        return _whole(self._around[at], self._middles[at])

    def __delitem__(self, at: slice) -> None:
        self._write_down()
        del self._middles[at], self._around[at]


def _whole(around: Around, middle: bytes) -> bytes:
    return around.head + middle + around.tail if around is not NOTHING else middle


def _in_common(around: Around, piece: bytes) -> Around:
    """What a piece begins and ends with, of what others do."""
    head = shared_start(around.head, piece)
    tail = shared_end(around.tail, piece[len(head) :])
    return Around(head, tail) if len(head) + len(tail) >= WORTHWHILE else NOTHING


def shared_start(one: bytes, other: bytes) -> bytes:
    """What both begin with: all before the first byte in which they differ, as two large numbers do."""
    most = min(len(one), len(other))
    differs = int.from_bytes(one[:most], "big") ^ int.from_bytes(other[:most], "big")
    return one[: most - (differs.bit_length() + 7) // 8]


def shared_end(one: bytes, other: bytes) -> bytes:
    most = min(len(one), len(other))
    end = one[len(one) - most :]
    differs = int.from_bytes(end, "little") ^ int.from_bytes(other[len(other) - most :], "little")
    return end[(differs.bit_length() + 7) // 8 :]


# The call of an exchange's method, or of its compaction's: when, its name, its arguments, and after how many pieces.
Call = tuple[float, str, Any, int]

ASKED = "asked"
# In front of the calls of the exchange that compacts the history.
OF_COMPACTION = "compaction."

# Bytes of a file that can be linked, beside its name.
PER_FILE = 200


# Fields of a request that are set after it was read. One by one: every request has them kept.
def _set_later(request: CreateResponse) -> dict[str, Any]:
    return {
        "model": request.model,
        "stream": request.stream,
        "store": request.store,
        "background": request.background,
        "generate": request.generate,
        "beyond": request.beyond,
    }


class Options(Struct, frozen=True, array_like=True):
    """The other arguments of an exchange. As an array in a file, because older files have one."""

    compact: bool = False
    response_id: str | None = None
    created_at: int | None = None
    notices: Sequence[str] = ()
    attached: Sequence[Item] = ()
    containers: Mapping[str, str] = {}
    files: Mapping[str, Sequence[CodeFile]] = {}
    in_words: Sequence[int] = ()


class Recording(Struct):
    """`make_exchange()` begins it; the exchange adds its calls, and who passes the engine's bytes on adds those."""

    # The client's request as it came, without images, and without the secrets of its tools.
    body: bytes
    now: Callable[[], float]
    # The body is the request that is answered. Otherwise that is kept, too: it came in another protocol, or stored items took
    # the place of references in it.
    is_as_sent: bool = True
    request: bytes | None = None
    # The fields that were set after the body was read.
    set_later: dict[str, Any] = field(default_factory=dict)
    engines: Sequence[KnownFacts] = ()
    # What all exchanges share, without the owner's cipher; and whether there is one.
    environment: Environment | None = None
    seals: bool = False
    # The stored items before the input, as JSON, without images.
    history: bytes = b"[]"
    options: Options = field(default_factory=Options)
    environment_values: EnvironmentValues = field(default_factory=EnvironmentValues)
    calls: list[Call] = field(default_factory=list)
    # The pieces of the engine's answers, and when each came. Two lists: a pair for each would cost much more.
    pieces: ReceivedPieces = field(default_factory=ReceivedPieces)
    times: "array[float]" = field(default_factory=partial(array, "d"))  # type: ignore[arg-type]
    # The bytes of memory that it takes, about.
    size: int = 0
    # Nothing more is added: it would be too large.
    is_cut: bool = False
    # All but the beginning of the body was too large, or had to make room: it cannot be run again.
    is_left_out: bool = False
    # In front of the names of calls: whose they are.
    part: str = ""
    # Of the terminal event.
    last_number: int | None = None
    # How many of the pieces are part of its size.
    _counted: int = 0

    def make_exchange(
        self,
        request: CreateResponse,
        engines: Sequence[Any],
        environment: Environment,
        *,
        history: Sequence[Item],
        compact: bool = False,
        response_id: str | None = None,
        created_at: int | None = None,
        notices: Sequence[str] = (),
        attached: Sequence[Item] = (),
        containers: Mapping[str, str] = NO_CONTAINERS,
        files: Mapping[str, Sequence[CodeFile]] = NO_FILES,
        in_words: Sequence[int] = (),
    ) -> Exchange:
        clean = _without_secrets_or_images if has_secrets(request) else without_images
        self.body = clean(self.body)
        if not self.is_as_sent:
            self.request = clean(msgspec.json.encode(request))
        self.set_later = _set_later(request)
        self.engines = [engine.facts() for engine in engines]
        self.environment = _as_recorded(self.environment)
        self.seals = environment.sealer is not NO_SEALER
        self.history = without_images(msgspec.json.encode(history)) if history else b"[]"
        options = Options(compact, response_id, created_at, notices, attached, containers, files, in_words)
        self.options = options
        self.size = len(self.body) + len(self.request or b"") + len(self.history) + OVERHEAD
        if files:
            self.size += sum(len(file.name) + PER_FILE for each in files.values() for file in each)
        recorded = recording_environment(environment, self.environment_values, self.grow)
        return RecordedExchange(self, request, engines, recorded, history, options)

    def grow(self, size: int) -> None:
        self.size += size

    def receive(self, data: bytes) -> None:
        """A piece of the engine's answer."""
        self.pieces.append(data)
        self.times.append(self.now())

    def count_pieces(self) -> None:
        """Those that have come since they were counted last are part of its size, or forgotten if nothing may be added."""
        if self.is_cut:
            del self.pieces[self._counted :], self.times[self._counted :]
        else:
            added = len(self.times) - self._counted
            self.size += self.pieces.kept(self._counted) + OVERHEAD * added
            self._counted += added

    def empty(self, body: bytes) -> None:
        """Keeps this beginning of its body, and nothing else."""
        self.is_cut = self.is_left_out = True
        del self.calls[:], self.pieces[:], self.times[:]
        self.body, self.request, self.history = body, None, b"[]"
        self.environment_values = EnvironmentValues()
        self.size, self._counted = len(body), 0

    def note(self, name: str, arguments: Any = None, size: int = 0) -> None:
        if not self.is_cut:
            self.calls.append((self.now(), name, arguments, len(self.times)))
            self.size += size + OVERHEAD


def _as_recorded(environment: Environment | None) -> Environment | None:
    """The operator's servers may change while the gateway runs; what was recorded may not."""
    if environment is None or not isinstance(mcp := environment.tools.get(MCP), McpTools):
        return environment
    return environment.with_tool(MCP, mcp.as_recorded())


def _without_secrets_or_images(data: bytes) -> bytes:
    return without_images(body_without_secrets(data))


def without_trace(error: ApiError) -> ApiError:
    """The same, without the frames in which it was raised: all of a run would stay in memory with them."""
    copied = type(error).__new__(type(error))
    copied.__dict__.update(error.__dict__)
    copied.args = error.args
    return copied


def _size(error: ApiError) -> int:
    return len(error.message) + (len(error.failure.message) if error.failure is not None else 0)


class RecordedExchange(Exchange):
    """An exchange that notes every call of its caller. The engine's bytes do not come through it: see `Recording.receive`."""

    # Without keywords: a call of a class makes a dictionary of them, which takes 500 instructions for each.
    def __init__(
        self,
        recording: Recording,
        request: CreateResponse,
        engines: Sequence[EngineKnowledge],
        environment: Environment,
        history: Sequence[Item],
        options: Options,
        part: str = "",
        first_engine: int = 0,
    ) -> None:
        self._recording = recording
        self._part = part
        # It calls itself: what follows from a noted call is not noted.
        self._is_inside = False
        super().__init__(
            request,
            engines,
            environment,
            history=history,
            compact=options.compact,
            response_id=options.response_id,
            created_at=options.created_at,
            first_engine=first_engine,
            notices=options.notices,
            attached=options.attached,
            containers=options.containers,
            files=options.files,
            in_words=options.in_words,
        )

    def _make_compaction(
        self,
        request: CreateResponse,
        engines: Sequence[EngineKnowledge],
        environment: Environment,
        *,
        history: Sequence[Item],
        first_engine: int,
        **options: Any,
    ) -> Exchange:
        given = Options(**options)
        return RecordedExchange(self._recording, request, engines, environment, history, given, OF_COMPACTION, first_engine)

    def _note(self, name: str, arguments: Any = None, size: int = 0) -> None:
        if not self._is_inside:
            self._recording.note(self._part + name, arguments, size)

    def _note_error(self, name: str, error: ApiError) -> None:
        self._note(name, without_trace(error), _size(error))

    # The calls that every exchange has are noted without a call for that.

    def start(self) -> list[AnyEvent]:
        if not self._is_inside:
            self._recording.note(self._part + "start")
        self._recording.part = self._part
        return super().start()

    def heartbeat(self) -> list[AnyEvent]:
        self._note("heartbeat")
        return super().heartbeat()

    def finish(self, error: ApiError | None = None) -> list[AnyEvent]:
        if error is not None:
            self._note_error("finish", error)
        elif not self._is_inside:
            self._recording.note(self._part + "finish")
        return super().finish(error)

    def refused(self, error: ApiError) -> list[AnyEvent]:
        self._note_error("refused", error)
        return super().refused(error)

    def abort(self, error: ApiError) -> list[AnyEvent]:
        self._note_error("abort", error)
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
        # What a tool has made for the client, such as an image, may be much larger than what the model reads.
        more = 0 if result.data is None else len(msgspec.json.encode(result.data))
        self._note("tool_result", (call_id, result), len(result.output) + more)
        return super().tool_result(call_id, result)

    def listed(self, label: str, listing: Listing) -> list[AnyEvent]:
        self._note("listed", (label, listing), len(msgspec.json.encode(listing)))
        return super().listed(label, listing)

    def estimated(self, usages: Sequence[Usage]) -> list[AnyEvent]:
        self._note("estimated", list(usages))
        return super().estimated(usages)

    def counted(self, tokens: int) -> list[AnyEvent]:
        self._note("counted", tokens)
        return super().counted(tokens)

    def compacted(self) -> list[AnyEvent]:
        self._note("compacted")
        return super().compacted()

    def probed(self, knowledge: EngineKnowledge) -> list[AnyEvent]:
        self._note("probed", knowledge.facts())
        return super().probed(knowledge)

    def end(self, error: ApiError | None = None) -> list[AnyEvent]:
        if error is not None:
            self._note_error("end", error)
        elif not self._is_inside:
            self._recording.note(self._part + "end")
        events = super().end(error)
        if self._part:
            self._recording.part = ""
        else:
            self._recording.last_number = events[-1].sequence_number
        return events
