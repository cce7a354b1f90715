"""What is counted of each response."""

from collections.abc import Callable
from functools import cache
from time import perf_counter

from prometheus_client import Gauge

from antiphon.core.steps import AskReason, ToolCall
from antiphon.core.tools import ToolResult
from antiphon.errors import ApiError
from antiphon.gateway.observers import Arrival, Observer
from antiphon.metrics.instruments import Instruments
from antiphon.metrics.label_values import NONE, ModelValues, owner_to_label
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse, Response, Usage

# How a response ended that has no status of its own.
REFUSED = "refused"
LEFT = "left"
# How a call of a tool ended.
OK = "ok"
FAILED = "failed"
STOPPED = "stopped"


def measured_responses(
    instruments: Instruments, loop_time: Callable[[], float], is_listed: Callable[[str], bool]
) -> Callable[[Arrival], Observer]:
    """`loop_time`: the clock that arrivals are timed by. `is_listed`: an engine lists this model, or the settings name it."""
    known = KnownSeries(instruments, ModelValues(is_listed))
    return lambda arrival: MeasuredResponse(known, arrival, loop_time() - arrival.at)


class KnownSeries:
    """Each is looked up once: the library takes longer for that than for counting. There are as many as there are labels."""

    def __init__(self, instruments: Instruments, models: ModelValues) -> None:
        self.instruments = instruments
        self.models = models
        self.of = cache(lambda channel, model, key: ResponseSeries(instruments, channel, model, key))
        self.running = cache(lambda channel, streams: instruments.running.labels(channel, "true" if streams else "false"))
        self.engine_answers = cache(instruments.engine_answers.labels)


class ResponseSeries:
    """The series of the responses on one channel, of one model and one key."""

    def __init__(self, instruments: Instruments, channel: str, model: str, key: str) -> None:
        self.ended = cache(lambda outcome: instruments.responses.labels(channel, outcome, model, key))
        self._duration = instruments.duration.labels(channel, model)
        self._first_token = instruments.first_token.labels(model)
        self._between_tokens = instruments.between_tokens.labels(model)
        self._input = instruments.input_tokens.labels(model, key)
        self._cached = instruments.cached_tokens.labels(model, key)
        self._output = instruments.output_tokens.labels(model, key)
        self._reasoning = instruments.reasoning_tokens.labels(model, key)

    def time(self, began_at: float, first_at: float | None, last_at: float, now: float, tokens: int) -> None:
        """`first_at`: when the output began, if it did. `last_at`: when the engine's last answer was at its end."""
        self._duration.observe(now - began_at)
        if first_at is None:
            return
        self._first_token.observe(first_at - began_at)
        if tokens > 1:
            # An answer that came in one piece was at its end before it was shown.
            self._between_tokens.observe(((last_at if last_at > first_at else now) - first_at) / (tokens - 1))

    def count(self, usage: Usage) -> None:
        for counter, tokens in (
            (self._input, usage.input_tokens),
            (self._cached, usage.input_tokens_details.cached_tokens),
            (self._output, usage.output_tokens),
            (self._reasoning, usage.output_tokens_details.reasoning_tokens),
        ):
            if tokens > 0:
                counter.inc(tokens)


class MeasuredResponse(Observer):
    """It overrides nothing that is called for each delta. The clock is read at the beginning, the first output and each end: it
    is not the loop's own, which may know no more than milliseconds."""

    __slots__ = (
        "_began_at",
        "_channel",
        "_engine",
        "_first_at",
        "_instruments",
        "_key",
        "_known",
        "_last_at",
        "_model",
        "_running",
        "_tools",
    )

    def __init__(self, known: KnownSeries, arrival: Arrival, waited: float) -> None:
        """`waited`: the seconds since it arrived."""
        self._known = known
        self._instruments = instruments = known.instruments
        self._channel, self._began_at = arrival.channel, perf_counter() - waited
        self._key = instruments.keys.of(owner_to_label(arrival.owner))
        self._running: Gauge | None = None
        # Not from the request: a client may name any model, and names that no engine knows would use up the labels.
        self._model = NONE
        self._engine = NONE
        self._first_at: float | None = None
        self._last_at = 0.0
        # When the calls of tools that run now began, by their ids.
        self._tools: dict[str, float] = {}

    def request(self, response_id: str, request: CreateResponse) -> None:
        self._running = self._known.running(self._channel, bool(request.stream))
        self._running.inc()

    def asks(self, reason: AskReason) -> None:
        if reason != "first":
            self._instruments.asked_again.labels(reason).inc()

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._model = self._known.models.of(chat.model)
        self._engine = self._instruments.engines.of(engine)

    def answered(self, error: ApiError | None) -> None:
        outcome = OK if error is None else self._instruments.codes.of(error.code or error.kind)
        self._known.engine_answers(self._engine, outcome).inc()
        self._last_at = perf_counter()

    def tool_started(self, call: ToolCall) -> None:
        self._tools[call.id] = perf_counter()

    def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
        outcome = STOPPED if result is None else FAILED if result.failed else OK
        self._instruments.tool_calls.labels(call.kind, outcome).inc()
        self._instruments.tool_time.labels(call.kind).observe(perf_counter() - self._tools.pop(call.id))

    def first_output(self) -> None:
        self._first_at = perf_counter()

    def ended(self, response: Response) -> None:
        self._model = self._known.models.of(response.model, answered=response.status == "completed")
        series = self._end(response.status, response.error.code if response.error is not None else None)
        usage = response.usage
        tokens = usage.output_tokens if usage is not None else 0
        series.time(self._began_at, self._first_at, self._last_at, perf_counter(), tokens)
        if usage is not None:
            series.count(usage)

    def dropped(self, error: ApiError | None) -> None:
        if error is None:
            self._end(LEFT, None)
        else:
            self._end(REFUSED, error.code or error.kind)

    def _end(self, outcome: str, code: str | None) -> ResponseSeries:
        instruments, series = self._instruments, self._known.of(self._channel, self._model, self._key)
        if self._running is not None:
            self._running.dec()
        series.ended(outcome).inc()
        if code is not None:
            instruments.errors.labels(instruments.codes.of(code)).inc()
        return series
