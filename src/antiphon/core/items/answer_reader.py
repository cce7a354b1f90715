"""One engine answer after another: bytes in, and through to the output. What comes while a check blocks that waits here."""

import sys
from collections import deque
from collections.abc import Iterable

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.events.deltas import CallDelta, Delta, EngineFailed
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.items.item_sequence import ItemSequence
from antiphon.core.items.output import Output
from antiphon.core.stream.answer_stream import AnswerStream
from antiphon.core.stream.citations import CitedText, Sources
from antiphon.core.stream.engine_protocols import CHAT_COMPLETIONS, EngineProtocol
from antiphon.core.stream.fast_path import FRAME_END, Continuation
from antiphon.core.stream.reasoning_tags import Start
from antiphon.core.stream.repeated_prompts import WithoutRepeatedPrompts
from antiphon.core.stream.stop_sequences import TextUpToStop
from antiphon.core.stream.text_calls import CallFinder, ConstrainedCall, calls_ending_thought
from antiphon.errors import ApiError
from antiphon.wire.chat import PromptProgress
from antiphon.wire.responses import Beyond

NOT_BEGUN = AnswerStream()
# A read with fewer frames is received as a whole: the template for its deltas would cost more than it saves.
MANY_FRAMES = 6
# The first frame of an answer may have only the role of its message. The one after it has a text that makes a template.
FIRST_FRAMES = 2


