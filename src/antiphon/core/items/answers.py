"""The engine answers of one response together: one is read after another, measured, emitted and counted."""

from collections.abc import Callable

from antiphon.core.events.lifecycle import EventOptions, Numbering
from antiphon.core.items.answer_reader import AnswerReader
from antiphon.core.items.calls import CallState, Forms
from antiphon.core.items.enforcement import Enforcement
from antiphon.core.items.item_sequence import ItemSequence
from antiphon.core.items.output import Output
from antiphon.core.items.usage import NOTHING_WRITTEN, Uncounted, UsageCount
from antiphon.core.stream.chat_chunks import OUT_OF_TOKENS
from antiphon.errors import ApiError
from antiphon.wire.chat import ChatRequest


class Answers:
    """Each answer is read with the `reader`. Once it is at its end, it is asked for again, or its items are closed."""

    __slots__ = ("enforcement", "may_ask_again", "output", "reader", "sequence", "usage")

    def __init__(self, new_id: Callable[[str], str], style: EventOptions, forms: Forms, may_ask_again: bool) -> None:
        """`may_ask_again`: an answer that is rejected, or that the engine failed at, may be asked for once more."""
        self.may_ask_again = may_ask_again
        self.usage = UsageCount()
        self.enforcement = Enforcement(may_ask_again, may_ask_again)
        self.sequence = ItemSequence(Numbering(), self.enforcement)
        self.output = Output(self.sequence, new_id, style, self.enforcement, self.usage, forms)
        self.reader = AnswerReader(self.output, self.sequence)

    # ---- an answer that is at its end --------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        output = self.output
        ended = output.reason is not None or (self.reader.ended and not output.has_cut_call)
        return ended and self.sequence.error is None

    @property
    def may_start_over(self) -> bool:
        return self.may_ask_again and self.output.can_start_over

    @property
    def thought_took_all_tokens(self) -> bool:
        """The thought took all tokens that the answer may have, and what is required of the answer is missing."""
        output = self.output
        if output.ending.incomplete != OUT_OF_TOKENS or not self.may_ask_again:
            return False
        return output.only_thought and self.enforcement.missing(output.round) is not None

    @property
    def calls_have_results(self) -> bool:
        """Every call of this round has a result, so the model continues. A call that the client runs ends the response."""
        calls = [state for state in self.output.turn if isinstance(state, CallState)]
        return bool(calls) and all(call.result is not None for call in calls)

    def count(self, engine: int, chat: ChatRequest) -> None:
        """Counts what this engine's answer to `chat` took. Without a report, one that failed counts for nothing."""
        output, usage = self.output, self.usage
        if usage.current is not None:
            # Only what the engine says about a thought is completed by what was written.
            usage.end_reported(output.lengths if output.has_thought else NOTHING_WRITTEN)
        elif self.sequence.error is None:
            usage.end_unreported(Uncounted(engine, chat, output.written, output.lengths))

    # ---- how they end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes every item. It may take a check or a tool."""
        sequence = self.sequence
        if sequence.live is not None or sequence.waiting:
            cut = sequence.error is not None or self.output.ending.incomplete
            sequence.close_items("incomplete" if cut else "completed")

    def fail(self, error: ApiError) -> None:
        """Something else than an engine's answer has failed: what there is, is closed."""
        self.output.begin_answer()
        self.output.fail(error)
        self.enforcement.stop_rejecting()
        self.close()
        self.reader.continue_output()

    def abandon(self, error: ApiError | None) -> None:
        """Ends everything as it is, with this error. None: that is no fault."""
        self.enforcement.stop_rejecting()
        if error is not None:
            self.sequence.end_with(error)
        self.reader.abandon()
