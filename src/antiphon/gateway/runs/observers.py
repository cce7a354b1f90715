"""Observers: who looks on while a response runs. They see everything and change nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, ClassVar

from msgspec import Struct, structs

from antiphon.core.events.lifecycle import ExtrasReceived, Heartbeat
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.steps import AskReason, ToolCall
from antiphon.core.protocols.client_protocol import Channel, ClientProtocol
from antiphon.core.protocols.responses.protocol import COMPACT_PATH, RESPONSES
from antiphon.core.recording.recording import Recording
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError
from antiphon.logs import log
from antiphon.wire import events
from antiphon.wire.chat import ChatRequest, PromptProgress
from antiphon.wire.responses import CreateResponse, Response

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Arrival(Struct, frozen=True):
    """A request, before anything is known of it."""

    body: bytes
    owner: str
    channel: Channel
    # When it came, by the loop's clock. Of a background response: when its run began.
    at: float
    headers: Mapping[str, str] = NO_HEADERS
    # Where it was sent, under the first of its prefixes.
    path: str = "/v1/responses"
    # False: the inputs of its exchange are not kept, because there are too many requests.
    is_recorded: bool = True
    # False: the body is text.
    is_json: bool = True


def arrive(
    body: bytes,
    owner: str,
    protocol: ClientProtocol = RESPONSES,
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    compact: bool = False,
) -> Arrival:
    """It comes now. `compact`: to be summarized, not to be answered."""
    channel: Channel = "compact" if compact else protocol.channel
    path = COMPACT_PATH if compact else protocol.path
    now = asyncio.get_running_loop().time()
    return Arrival(body, owner, channel, now, headers, path, is_json=protocol.reads_json)


def unrecorded(arrival: Arrival) -> Arrival:
    return structs.replace(arrival, is_recorded=False)


# Gets every piece of an engine's body.
Receiver = Callable[[bytes], None]


class Observer:
    """One request. Override what you want to see. It is called on the event loop: it must be quick.

    The last call is `ended`, `dropped` or `passed_on`.
    """

    # Subclasses may have slots.
    __slots__ = ()
    # The methods that its class overrides. The others are not called.
    wanted: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.wanted = frozenset(name for name in CALLS if getattr(cls, name) is not getattr(Observer, name))

    def recorded(self, recording: Recording) -> None:
        """The inputs of the exchange, if the gateway records them. It grows until the end."""

    def request(self, response_id: str, request: CreateResponse) -> None:
        """The client's request, as it was read."""

    def asks(self, reason: AskReason) -> None:
        """Why the chat request is sent that is shown next."""

    def chat(self, chat: ChatRequest, engine: str) -> None:
        """A chat request that is sent to an engine, by its URL. One response may take several."""

    def reading(self, progress: PromptProgress) -> None:
        """How far the engine has read its prompt. Few engines report it."""

    def answered(self, error: ApiError | None) -> None:
        """The answer to the last chat request is at its end; or it was refused or cut off, with this error."""

    def tool_started(self, call: ToolCall) -> None:
        """The gateway runs this call now. Several may run at once."""

    def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
        """What came of it. None: it was stopped, because the response has ended or its client is gone."""

    def first_output(self) -> None:
        """The first event of the output is about to be written. Who only wants to know when needs no `events`."""

    def receiver(self) -> Receiver | None:
        """Gets every piece of the engine's body, before its events. Asked for once, at the beginning; None: it wants none."""
        return None

    def events(self, events: Sequence[AnyEvent]) -> None:
        """Events, right before they are written; `expand` in `core/events/plain_deltas.py` gives the full form of each."""

    def ended(self, response: Response) -> None:
        """The terminal event has been written, and the response stored if it is to be."""

    def dropped(self, error: ApiError | None) -> None:
        """There is no terminal event: the request was refused with this error; None: its client is gone."""

    def passed_on(self, model: str | None, engine: str, status: int) -> None:
        """The request went to this engine as it came, and so came the answer, with this HTTP status. It is the only call."""


CALLS = tuple(name for name in vars(Observer) if not name.startswith("_") and name != "wanted")

ALL_CALLS = frozenset(CALLS)

