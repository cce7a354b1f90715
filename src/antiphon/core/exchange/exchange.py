"""The Exchange: everything between a Responses request and its terminal event, without I/O.

    exchange = Exchange(request, engines, environment)
    exchange.start()                    → events
    exchange.step                       → what to do now: Ask | AwaitProbe | Check | ListTools | RunTools | Estimate | Count |
                                          Compact | Done
    exchange.receive(data)              → events of this piece of the engine's body, until `reading` is false
    exchange.finish()                   → events; the engine's body is at its end. The next step follows.
    exchange.refused(error)             → the engine refused before its first byte: learn, truncate, ask another, or fail
    exchange.checked(…), listed(…), tool_result(…), estimated(…), counted(…), compacted(), probed(…)   → events; the next step
                                          follows
    exchange.end()                      → the terminal event; the caller stores `response`, and then sends it

One response may take many engine answers: a repair, a lesson learned, a truncation, a round of tools. All of them are steps of
this one object. A compaction of the history is an exchange of its own, `compaction`. Usage is the sum over all of them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, structs

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.events.lifecycle import NO_CONTAINERS, Lifecycle
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.answering import Answered, after_refusal, may_give_way
from antiphon.core.exchange.closing import Closing, add_result, last_step, run_approved
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.opening import (
    Opening,
    add_compaction,
    compaction_failed,
    must_compact,
    request_to_summary_request,
    set_compact_threshold,
)
from antiphon.core.exchange.question import Question
from antiphon.core.exchange.response_object import Next, Phase, open_response
from antiphon.core.exchange.steps import COMPACT, DONE, Ask, Compact, Done, Estimate, ListTools, RunTools, Step
from antiphon.core.exchange.tool_runs import calls_to_tool_usage
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.stream.citations import Sources
from antiphon.core.stream.file_links import NO_FILES, CodeFile
from antiphon.core.toolbox.mcp_servers import Listing, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError, Cancelled
from antiphon.wire.chat import ChatRequest
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse, Response, Usage


class Exchange:
    """One response, from its request to its terminal event. See the top of this module for the order of the calls.

    `engines`: those that may be asked, the best first. `history`: stored items before the request's own input. `compact`: the
    answer is one sealed summary of the conversation. `may_ask_again`: an answer that is rejected, or that the engine failed at,
    may be asked for once more. `first_engine`: the number of the engine to begin with. `notices`: what was changed before the
    exchange began. `attached`: tools that the operator adds to those of the request. `runs_tools`: servers are asked for their
    tools, and approved calls are run, before the engine is asked. `containers`: the containers that tools run code in, by the
    types of the tools. `files`: the files that containers have already, by the ids of the containers. `in_words`: the numbers
    of those engines that get the tools of this conversation in words, whatever is known of them by now.
    """

    # The exchange that compacts the history before it is answered, if the prompt has too many tokens.
    compaction: "Exchange | None" = None

    def __init__(
        self,
        request: CreateResponse,
        engines: Sequence[EngineKnowledge],
        environment: Environment,
        *,
        history: Sequence[Item] = (),
        compact: bool = False,
        response_id: str | None = None,
        created_at: int | None = None,
        may_ask_again: bool = True,
        first_engine: int = 0,
        notices: Sequence[str] = (),
        attached: Sequence[Item] = (),
        runs_tools: bool = True,
        containers: Mapping[str, str] = NO_CONTAINERS,
        files: Mapping[str, Sequence[CodeFile]] = NO_FILES,
        in_words: Collection[int] = (),
    ) -> None:
        self.request, self.containers = request, containers
        question = Question(request, engines, environment, history, compact, first_engine, attached, in_words)
        self._open = open_response(
            request, question, environment,
            response_id=response_id, created_at=created_at, may_ask_again=may_ask_again, notices=notices, runs_tools=runs_tools,
            containers=containers, files=files,
        )  # fmt: skip
        self.response, self._sequence = self._open.response, self._open.answers.sequence
        # The engine answer that is being read; `receive`, `reading` and `check` are its own.
        self.answer = self._open.answers.reader
        self._lifecycle = Lifecycle(self.response, self._sequence.numbering)
        self._phase: Phase = Opening(self._open, "first")
        self.step: Step = DONE
        if request.context_management:
            set_compact_threshold(self._open, request.context_management)
        if request.generate is not False:
            self._follow(self._phase)

    # ---- what is known of it -----------------------------------------------------------------------------------------

    @property
    def engine(self) -> int:
        """The number of the engine that is asked."""
        return self._open.question.engine.number

    @property
    def knowledge(self) -> EngineKnowledge:
        """Of the engine that is asked."""
        return self._open.question.engine.knowledge

    @property
    def keeps_words(self) -> bool:
        """Its tools are in words although the model may see others, and have to stay so in this conversation."""
        return self.engine in self._open.question.engine.in_words

    @property
    def chat(self) -> ChatRequest:
        """The chat request as it is by now."""
        return self._open.question.conversion.chat

    @property
    def items(self) -> Sequence[Item]:
        """Every item of the conversation, those included that a compaction replaces."""
        return self._open.question.conversation.items

    @property
    def sources(self) -> Sources:
        """What the model can cite."""
        return self._open.sources

    @property
    def unlisted(self) -> Sequence[McpServer]:
        """The MCP servers whose tools are not known yet."""
        return self._open.question.unlisted

    def server_of(self, label: str) -> McpServer:
        """The MCP server that calls with this label go to. It has secrets: it is kept out of the calls, which are stored."""
        return self._open.question.conversion.box.servers.definitions[label].server

    @property
    def error(self) -> ApiError | None:
        return self._sequence.error

    @property
    def streams(self) -> bool:
        return bool(self.request.stream)

    @property
    def reading(self) -> bool:
        """More of the engine's body is wanted."""
        return self.answer.reading

    @property
    def check(self) -> CheckWork | None:
        """A check that has to be done while the engine's body is being read; give its outcome to `checked()`."""
        return self.answer.check

    @property
    def may_give_way(self) -> bool:
        """Nothing has come of the answer yet, and there is another engine."""
        return isinstance(self.step, Ask) and may_give_way(self._open)

    @property
    def notices(self) -> list[str]:
        """What was changed or left out on the way."""
        return self._open.notices

    # ---- from step to step -------------------------------------------------------------------------------------------

    def _follow(self, next: Next) -> None:
        """Takes every step that needs nobody else, until one does."""
        while True:
            if isinstance(next, Phase):
                self._phase = next
            elif isinstance(next, str):
                self._phase = Opening(self._open, next)
            else:
                self.step = next
                return
            next = self._phase.proceed()

    def _attempt(self, work: Callable[[], Next]) -> list[AnyEvent]:
        """An error on the way fails the response."""
        try:
            self._follow(work())
        except ApiError as error:
            self._open.answers.fail(error)
            self._follow(Closing(self._open))
        return self._sequence.take_events()

    # ---- the beginning -----------------------------------------------------------------------------------------------

    def start(self) -> list[AnyEvent]:
        opened = self._open
        begun, opened.has_started = self._lifecycle.start(), True
        waits = bool(opened.approvals) and isinstance(self.step, RunTools)
        return [*begun, *self._attempt(partial(run_approved, opened))] if waits else begun

    def listed(self, label: str, listing: Listing) -> list[AnyEvent]:
        """The tools of an MCP server, or why there are none."""
        phase = self._phase
        if not isinstance(self.step, ListTools) or not isinstance(phase, Opening) or not phase.add_list(label, listing):
            return []
        return self._attempt(phase.use_lists)

    def probed(self, knowledge: EngineKnowledge) -> list[AnyEvent]:
        """What is known of the engine, now that the probe has ended, or has been waited for long enough."""
        return self._attempt(partial(self._opening.probed, knowledge))

    @property
    def _opening(self) -> Opening:
        assert isinstance(self._phase, Opening)
        return self._phase

    def counted(self, tokens: int) -> list[AnyEvent]:
        """How many tokens the prompt has."""
        return self._attempt(partial(self._compact, tokens))

    def _compact(self, tokens: int) -> Next:
        """Has the history compacted first, if there are too many."""
        question = self._open.question
        if not must_compact(self._open, tokens):
            return self._phase
        self.compaction = self._make_compaction(
            request_to_summary_request(self.request),
            question.engine.engines,
            self._open.environment,
            history=question.conversation.history,
            compact=True,
            response_id=self.response.id,
            created_at=self.response.created_at,
            first_engine=question.engine.number,
            in_words=question.engine.in_words,
        )
        return COMPACT

    def _make_compaction(
        self,
        request: CreateResponse,
        engines: Sequence[EngineKnowledge],
        environment: Environment,
        *,
        history: Sequence[Item],
        first_engine: int,
        **options: Any,
    ) -> "Exchange":
        return Exchange(request, engines, environment, history=history, first_engine=first_engine, **options)

    def compacted(self) -> list[AnyEvent]:
        """`compaction` has run. If it failed, the prompt is answered as it is."""
        return self._attempt(self._use_compaction)

    def _use_compaction(self) -> Next:
        assert self.compaction is not None
        opened, made = self._open, self.compaction.response
        opened.answers.usage.add(self.compaction._open.answers.usage)
        opened.compaction_notices = (*opened.compaction_notices, *self.compaction.notices)
        while self.engine < self.compaction.engine:
            opened.use_next_engine()
        if made.status == "completed":
            add_compaction(opened, made.output[0])
            if self.request.beyond is not None and self.request.beyond.pauses_after_compaction:
                return last_step(opened.answers.usage)
        else:
            compaction_failed(opened, self.compaction.error)
        return self._phase

    # ---- an engine's answer, and what comes of it --------------------------------------------------------------------

    def receive(self, data: bytes) -> list[AnyEvent]:
        """A piece of the engine's body, however it is split."""
        return self.answer.receive(data)

    def join_pieces(self) -> None:
        """Takes less memory for the answer so far. To be called now and then, not for each piece."""
        self._sequence.join_pieces()

    def heartbeat(self) -> list[AnyEvent]:
        """Repeats that the response is in progress. SSE comments do not reset a client's idle timer, this does."""
        return [] if isinstance(self.step, Done) else [self._lifecycle.heartbeat()]

    def finish(self, error: ApiError | None = None) -> list[AnyEvent]:
        """The engine's body is at its end, or broke off with an error."""
        self.answer.finish(error)
        return self._attempt(partial(Answered, self._open))

    def refused(self, error: ApiError) -> list[AnyEvent]:
        """The engine refused before its first byte, or is not there."""
        return self._attempt(partial(after_refusal, self._open, error))

    def checked(self, outcome: CheckOutcome) -> list[AnyEvent]:
        """The outcome of the check that a step, or `check`, asked for."""
        return self._attempt(partial(self._phase.checked, outcome))

    def tool_result(self, call_id: str, result: ToolResult) -> list[AnyEvent]:
        is_last = add_result(self._open, call_id, result)
        return self._attempt(lambda: self._phase) if is_last else self._sequence.take_events()

    def estimated(self, usages: Sequence[Usage]) -> list[AnyEvent]:
        self._open.answers.usage.estimate(usages)
        self.step = DONE
        return self._sequence.take_events()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def abort(self, error: ApiError) -> list[AnyEvent]:
        """Ends the response with this error, whatever it is doing. Of one that is cancelled, the usage is still estimated. One
        that its client can continue is not failed."""
        opened = self._open
        if not isinstance(self.step, Done):
            cancelled = isinstance(error, Cancelled) and not isinstance(self.error, Cancelled)
            pauses = error.is_pause and opened.can_pause
            if cancelled or pauses:
                self._count_cut_answer(error)
            if opened.tool_runs is not None:
                opened.tool_runs.abandon()
            opened.answers.abandon(None if pauses else error)
            self.response.was_paused = True if pauses else UNSET
            self.step = last_step(opened.answers.usage) if cancelled or pauses else DONE
        return self._sequence.take_events()

    def _count_cut_answer(self, error: ApiError) -> None:
        answers = self._open.answers
        if self.compaction is not None and isinstance(self.step, Compact):
            self.compaction.abort(error)
            answers.usage.add(self.compaction._open.answers.usage)
        elif not isinstance(self.step, Estimate) and (answers.usage.current is not None or answers.output.written):
            self._open.count_answer()

    def end(self, error: ApiError | None = None) -> list[AnyEvent]:
        """The terminal event, and the response as it is to be stored: the caller stores it, and only then sends the event.

        With an error, again: it could not be stored, and must not be reported as if it were.
        """
        opened, answers, response = self._open, self._open.answers, self.response
        if error is not None:
            self._sequence.end_with(error)
        response.output = answers.output.items
        response.usage = answers.usage.total()
        if answers.enforcement.requirements.hosted:
            response.tool_usage = calls_to_tool_usage(answers.output.calls)
        if opened.request.beyond is not None:
            opened.show_beyond()
        opened.show_notices()
        now, incomplete = int(opened.environment.now()), answers.output.ending.incomplete
        terminal = self._lifecycle.end(now, incomplete=incomplete, error=self._sequence.error)
        return [*self._sequence.take_events(), terminal]

    @property
    def stored_response(self) -> Response:
        """The response after `end()` as it is stored: its calls have what the model read of them."""
        runs = self._open.tool_runs
        if runs is None:
            return self.response
        return structs.replace(self.response, output=runs.to_stored(self.response.output))
