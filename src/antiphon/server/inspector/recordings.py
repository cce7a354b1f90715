"""The recordings of a gateway: a ring of fixed size. The oldest is forgotten first."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count

from multidict import istr

from antiphon.core.prompt.documents import may_have_images, without_images
from antiphon.core.recording.environment_values import OVERHEAD
from antiphon.core.recording.prompt_changes import to_print
from antiphon.core.recording.recording import ASKED, Recording
from antiphon.core.toolbox.mcp_servers import body_without_secrets, may_have_secrets
from antiphon.errors import ApiError, InvalidRequest
from antiphon.gateway.runs.observers import Arrival, Observer, Receiver
from antiphon.server.inspector.rows import Row, RowError, Turn, Turns, messages_of_chat
from antiphon.server.inspector.viewers import Viewers
from antiphon.wire.chat import ChatRequest, PromptProgress
from antiphon.wire.responses import CreateResponse, OutputMessage, Response

# What a row takes without its recording, in bytes, about.
ROW_SIZE = 4096
# How many requests that have ended are kept. Each is about twenty objects, which the garbage collector looks at on the event
# loop: with many thousands, others would notice.
MOST_ENDED = 1000
# Of more requests than the rate allows, those of so many seconds are recorded all the same.
BURST = 10.0
# The memory of a running request is counted in steps of so many bytes: not for each piece of its answer.
STEP = 64 * 1024
# One recording may take this part of the whole.
LARGEST_PART = 8
# The headers that are kept: who asks, and in which way. None of them is a secret.
KEPT = ("User-Agent", "Content-Type", "X-Request-Id", "OpenAI-Beta", "Originator", "X-Stainless-Package-Version")
# Each as it is looked up, which takes half as long as by a `str`, and as it is kept.
HEADERS = tuple((istr(name), name) for name in KEPT)
LONGEST_HEADER = 200
# The least that is kept of a body too large to be recorded.
BODY_START = 16 * 1024
# The most of a body without an exchange that is kept if it has images: finding them takes 3 ms a megabyte.
LONGEST_SEARCHED = 1024 * 1024


class RecordedRequest(Observer):
    """One request: its row, and the inputs of its exchange."""

    __slots__ = (
        "_body",
        "_recordings",
        "arrived",
        "counted",
        "headers",
        "is_json",
        "is_running",
        "outcome",
        "path",
        "recording",
        "row",
        "turn",
    )

    recording: Recording

    def __init__(self, recordings: "Recordings", number: int, arrival: Arrival) -> None:
        self._recordings = recordings
        self.arrived = arrival.at
        at = recordings.wall_clock() - recordings.now() + arrival.at
        self.row = Row(number=number, at=at, channel=arrival.channel, path=arrival.path, owner=arrival.owner)
        self.turn = Turn(number, number, arrival.owner)
        self._body = arrival.body
        self.path, self.is_json = arrival.path, arrival.is_json
        self.headers: dict[str, str] = {}
        for key, name in HEADERS:
            if (value := arrival.headers.get(key)) is not None:
                self.headers[name] = value[:LONGEST_HEADER]
        self.is_running = True
        # Hash of the response at its end.
        self.outcome: int | None = None
        # The bytes that are counted for it.
        self.counted = 0

    # ---- what it sees ------------------------------------------------------------------------------------------------

    def recorded(self, recording: Recording) -> None:
        self.recording, self._body = recording, b""

    def request(self, response_id: str, request: CreateResponse) -> None:
        self.row.describe(response_id, request)
        self.turn.describe(response_id, request)
        if self._recordings.viewers.open:
            self._show()

    def chat(self, chat: ChatRequest, engine: str) -> None:
        recording, row = self.recording, self.row
        row.asks += 1
        # It may have waited for its place there until now.
        recording.note(recording.part + ASKED, engine)
        if row.engine != engine:
            row.engine = engine
            row.dialect = None
            for facts in recording.engines:
                if facts.name == engine:
                    row.dialect = facts.dialect.name
                    break
        if not recording.part:
            self._compare(chat, engine)
        if self._recordings.viewers.open:
            self._show()

    def _compare(self, chat: ChatRequest, engine: str) -> None:
        prompt = to_print(chat, engine)
        self.recording.size += prompt.size
        if self.turn.prints:
            self.turn.prints.append(prompt)
            return
        previous = self._recordings.turns.asked(self.turn, prompt, chat.model)
        self.row.conversation = self.turn.first
        if previous is not None:
            self.row.previous, self.row.prefix_changed = previous.number, not self.turn.continues(previous)

    def receiver(self) -> Receiver:
        """Does what `recording.receive()` does. It is called for every piece of every answer: the size is counted in steps."""
        recording = self.recording
        keep, keep_time, now = recording.pieces.append, recording.times.append, recording.now
        left = 0

        def receive(data: bytes) -> None:
            nonlocal left
            keep(data)
            keep_time(now())
            left -= len(data) + OVERHEAD
            if left < 0:
                left = self._count_pieces()

        return receive

    def _count_pieces(self) -> int:
        """Returns after how many bytes more they are to be counted again."""
        self.recording.count_pieces()
        self._count(self.recording.size + ROW_SIZE + STEP)
        return STEP

    def reading(self, progress: PromptProgress) -> None:
        self.row.prompt_read = round(progress.share, 3)
        if self._recordings.viewers.open:
            self._show()

    def first_output(self) -> None:
        recordings = self._recordings
        self.row.prompt_read = None
        self.row.first_token = recordings.now() - self.arrived
        if recordings.viewers.open:
            self._show()

    def ended(self, response: Response) -> None:
        self.row.finish(response)
        self.outcome = to_outcome(response)
        self._end()

    def dropped(self, error: ApiError | None) -> None:
        row = self.row
        if row.id is None:
            self._keep_body()
        if error is None:
            row.status = "left"
        else:
            row.status = "refused" if row.id is None or isinstance(error, InvalidRequest) else "failed"
            row.http_status, row.error = error.status, RowError.of(error.code, error.message, error.param)
        self._end()

    def passed_on(self, model: str | None, engine: str, status: int) -> None:
        messages = messages_of_chat(self._body)
        self.row.passed(messages, model, engine, status)
        self._keep_body()
        self.row.conversation = self._recordings.turns.passed(self.turn, messages, model)
        self._end()

    def _keep_body(self) -> None:
        """There is nothing else: it had no exchange."""
        self.recording = Recording(_body_alone(self._body), self._recordings.now)
        self.recording.size = len(self.recording.body)
        self._body = b""

    def _end(self) -> None:
        self.is_running = False
        recordings, recording = self._recordings, self.recording
        recordings.ended(self)
        self.row.prompt_read = None
        self.row.time(recordings.now() - self.arrived)
        recording.count_pieces()
        self._count(recording.size + ROW_SIZE)
        if recordings.viewers.open:
            self._show()

    def _show(self) -> None:
        """Called only if somebody looks on: mostly nobody does."""
        self._recordings.viewers.show(self.row)

    # ---- its memory --------------------------------------------------------------------------------------------------

    def _count(self, size: int) -> None:
        recordings = self._recordings
        if self.recording.size > recordings.largest:
            self._cut()
            size = self.recording.size + ROW_SIZE
        recordings.used += size - self.counted
        self.counted = size
        recordings.make_room()

    def _cut(self) -> None:
        """Keeps what there is, and adds nothing. A request that is too large by itself is not kept either."""
        recording = self.recording
        recording.is_cut = True
        if len(recording.body) + len(recording.history) > self._recordings.largest:
            self._empty()

    def _empty(self) -> None:
        self.recording.empty(self.recording.body[:BODY_START])

    def give_back(self) -> None:
        """Its memory, while it runs: there is nobody else to take it from."""
        self._empty()
        size = self.recording.size + ROW_SIZE
        self._recordings.used += size - self.counted
        self.counted = size


def _body_alone(body: bytes) -> bytes:
    """Without images and secrets. Of a long one that may have any, only the beginning is searched for them: this is done on
    the event loop."""
    if may_have_images(body) or may_have_secrets(body):
        body = body_without_secrets(body[:LONGEST_SEARCHED])
    return without_images(body)


def to_outcome(response: Response) -> int:
    """By which two runs of the same exchange are compared, in one process."""
    calls = [str(getattr(item, "arguments", None)) for item in response.output if type(item) is not OutputMessage]
    total = response.usage.total_tokens if response.usage is not None else None
    last = response.output[-1].id if response.output else None
    return hash((response.id, response.status, response.output_text, last, *calls, total, *(response.antiphon_notices or ())))


class Recordings:
    def __init__(
        self,
        most_bytes: int,
        now: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
        *,
        rate: float = math.inf,
        burst: float = BURST,
        most_ended: int = MOST_ENDED,
        next_number: Callable[[], int] | None = None,
    ) -> None:
        """`now`: the clock of the event loop. `rate`: how many requests a second are recorded. `next_number`: where
        requests get their numbers from; None: they are counted here."""
        self.most_bytes = most_bytes
        self.largest = most_bytes // LARGEST_PART
        self.now = now
        self.wall_clock = wall_clock
        self._seconds_each = 1 / rate
        self._burst = burst
        self._most_ended = most_ended
        # When the next request is due, at that rate.
        self._due = 0.0
        # How many were not recorded.
        self.left_out = 0
        # The bytes that are counted for all.
        self.used = 0
        self.turns = Turns()
        self.viewers = Viewers()
        self._next_number = next_number or count(1).__next__
        self._requests: dict[int, RecordedRequest] = {}
        # Those that have ended, the oldest first.
        self._ended: OrderedDict[int, RecordedRequest] = OrderedDict()

    def may_record(self) -> bool:
        """Another request may be recorded now."""
        now = self.now()
        if self._due - now > self._burst:
            self.left_out += 1
            return False
        self._due = max(self._due, now) + self._seconds_each
        return True

    def observe(self, arrival: Arrival) -> Observer | None:
        """Makes the observer of a request, which also is what is kept of it."""
        if not arrival.is_recorded:
            return None
        number = self._next_number()
        request = self._requests[number] = RecordedRequest(self, number, arrival)
        return request

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RecordedRequest]:
        """The newest first."""
        return reversed(self._requests.values())

    def get(self, number: int) -> RecordedRequest | None:
        return self._requests.get(number)

    def ended(self, request: RecordedRequest) -> None:
        """It may be forgotten from now on."""
        if request.row.number in self._requests:
            self._ended[request.row.number] = request

    def make_room(self) -> None:
        while self.used > self.most_bytes or len(self._ended) > self._most_ended:
            if self._ended:
                self.forget(next(iter(self._ended.values())))
                continue
            largest = max(self._requests.values(), key=lambda each: each.counted, default=None)
            if largest is None or largest.counted <= BODY_START + ROW_SIZE:
                return
            largest.give_back()

    def forget(self, request: RecordedRequest) -> None:
        if self._requests.pop(request.row.number, None) is not None:
            self._ended.pop(request.row.number, None)
            self.used -= request.counted
            self.turns.forget(request.turn)
