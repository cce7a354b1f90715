"""What is counted of each response."""

from collections.abc import Callable

from antiphon.core.steps import AskReason
from antiphon.errors import ApiError
from antiphon.gateway.observers import Arrival, Observer
from antiphon.metrics.instruments import Instruments
from antiphon.metrics.label_values import NONE, owner_to_label
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse, Response, Usage

# How a response ended that has no status of its own.
REFUSED = "refused"
LEFT = "left"


def measured_responses(instruments: Instruments, clock: Callable[[], float]) -> Callable[[Arrival], Observer]:
    """`clock`: the one that arrivals are timed by."""
    return lambda arrival: MeasuredResponse(instruments, arrival, clock)


class MeasuredResponse(Observer):
    """It overrides nothing that is called for each delta. The clock is read twice: at the first output, and at the end."""

    def __init__(self, instruments: Instruments, arrival: Arrival, clock: Callable[[], float]) -> None:
        self._instruments = instruments
        self._clock = clock
        self._channel, self._began_at = arrival.channel, arrival.at
        self._key = instruments.keys.of(owner_to_label(arrival.owner))
        self._stream: str | None = None
        # Not from the request: a client may name any model, and names that no engine knows would use up the labels.
        self._model = NONE
        self._engine = NONE
        self._first_at: float | None = None

    def request(self, response_id: str, request: CreateResponse) -> None:
        self._stream = "true" if request.stream else "false"
        self._instruments.running.labels(self._channel, self._stream).inc()

    def asks(self, reason: AskReason) -> None:
        if reason != "first":
            self._instruments.asked_again.labels(reason).inc()

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._model = self._instruments.models.of(chat.model)
        self._engine = self._instruments.engines.of(engine)

    def answered(self, error: ApiError | None) -> None:
        outcome = "ok" if error is None else self._instruments.codes.of(error.code or error.kind)
        self._instruments.engine_answers.labels(self._engine, outcome).inc()

    def first_output(self) -> None:
        self._first_at = self._clock()

    def ended(self, response: Response) -> None:
        self._model = self._instruments.models.of(response.model)
        self._end(response.status, response.error.code if response.error is not None else None)
        self._count(response.usage)

    def dropped(self, error: ApiError | None) -> None:
        if error is None:
            self._end(LEFT, None)
        else:
            self._end(REFUSED, error.code or error.kind)

    def _end(self, outcome: str, code: str | None) -> None:
        instruments = self._instruments
        if self._stream is not None:
            instruments.running.labels(self._channel, self._stream).dec()
        instruments.responses.labels(self._channel, outcome, self._model, self._key).inc()
        if code is not None:
            instruments.errors.labels(instruments.codes.of(code)).inc()

    def _count(self, usage: Usage | None) -> None:
        instruments, now = self._instruments, self._clock()
        instruments.duration.labels(self._channel, self._model).observe(now - self._began_at)
        if self._first_at is not None:
            instruments.first_token.labels(self._model).observe(self._first_at - self._began_at)
        if usage is None:
            return
        for counter, tokens in (
            (instruments.input_tokens, usage.input_tokens),
            (instruments.cached_tokens, usage.input_tokens_details.cached_tokens),
            (instruments.output_tokens, usage.output_tokens),
            (instruments.reasoning_tokens, usage.output_tokens_details.reasoning_tokens),
        ):
            counter.labels(self._model, self._key).inc(max(0, tokens))
        if self._first_at is not None and usage.output_tokens > 1:
            instruments.between_tokens.labels(self._model).observe((now - self._first_at) / (usage.output_tokens - 1))
