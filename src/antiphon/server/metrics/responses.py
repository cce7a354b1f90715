"""What is counted of each response."""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from time import perf_counter

from antiphon.core.exchange.steps import AskReason, ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError
from antiphon.gateway.runs.observers import Arrival, Observer
from antiphon.gateway.usage.model_names import ModelValues
from antiphon.server.metrics.instruments import NONE, Amount, Instruments, owner_to_label
from antiphon.store.account_records import Counts, UsageEntry
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse, Response

# How a response ended that has no status of its own.
REFUSED = "refused"
LEFT = "left"
# How a call of a tool ended.
OK = "ok"
FAILED = "failed"
STOPPED = "stopped"
# Owners and engines whose labels are remembered: there may come new ones for as long as the gateway runs.
MOST_KNOWN = 1000


def measured_responses(
    instruments: Instruments, loop_time: Callable[[], float], is_listed: Callable[[str], bool]
) -> Callable[[Arrival], Observer]:
    """`loop_time`: the clock that arrivals are timed by. `is_listed`: an engine lists this model, or the settings name it."""
    known = KnownSeries(instruments, ModelValues(is_listed))
    return partial(MeasuredResponse, known, loop_time)


class KnownSeries:
    """Each is looked up once, by what responses have at hand: what a label is made of takes longer than counting."""

    def __init__(self, instruments: Instruments, models: ModelValues) -> None:
        self.instruments = instruments
        self.models = models
        self.key_of = lru_cache(MOST_KNOWN)(lambda owner: instruments.labels.keys.of(owner_to_label(owner)))
        self.of = cache(lambda channel, model, key: ResponseSeries(instruments, channel, model, key))
        self.running = cache(lambda channel, streams: instruments.running.labels(channel, "true" if streams else "false"))
        self.good_answers = lru_cache(MOST_KNOWN)(lambda engine: self.answers(engine, OK))

    def answers(self, engine: str | None, outcome: str) -> Amount:
        """Of the engine at this URL; None: none was asked."""
        instruments = self.instruments
        return instruments.engine_answers.labels(instruments.labels.engines.of(engine) if engine is not None else NONE, outcome)


class ResponseSeries:
    """The series of the responses on one channel, of one model and one key."""

    def __init__(self, instruments: Instruments, channel: str, model: str, key: str) -> None:
        self.ended = cache(lambda outcome: instruments.responses.labels(channel, outcome, model, key))
        self._duration = instruments.times.response.labels(channel, model)
        self._first_token = instruments.times.first_token.labels(model)
        self._between_tokens = instruments.times.between_tokens.labels(model)

    def time(self, began_at: float, first_at: float | None, last_at: float, now: float, tokens: int) -> None:
        """`first_at`: when the output began, if it did. `last_at`: when the engine's last answer was at its end."""
        self._duration.observe(now - began_at)
        if first_at is None:
            return
        self._first_token.observe(first_at - began_at)
        if tokens > 1:
            # An answer that came in one piece was at its end before it was shown.
            self._between_tokens.observe(((last_at if last_at > first_at else now) - first_at) / (tokens - 1))


class MeasuredTokens:
    """Called with all that is counted as used."""

    def __init__(self, instruments: Instruments, is_listed: Callable[[str], bool]) -> None:
        models, tokens = ModelValues(is_listed), instruments.tokens
        key_of = lru_cache(MOST_KNOWN)(lambda owner: instruments.labels.keys.of(owner_to_label(owner)))
        by_name = (
            ("input_tokens", tokens.input),
            ("cached_tokens", tokens.cached),
            ("output_tokens", tokens.output),
            ("reasoning_tokens", tokens.reasoning),
        )
        places = [(Counts._fields.index(name), instrument) for name, instrument in by_name]

        @lru_cache(MOST_KNOWN)
        def series(owner: str, model: str, answered: bool) -> list[tuple[int, Amount]]:
            labels = models.of(model, answered=answered), key_of(owner)
            return [(place, instrument.labels(*labels)) for place, instrument in places]

        self._series = series

    def __call__(self, entry: UsageEntry) -> None:
        counts = entry.counts
        for place, amount in self._series(entry.kind.owner, entry.kind.model, not counts.failures):
            amount.value += counts[place]


class MeasuredResponse(Observer):
    """It overrides nothing that is called for each delta. The clock is read at the beginning, the first output and each end: it
    is not the loop's own, which may know no more than milliseconds."""

    __slots__ = (
        "_asked_for",
        "_began_at",
        "_channel",
        "_engine",
        "_first_at",
        "_key",
        "_known",
        "_last_at",
        "_running",
        "_tools",
    )

    def __init__(self, known: KnownSeries, loop_time: Callable[[], float], arrival: Arrival) -> None:
        self._known = known
        self._channel, self._began_at = arrival.channel, perf_counter() - (loop_time() - arrival.at)
        self._key: str = known.key_of(arrival.owner)
        self._running: Amount | None = None
        # The model and the engine of the last chat request. Not from the client's request: it may name any model, and names
        # that no engine knows would use up the labels.
        self._asked_for: str | None = None
        self._engine: str | None = None
        self._first_at: float | None = None
        self._last_at = 0.0
        # When the calls of tools that run now began, by their ids.
        self._tools: dict[str, float] | None = None

    def request(self, response_id: str, request: CreateResponse) -> None:
        self._running = running = self._known.running(self._channel, bool(request.stream))
        running.value += 1

    def asks(self, reason: AskReason) -> None:
        if reason != "first":
            self._known.instruments.asked_again.labels(reason).value += 1

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._asked_for, self._engine = chat.model, engine

    def answered(self, error: ApiError | None) -> None:
        known = self._known
        if error is None:
            known.good_answers(self._engine).value += 1
        else:
            known.answers(self._engine, known.instruments.labels.codes.of(error.code or error.kind)).value += 1
        self._last_at = perf_counter()

    def tool_started(self, call: ToolCall) -> None:
        self._tools = self._tools or {}
        self._tools[call.id] = perf_counter()

    def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
        outcome, instruments = STOPPED if result is None else FAILED if result.failed else OK, self._known.instruments
        instruments.tool_calls.labels(call.kind, outcome).value += 1
        began_at = self._tools.pop(call.id) if self._tools is not None else 0.0
        instruments.tool_time.labels(call.kind).observe(perf_counter() - began_at)

    def first_output(self) -> None:
        self._first_at = perf_counter()

    def ended(self, response: Response) -> None:
        model = self._known.models.of(response.model, answered=response.status == "completed")
        series = self._end(model, response.status, response.error.code if response.error is not None else None)
        usage = response.usage
        tokens = usage.output_tokens if usage is not None else 0
        series.time(self._began_at, self._first_at, self._last_at, perf_counter(), tokens)

    def dropped(self, error: ApiError | None) -> None:
        model = self._known.models.of(self._asked_for) if self._asked_for is not None else NONE
        if error is None:
            self._end(model, LEFT, None)
        else:
            self._end(model, REFUSED, error.code or error.kind)

    def _end(self, model: str, outcome: str, code: str | None) -> ResponseSeries:
        known = self._known
        series = known.of(self._channel, model, self._key)
        if self._running is not None:
            self._running.value -= 1
        series.ended(outcome).value += 1
        if code is not None:
            known.instruments.errors.labels(known.instruments.labels.codes.of(code)).value += 1
        return series