# The events before the first one of the output, and after the last.
WITHOUT_OUTPUT = frozenset(
    {
        events.ResponseCreated,
        events.ResponseQueued,
        events.ResponseInProgress,
        Heartbeat,
        ExtrasReceived,
        events.ResponseCompleted,
        events.ResponseIncomplete,
        events.ResponseFailed,
    }
)


# By the name of a call: the numbers of those that want it, each with the method of its class.
Wanting = Mapping[str, Sequence[tuple[int, Callable[..., Any]]]]
NOBODY: Wanting = MappingProxyType({})


@lru_cache
def _wanting(kinds: tuple[type[Observer], ...]) -> Wanting:
    """Of observers of these classes. All responses of a gateway have the same ones: they are asked once."""
    wanting: dict[str, list[tuple[int, Callable[..., Any]]]] = {}
    for at, kind in enumerate(kinds):
        for what in kind.wanted:
            wanting.setdefault(what, []).append((at, getattr(kind, what)))
    return wanting


class RunObservers:
    """The observers of one response. Each is notified once that it has ended, and of nothing after that.

    One that raises is a bug, which goes to the log. The response goes on without it.
    """

    __slots__ = (
        "_is_asking",
        "_observers",
        "_receivers",
        "_tools",
        "_wanting",
        "_watchers",
        "first_output",
        "listening",
        "look",
        "progress",
        "receivers",
    )

    def __init__(self, observers: Sequence[Observer]) -> None:
        # Those that have not been notified of the end.
        self.listening = list(observers)
        self._observers = observers
        wanting = self._wanting = _wanting(tuple(map(type, observers)))
        # Who gets every piece of the engine's body, and who wants every event: the others shall cost nothing there.
        self._receivers: Sequence[tuple[Observer, Receiver]] = ()
        self._watchers: Sequence[Observer] = ()
        for at, _ in wanting.get("events", ()):
            self._watchers = (*self._watchers, observers[at])
        for at, make_receiver in wanting.get("receiver", ()):
            try:
                if (receiver := make_receiver(observers[at])) is not None:
                    self._receivers = (*self._receivers, (observers[at], receiver))
            except Exception as bug:
                log_bug(observers[at], bug)
        self.receivers = [receiver for _, receiver in self._receivers]
        # By the loop's clock: when there was the first of the output.
        self.first_output: float | None = None
        # How far the engine has read its prompt, if it reports that.
        self.progress: PromptProgress | None = None
        # Somebody has to see the next events: most runs have nobody after the first of the output.
        self.look = True
        # An engine was asked, and its answer is not at its end.
        self._is_asking = False
        # The calls of tools that run now, by their ids.
        self._tools: dict[str, ToolCall] | None = None

    @property
    def engine_only(self) -> list[Observer]:
        """For a part of the response."""
        return [EngineOnly(observer) for observer in self.listening]

    def ask(self, reason: AskReason, chat: ChatRequest, engine: str) -> None:
        self._is_asking, self.progress = True, None
        self.notify("asks", reason)
        self.notify("chat", chat, engine)

    def read_prompt(self, progress: PromptProgress) -> None:
        self.progress = progress
        self.notify("reading", progress)

    def failed(self, receiver: Receiver, bug: Exception) -> None:
        """One of the `receivers` has raised this."""
        for observer in [each for each, its_own in self._receivers if its_own is receiver]:
            self._forget(observer, bug)

    def answered(self, error: ApiError | None) -> None:
        self._is_asking = False
        self.notify("answered", error)

    async def watch_tool(self, call: ToolCall, run: Callable[[ToolCall], Awaitable[ToolResult]]) -> ToolResult:
        """Runs the call, and waits for what comes of it."""
        self._tools = self._tools or {}
        self._tools[call.id] = call
        self.notify("tool_started", call)
        result: ToolResult | None = None
        try:
            result = await run(call)
            return result
        finally:
            self._end_tool(call, result)

    def _end_tool(self, call: ToolCall, result: ToolResult | None) -> None:
        if self._tools and self._tools.pop(call.id, None) is not None:
            self.notify("tool_ended", call, result)

    def see(self, emitted: Sequence[AnyEvent]) -> None:
        """Events that are about to be written, if one is to `look` at them."""
        for observer in self._watchers:
            try:
                observer.events(emitted)
            except Exception as bug:
                self._forget(observer, bug)
        if self.first_output is None and not WITHOUT_OUTPUT.issuperset(map(type, emitted)):
            # Once: no later event looks at the clock.
            self.first_output = asyncio.get_running_loop().time()
            self.look = bool(self._watchers)
            self.notify("first_output")

    def end(self, response: Response, error: ApiError | None) -> None:
        """`error`: with which the response failed."""
        if self._is_asking or self._tools:
            self._cut_off(error)
        self._notify_last("ended", response)

    def drop(self, error: ApiError | None) -> None:
        """None: the client is gone."""
        self._cut_off(error)
        self._notify_last("dropped", error)

    def notify(self, what: str, *arguments: Any) -> None:
        observers = self._observers
        for at, method in self._wanting.get(what, ()):
            try:
                method(observers[at], *arguments)
            except Exception as bug:
                self._forget(observers[at], bug)

    def _cut_off(self, error: ApiError | None) -> None:
        """An engine that was given up before it answered has not answered well. Tools that still run are stopped."""
        if self._is_asking and error is not None:
            self.answered(error)
        while self._tools:
            self._end_tool(next(iter(self._tools.values())), None)

    def _notify_last(self, what: str, *arguments: Any) -> None:
        """Nothing follows."""
        observers, wanting, self.listening = self._observers, self._wanting, []
        self._observers, self._wanting = (), NOBODY
        self.receivers.clear()
        self._receivers = self._watchers = ()
        for at, method in wanting.get(what, ()):
            try:
                method(observers[at], *arguments)
            except Exception as bug:
                log_bug(observers[at], bug)

    def _forget(self, observer: Observer, bug: Exception) -> None:
        log_bug(observer, bug)
        if observer in self.listening:
            self.listening.remove(observer)
            self._observers = tuple(self.listening)
            self._wanting = _wanting(tuple(map(type, self._observers)))
        self._watchers = tuple(each for each in self._watchers if each is not observer)
        # In place: the list is read for each piece.
        self.receivers[:] = [receiver for each, receiver in self._receivers if each in self.listening]


