"""An exchange, run again over its recording: every event, with the chunk of the engine's answer that it came from."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field, structs

from antiphon.core.events.plain_deltas import AnyEvent, expand
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, AskReason, ListTools, RunTools, Step, ToolCall
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.responses.fields import NO_LIMITS
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.recording.environment_values import replaying_environment
from antiphon.core.recording.recording import ASKED, OF_COMPACTION, Recording, without_trace
from antiphon.core.stream.frames import frame_ends
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError
from antiphon.wire.chat import ChatRequest
from antiphon.wire.events import Event
from antiphon.wire.responses import Beyond, CreateResponse, Response

# Of a recording without one.
NO_ENVIRONMENT = Environment(new_id=lambda prefix: prefix, now=lambda: 0.0)

Kind = Literal["ask", "event", "refused", "check", "tool", "wait", "end"]


class AskedAgain(NamedTuple):
    """A chat request, as the engine got it."""

    engine: str
    dialect: str
    chat: ChatRequest
    purpose: str


class ToolRun(NamedTuple):
    """What came of a call that the gateway ran."""

    call_id: str
    # None: it is not known any more.
    call: ToolCall | None
    result: ToolResult
    seconds: float


class RawChunk(NamedTuple):
    """A frame of an engine's answer, or the whole of an answer that is no stream."""

    ask: int
    data: bytes


class Moment(NamedTuple):
    """Something that happened, and when: by the clock of the recording."""

    at: float
    kind: Kind
    ask: int | None = None
    event: Event | None = None
    chunk: int | None = None
    # What came of it: an error, an outcome, a result.
    result: Any = None


class Rerun(Struct):
    """What an exchange did when it was run again."""

    asks: list[AskedAgain] = field(default_factory=list)
    chunks: list[RawChunk] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    response: Response | None = None
    notices: Sequence[str] = ()
    error: ApiError | None = None
    # Why it is not what the client got.
    trouble: str | None = None
    # More about that, in words that may quote the request.
    detail: str | None = None

    def report(self, trouble: str) -> None:
        self.trouble = trouble

    @property
    def ended(self) -> bool:
        return bool(self.moments) and self.moments[-1].kind == "end"

    @property
    def events(self) -> Iterator[Event]:
        return (moment.event for moment in self.moments if moment.event is not None)


# A moment that no call of the exchange makes: it wants its tools to be run, or those of servers to be listed.
TOOLS = "tools"

# Why an engine was asked, in words.
PURPOSES: dict[AskReason, str] = {
    "first": "answer",
    "repair": "repair",
    "lesson": "second ask",
    "truncation": "second ask, with a shorter history",
    "next_engine": "another engine",
    "no_thought": "second ask, without thinking",
    "tools": "tools",
    "announced": "second ask, for the call that was announced",
}
KINDS: dict[str, Kind] = {
    "refused": "refused",
    "checked": "check",
    "tool_result": "tool",
    "listed": "tool",
    "estimated": "wait",
    "counted": "wait",
    "compacted": "wait",
    "probed": "wait",
    "abort": "refused",
    "end": "end",
}


# After these, the engine's bytes belong to another answer.
ENDS_ANSWER = ("finish", "abort", "refused")


def run_again(recording: Recording) -> Rerun:
    """Runs the exchange again, up to where the recording ends: a response that still runs has no end."""
    rerun = Rerun()
    try:
        exchange = _make_exchange(recording, rerun)
        _Replayed(exchange, recording, rerun).take(recording)
    except ApiError as error:
        rerun.error = without_trace(error)
        rerun.trouble, rerun.detail = "The request cannot be read again.", error.message
    except Exception as failed:
        rerun.trouble, rerun.detail = "Running it again failed.", f"{type(failed).__name__}: {failed}"
    if recording.is_cut:
        rerun.trouble, rerun.detail = "The recording was cut: it would have become too large.", None
    return rerun


def recording_to_request(recording: Recording) -> CreateResponse:
    request, _ = body_to_request(recording.request or recording.body, NO_LIMITS)
    # In a recording that was read from a file, it is plain JSON.
    beyond = msgspec.convert(recording.set_later.get("beyond"), Beyond | None)
    return structs.replace(request, **{**recording.set_later, "beyond": beyond})


def _make_exchange(recording: Recording, rerun: Rerun) -> Exchange:
    return Exchange(
        recording_to_request(recording),
        [EngineKnowledge.from_facts(facts) for facts in recording.engines],
        replaying_environment(
            recording.environment or NO_ENVIRONMENT, recording.environment_values, rerun.report, seals=recording.seals
        ),
        history=msgspec.json.decode(recording.history),
        **structs.asdict(recording.options),
    )