class AnswerReader:
    """`begin()` an answer, `receive()` its bytes, `finish()` it; then the next.

    A caller with other things to do says how many bytes are `read_at_once()`. After more of them the reader `is_behind`:
    the caller has it `read_on()`, where and when that disturbs nobody.
    """

    __slots__ = (
        "_behind_cut",
        "_deferred",
        "_finder",
        "_most_at_once",
        "_output",
        "_sequence",
        "_stream",
        "calls_in_thoughts",
        "continuation",
        "left_out",
        "needs_caller",
        "reading",
        "repeats_prompt",
    )

    def __init__(self, output: Output, sequence: ItemSequence) -> None:
        self._output = output
        self._sequence = sequence
        # What most reads are: more of what is open. A caller may take the event of such a read itself.
        self.continuation: Continuation | None = None
        # The same, for a read that begins with the rest of a frame.
        self._behind_cut: Continuation | None = None
        self._stream: AnswerStream = NOT_BEGUN
        self._finder: CallFinder | None = None
        # How many calls were found in a thought.
        self.calls_in_thoughts = 0
        # Sentences of ours were in an answer, and were not passed on.
        self.repeats_prompt = False
        # What preceded the JSON of an answer, and was not passed on.
        self.left_out = ""
        # Made when it is needed: an empty one takes 760 bytes, in every stream.
        self._deferred: deque[Delta] | None = None
        # More of the engine's body is wanted.
        self.reading = False
        self._most_at_once = sys.maxsize
        # There is a check to be done, no more is wanted of the engine's body, or the reader is behind: the caller has to look.
        self.needs_caller = False

    def begin(
        self,
        start: Start,
        finder: CallFinder | None,
        sources: Sources | None = None,
        protocol: EngineProtocol = CHAT_COMPLETIONS,
        beyond: Beyond | None = None,
    ) -> None:
        """`sources`: what the answer may cite. `protocol`: the API of the engine. `beyond`: what the client's API has beside
        the Responses API."""
        stops = beyond.stop_sequences if beyond is not None else None
        searched = TextUpToStop(finder, stops) if stops else finder
        if sources:
            searched = CitedText(searched, sources)
        passes_extras = beyond is not None and beyond.passes_extras
        # The gateway asks for it in any case.
        passes_progress = beyond is not None and bool((beyond.engine_fields or {}).get("return_progress"))
        self._stream = protocol.reader(
            start,
            searched,
            most_at_once=self._most_at_once,
            passes_extras=passes_extras,
            passes_progress=passes_progress,
        )
        self._finder = finder
        self._output.begin_answer()
        self.reading = True
        self.needs_caller = False
        self.continuation = self._behind_cut = None

    def read_at_once(self, most: int) -> None:
        self._most_at_once = self._stream.most_at_once = most

    @property
    def check(self) -> CheckWork | None:
        """A check that has to be done before the output goes on."""
        return self._sequence.check

    @property
    def ended(self) -> bool:
        """The engine has said that its answer is complete."""
        return self._stream.ended

    @property
    def progress(self) -> PromptProgress | None:
        return self._stream.progress

    @property
    def template_opens_thought(self) -> bool:
        return self._stream.template_opens_thought

    @property
    def has_logprobs(self) -> bool:
        return self._stream.has_logprobs

    @property
    def breaks_form(self) -> bool:
        """The answer is certainly not what the engine was to constrain it to."""
        finder = self._finder
        if isinstance(finder, WithoutRepeatedPrompts):
            finder = finder.finder
        return isinstance(finder, ConstrainedCall) and finder.breaks_form

    @property
    def is_behind(self) -> bool:
        return self._stream.is_behind

    @property
    def has_large_end(self) -> bool:
        """`finish()` has much to read."""
        return self._stream.has_large_end

    def receive(self, data: bytes) -> list[AnyEvent]:
        continuation = self.continuation
        if continuation is not None and (event := continuation.take(data)) is not None:
            return [event]
        return self.receive_other(data)

    def receive_other(self, data: bytes) -> list[AnyEvent]:
        """What the continuation does not take as one delta."""
        stream = self._stream
        taken: list[AnyEvent] = []
        if (continuation := self.continuation or self._behind_cut) is not None:
            taken, data = continuation.take_burst(stream.with_cut(data))
            if not data or stream.keep_cut(data):
                self._continue_with(continuation)
                return taken
            stream.catch_up(continuation)
        elif data.count(FRAME_END) >= MANY_FRAMES and len(data) <= stream.most_at_once:
            taken, data = self._take_first(data)
        self._pass_on(stream.receive(data))
        events = self._take_events()
        return taken + events if taken else events

    def _take_first(self, data: bytes) -> tuple[list[AnyEvent], bytes]:
        """The events of the beginning of a read that nothing is known for yet, and the rest. An engine that is faster than its
        answer is read has sent many deltas: the first ones make a template for the others."""
        stream = self._stream
        events: list[AnyEvent] = []
        for _ in range(FIRST_FRAMES):
            end = data.find(FRAME_END) + len(FRAME_END)
            self._pass_on(stream.receive(data[:end]))
            events += self._take_events()
            data = data[end:]
            if (continuation := self.continuation) is not None:
                burst, data = continuation.take_burst(data)
                stream.catch_up(continuation)
                return events + burst, data
        return events, data

    def read_on(self) -> list[AnyEvent]:
        """Reads what is left of what was received."""
        self._pass_on(self._stream.read_on())
        return self._take_events()

    def _take_events(self) -> list[AnyEvent]:
        sequence = self._sequence
        if self.reading:
            self._continue_with(self._stream.continuation(sequence.fast_path, sequence.numbering))
        return sequence.take_events()

    def _continue_with(self, continuation: Continuation | None) -> None:
        """A read that begins inside a frame is not compared as it is."""
        if self._stream.has_cut:
            self.continuation, self._behind_cut = None, continuation
        else:
            self.continuation, self._behind_cut = continuation, None

    def finish(self, error: ApiError | None) -> None:
        """The body is at its end, or broke off with an error."""
        last = self._stream.close()
        # Nothing continues it.
        self.continuation = self._behind_cut = None
        if error is None:
            if last:
                self._pass_on(last)
            if self._finder is not None and (calls := self._calls_in_thought(self._finder)):
                self._pass_on(calls)
        else:
            # A frame that was cut off is no failure of its own: what cut it off is.
            self._pass_on([*(delta for delta in last if not isinstance(delta, EngineFailed)), EngineFailed(error)])
        self.left_out = self.left_out or self._stream.left_out
        if isinstance(self._finder, WithoutRepeatedPrompts):
            self.repeats_prompt |= self._finder.repeats_prompt
        self.reading, self.needs_caller = False, True

    def _calls_in_thought(self, finder: CallFinder) -> list[CallDelta]:
        """The calls of an answer that is nothing but a thought: without them, an agent would stop here."""
        thought = self._output.lone_thought
        ended = self.ended or self._output.reason is not None
        if thought is None or not ended:
            return []
        calls = calls_ending_thought(thought, finder.names)
        self.calls_in_thoughts += len(calls)
        return calls

    def checked(self, outcome: CheckOutcome) -> None:
        self._sequence.checked(outcome)
        self.continue_output()

    def continue_output(self) -> None:
        """Passes on what has waited, as far as nothing blocks the output."""
        deferred, sequence = self._deferred, self._sequence
        if deferred:
            while deferred and sequence.check is None:
                self._output.receive(deferred.popleft())
            sequence.set_fast_path()
        self._look_at_output()

    def abandon(self) -> None:
        self.continuation = self._behind_cut = None
        self._deferred = None
        self.reading = False
        self._sequence.abandon()

    def _pass_on(self, deltas: Iterable[Delta]) -> None:
        output, sequence = self._output, self._sequence
        for delta in deltas:
            if sequence.check is None:
                output.receive(delta)
            else:
                self._deferred = self._deferred or deque()
                self._deferred.append(delta)
        sequence.set_fast_path()
        self._look_at_output()

    def _look_at_output(self) -> None:
        sequence = self._sequence
        # Something else may be open now.
        self.continuation = self._behind_cut = None
        # An engine that has finished an answer which was rejected still has its usage to report, unless it has failed.
        stream = self._stream
        if stream.ended or stream.is_cut or stream.failed or (sequence.error is not None and self._output.reason is None):
            self.reading = False
        self.needs_caller = not self.reading or sequence.check is not None or stream.is_behind