def log_bug(observer: Observer, bug: Exception) -> None:
    log("bug", level=logging.ERROR, exc_info=bug, observer=type(observer).__name__)


def notify(observers: Sequence[Observer], what: str, *arguments: Any) -> None:
    """Calls this method of each. By its name: a function for each call would cost more than most observers do."""
    for observer in observers:
        if what in observer.wanted:
            try:
                getattr(observer, what)(*arguments)
            except Exception as bug:
                log_bug(observer, bug)


class EngineOnly(Observer):
    """Of a part of a response: the observer sees what goes to the engine and what comes from it, and the rest with the response
    itself."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def asks(self, reason: AskReason) -> None:
        self._observer.asks(reason)

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._observer.chat(chat, engine)

    def answered(self, error: ApiError | None) -> None:
        self._observer.answered(error)

    def receiver(self) -> Receiver | None:
        return self._observer.receiver()


# Called for each request: when its response is about to run, or when it is refused before that. None: it is not observed.
MakeObserver = Callable[[Arrival], Observer | None]


class ObserverMakers:
    def __init__(self, makers: Sequence[MakeObserver], may_record: Callable[[], bool] | None) -> None:
        """`may_record`: asked before each exchange whether observers get its inputs; None: they never do."""
        self.makers = makers
        self.may_record = may_record
        # Those whose observers see requests that are passed on, as far as that is known of them.
        self.of_passed = [make for make in makers if "passed_on" in _wanted_by(make)]


def _wanted_by(make: MakeObserver) -> frozenset[str]:
    """By the observers that it makes; all, if it is no class of observers, nor a `partial` of one."""
    made = make.func if isinstance(make, partial) else make
    wanted: frozenset[str] = getattr(made, "wanted", ALL_CALLS)
    return wanted


def make_observers(makers: Sequence[MakeObserver], arrival: Arrival) -> list[Observer]:
    made = []
    for make in makers:
        try:
            if (observer := make(arrival)) is not None:
                made.append(observer)
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug)
    return made