class _Replayed:
    """One exchange, and the calls that its caller made."""

    def __init__(self, exchange: Exchange, recording: Recording, rerun: Rerun) -> None:
        self._exchange = exchange
        self._recording = recording
        self._rerun = rerun
        # The last step that was seen to ask, of the exchange or of its compaction.
        self._asking: Ask | None = None
        # The last step that was seen to need tools, and when that was.
        self._tools: RunTools | ListTools | None = None
        self._tools_since = 0.0
        self._part = ""

    def take(self, recording: Recording) -> None:
        rerun, exchange, calls = self._rerun, self._exchange, recording.calls
        frames = _pieces_to_frames(recording)
        self._look(calls[0][0] if calls else 0.0)
        done = 0
        for at, name, arguments, pieces in calls:
            self._receive(recording, frames, done, pieces)
            done = pieces
            self._part = name[: -len(part)] if (part := name.removeprefix(OF_COMPACTION)) != name else ""
            if part == ASKED:
                self._sent(at)
            else:
                self._call(at, self._target, part, arguments)
            self._look(at)
        self._receive(recording, frames, done, len(frames))
        rerun.response, rerun.notices, rerun.error = exchange.response, exchange.notices, exchange.error

    @property
    def _target(self) -> Exchange:
        """The exchange that the calls are of: its compaction is one, too."""
        compaction = self._exchange.compaction
        return compaction if self._part and compaction is not None else self._exchange

    def _look(self, at: float) -> None:
        """The exchange may want to ask an engine now."""
        exchange, compacts = self._exchange, self._recording.options.compact
        step: Step = exchange.step
        if isinstance(step, RunTools | ListTools) and step is not self._tools:
            self._tools, self._tools_since = step, at
            self._rerun.moments.append(Moment(at, "tool", self._ask, result=(TOOLS, step)))
        if exchange.compaction is not None and isinstance(exchange.compaction.step, Ask) and not isinstance(step, Ask):
            step, compacts = exchange.compaction.step, True
        if not isinstance(step, Ask) or step is self._asking:
            return
        self._asking = step
        facts = self._recording.engines[step.engine]
        asks = self._rerun.asks
        purpose = "compaction" if compacts else PURPOSES[step.reason]
        asks.append(AskedAgain(facts.name, facts.dialect.name, step.chat, purpose))
        self._rerun.moments.append(Moment(at, "ask", len(asks) - 1))

    def _sent(self, at: float) -> None:
        """The chat request was sent only now: it had to wait for its place."""
        moments = self._rerun.moments
        if moments and moments[-1].kind == "ask":
            moments[-1] = moments[-1]._replace(at=at)

    def _receive(self, recording: Recording, frames: Sequence[Sequence[bytes]], begin: int, end: int) -> None:
        target = self._target
        for number in range(begin, end):
            at = recording.times[number]
            for frame in frames[number]:
                self._rerun.chunks.append(RawChunk(len(self._rerun.asks) - 1, frame))
                if target.reading:
                    self._show(at, target, target.receive(frame))

    def _call(self, at: float, target: Exchange, name: str, arguments: Any) -> None:
        method: Callable[..., list[AnyEvent]] = getattr(target, name)
        given = _to_arguments(name, arguments)
        if target is self._exchange and name == "end":
            # Of two ends, the second takes the place of the first: it could not be stored.
            self._take_back_end()
        if (kind := KINDS.get(name)) is not None and kind != "end":
            result = self._ran(at, *arguments) if name == "tool_result" else arguments
            self._rerun.moments.append(Moment(at, kind, self._ask, result=(name, result)))
        self._show(at, target, method(*given))
        if target is self._exchange and name == "end":
            self._rerun.moments.append(Moment(at, "end", self._ask, result=(name, arguments)))

    def _ran(self, at: float, call_id: str, result: ToolResult) -> ToolRun:
        calls = self._tools.calls if isinstance(self._tools, RunTools) else ()
        call = next((call for call in calls if call.id == call_id), None)
        return ToolRun(call_id, call, result, at - self._tools_since)

    @property
    def _ask(self) -> int | None:
        return len(self._rerun.asks) - 1 if self._rerun.asks else None

    def _take_back_end(self) -> None:
        moments = self._rerun.moments
        if moments and moments[-1].kind == "end":
            del moments[-2:]

    def _show(self, at: float, target: Exchange, events: Sequence[AnyEvent]) -> None:
        if target is not self._exchange:
            # Clients see nothing of a compaction's answer.
            return
        chunks = self._rerun.chunks
        chunk = len(chunks) - 1 if chunks and chunks[-1].ask == self._ask else None
        self._rerun.moments += (Moment(at, "event", self._ask, expand(event), chunk) for event in events)


def _to_arguments(name: str, arguments: Any) -> tuple[Any, ...]:
    if name in ("start", "heartbeat", "compacted"):
        return ()
    if isinstance(arguments, ApiError):
        # A copy: the exchange may raise it, and the recorded one would keep all of this run in memory with its frames.
        return (without_trace(arguments),)
    if name == "probed":
        return (EngineKnowledge.from_facts(arguments),)
    return tuple(arguments) if name in ("tool_result", "listed") else (arguments,)


def _pieces_to_frames(recording: Recording) -> list[list[bytes]]:
    """Of each piece, the frames that it completed. However an answer is split, its events are the same; split like this, each
    comes from one chunk."""
    frames: list[list[bytes]] = []
    ends = (count for _, name, _, count in recording.calls if name.removeprefix(OF_COMPACTION) in ENDS_ANSWER)
    for end in (*ends, len(recording.pieces)):
        frames += _split_answer(recording.pieces[len(frames) : end])
    return frames


def _split_answer(pieces: Sequence[bytes]) -> Iterator[list[bytes]]:
    whole = b"".join(pieces)
    ends, begin, reached = deque(frame_ends(whole)), 0, 0
    for piece in pieces:
        reached += len(piece)
        completed: list[bytes] = []
        while ends and ends[0] <= reached:
            end = ends.popleft()
            if end > begin:
                completed.append(whole[begin:end])
            begin = end
        yield completed
