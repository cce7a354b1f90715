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
from enum import Enum
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, structs

from antiphon.core.checks.work import CheckOutcome, CheckWork, DefinitionWork
from antiphon.core.events.event_style import NO_CONTAINERS
from antiphon.core.events.lifecycle import Lifecycle
from antiphon.core.events.numbering import Numbering
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.answer_lessons import AnswerLessons
from antiphon.core.exchange.auto_compaction import AutoCompaction, request_to_summary_request
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.notices import answer_notices, shortened
from antiphon.core.exchange.question import Question
from antiphon.core.exchange.response_object import request_to_response, request_to_style, sampling_to_echo
from antiphon.core.exchange.steps import (
    COMPACT,
    DONE,
    Ask,
    AskReason,
    AwaitProbe,
    Check,
    Compact,
    Count,
    Done,
    Estimate,
    ListTools,
    RunTools,
    Step,
    ToolCall,
)
from antiphon.core.exchange.tool_runs import ToolRuns, calls_to_tool_usage, room_for_results, tokens_used
from antiphon.core.hosted.mcp.approvals import ApprovedCall
from antiphon.core.hosted.mcp.tool_lists import ListState, failure_message
from antiphon.core.hosted.shell import KIND as HOSTED_SHELL
from antiphon.core.hosted.shell import result_to_state
from antiphon.core.hosted.shown_results import files_shown
from antiphon.core.hosted.tool_search import ToolSearchOutputState
from antiphon.core.items.answer_reader import AnswerReader
from antiphon.core.items.calls import CallState
from antiphon.core.items.enforcement import Enforcement, Rejection
from antiphon.core.items.item_sequence import ItemSequence
from antiphon.core.items.messages import FinishedCompaction
from antiphon.core.items.output import Output
from antiphon.core.items.usage import NOTHING_WRITTEN, Uncounted, UsageCount
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.documents import ReadWork
from antiphon.core.prompt.rounds import states_to_turn
from antiphon.core.stream.chat_chunks import COMPLETED, OUT_OF_TOKENS
from antiphon.core.stream.citations import Sources
from antiphon.core.stream.engine_protocols import protocol_of
from antiphon.core.stream.file_links import NO_FILES, CodeFile
from antiphon.core.stream.think_tags import thought_start
from antiphon.core.toolbox.mcp_servers import Listing, McpServer
from antiphon.core.toolbox.requirements import wants_json
from antiphon.core.toolbox.search import found_to_text
from antiphon.core.toolbox.tools import Toolbox, ToolResult
from antiphon.errors import (
    AnswerInvalid,
    ApiError,
    Cancelled,
    ContextLengthExceeded,
    EngineDisagrees,
    EngineError,
    EngineUnavailable,
    ExternalConnectorError,
    RateLimited,
)
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import Compaction, CreateResponse, OutputItem, Response, Usage

Item = dict[str, Any]
CUT_SHORT = "The engine's stream ended before the answer did."


def _is_engines_own(error: ApiError) -> bool:
    """The engine failed, or has too much to do: another one may answer the same request."""
    return isinstance(error, EngineError | RateLimited)


class Phase(Enum):
    ASKING = "an engine is asked, or answers"
    ANSWERED = "the engine's answer is at its end"
    CLOSING = "its items are being closed, which may take a check or a tool"


class Exchange:
    """One response, from its request to its terminal event. See the top of this module for the order of the calls.

    It has fewer than 30 attributes, those of `RecordedExchange` included: with more, Python gives every one a dictionary of its
    own, which takes 1.6 KB.
    """

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
        asks_again: bool = True,
        first_engine: int = 0,
        notices: Sequence[str] = (),
        attached: Sequence[Item] = (),
        runs_tools: bool = True,
        containers: Mapping[str, str] = NO_CONTAINERS,
        files: Mapping[str, Sequence[CodeFile]] = NO_FILES,
        in_words: Collection[int] = (),
    ) -> None:
        """`engines`: those that may be asked, the best first. `history`: stored items before the request's own input.
        `compact`: the answer is one sealed summary of the conversation. `asks_again`: an answer that is rejected, or that the
        engine failed at, may be asked for once more. `first_engine`: the number of the engine to begin with. `notices`: what
        was changed before the exchange began. `attached`: tools that the operator adds to those of the request. `runs_tools`:
        servers are asked for their tools, and approved calls are run, before the engine is asked. `containers`: that tools run
        code in, by the types of the tools. `files`: that these have already, by their ids. `in_words`: the numbers of those
        engines that get the tools of this conversation in words, whatever is known of them by now."""
        self.containers = containers
        self.request = request
        self._engines = engines
        self._earlier_notices = notices
        self._environment = environment
        self._question = Question(
            request,
            engines,
            environment,
            history=history,
            compact=compact,
            first_engine=first_engine,
            attached=attached,
            in_words=in_words,
        )
        self._runs_tools = runs_tools
        self.response = self._make_response(response_id, created_at)
        self.step: Step
        # Why the engine is asked next.
        self._reason: AskReason = "first"
        self._phase = Phase.ASKING
        self._lifecycle = Lifecycle(self.response, numbering := Numbering())
        self._usage = UsageCount()
        self._asks_again = asks_again
        self._enforcement = Enforcement(may_reject=asks_again)
        self._sequence = ItemSequence(numbering, self._enforcement)
        self._output = self._make_output()
        # The engine answer that is being read; `receive`, `reading` and `check` are its own.
        self.answer = AnswerReader(self._output, self._sequence)
        # The work that has to be done before the engine is asked.
        self._preparing: ReadWork | DefinitionWork | None = None
        # The calls of tools that the gateway runs, if there are any.
        self._tool_runs: ToolRuns | None = None
        # What the model can cite: the results of tools that the gateway ran.
        self.sources = Sources(files_shown(self._question.items))
        for container, known in files.items():
            self.sources.add_files(container, known)
        # By label: the lists of MCP servers that have come, until all are there.
        self._listings: dict[str, Listing] = {}
        self._approvals = self._question.approvals if runs_tools and not self._question.conversion.compacts else []
        self._has_started = False
        # The exchange that compacts the history before it is answered, if the prompt has too many tokens.
        self.compaction: Exchange | None = None
        self._auto_compaction = AutoCompaction(request, self._question, environment) if request.context_management else None
        if request.generate is False:
            self.step = DONE
        else:
            self._ask()

    def _make_response(self, response_id: str | None, created_at: int | None) -> Response:
        conversion, environment = self._question.conversion, self._environment
        return request_to_response(
            self.request,
            conversion.box.echo,
            response_id=response_id or environment.new_id("resp"),
            model=conversion.chat.model,
            now=int(environment.now()) if created_at is None else created_at,
            sampling=conversion.sampling,
        )

    def _make_output(self) -> Output:
        return Output(
            self._sequence,
            new_id=self._environment.new_id,
            style=request_to_style(self.request, self._question, self._environment, self.containers),
            enforcement=self._enforcement,
            usage=self._usage,
            forms=self._environment.forms,
        )

    # ---- what is known of it -----------------------------------------------------------------------------------------

    @property
    def engine(self) -> int:
        """The number of the engine that is asked."""
        return self._question.engine

    @property
    def chat(self) -> ChatRequest:
        """The chat request as it is by now."""
        return self._question.conversion.chat

    @property
    def items(self) -> Sequence[Item]:
        """Every item of the conversation, those included that a compaction replaces."""
        return self._question.items

    @property
    def unlisted(self) -> Sequence[McpServer]:
        """The MCP servers whose tools are not known yet."""
        return self._question.unlisted

    def server_of(self, label: str) -> McpServer:
        """The MCP server that calls with this label go to. It has secrets: it is kept out of the calls, which are stored."""
        return self._question.conversion.box.mcp[label].server

    @property
    def error(self) -> ApiError | None:
        return self._sequence.error

    @property
    def streams(self) -> bool:
        return bool(self.request.stream)

    @property
    def answer_ended(self) -> bool:
        """The engine has sent the whole of its current answer."""
        return self.answer.ended

    @property
    def reading(self) -> bool:
        """More of the engine's body is wanted."""
        return self.answer.reading

    @property
    def check(self) -> CheckWork | None:
        """A check that has to be done while the engine's body is being read; give its outcome to `checked()`."""
        return self.answer.check

    @property
    def notices(self) -> list[str]:
        """What was changed or left out on the way."""
        notices = [*self._earlier_notices, *self._question.notices]
        if self._auto_compaction is not None:
            notices += self._auto_compaction.notices
        notices = shortened(notices) if notices else notices
        if self._tool_runs is not None:
            notices += self._tool_runs.notices
        notices += answer_notices(self.request, self._question, self._enforcement, self._output, self.answer)
        return list(dict.fromkeys(notices)) if notices else notices

    # ---- the beginning -----------------------------------------------------------------------------------------------

    def start(self) -> list[AnyEvent]:
        begun, self._has_started = self._lifecycle.start(), True
        waits = bool(self._approvals) and isinstance(self.step, RunTools)
        return [*begun, *self._attempt(self._run_approved)] if waits else begun

    def join_pieces(self) -> None:
        """Takes less memory for the answer so far. To be called now and then, not for each piece."""
        self._sequence.join_pieces()

    def heartbeat(self) -> list[AnyEvent]:
        """Repeats that the response is in progress. SSE comments do not reset a client's idle timer, this does."""
        return [] if isinstance(self.step, Done) else [self._lifecycle.heartbeat()]

    def _show_notices(self) -> None:
        """The response itself has them: the headers of a stream have been sent when some of them come up."""
        self.response.antiphon_notices = self.notices or UNSET

    def _ask(self) -> None:
        """Has documents read and definitions checked that are not known yet, counts the prompt if that is needed, and asks."""
        if (work := self._question.next_work()) is not None:
            self._preparing = work
            self.step = Check(work)
            return
        if self._runs_tools and (unlisted := self._question.unlisted):
            has_items = not all(self._question.is_attached(server.label) for server in unlisted)
            self.step = ListTools(tuple(unlisted), has_items)
            return
        if self._approvals:
            self._run_approved()
            return
        if self._question.awaits_probe:
            self.step = AwaitProbe(self._question.engine, self._question.model)
            return
        self._show_notices()
        conversion = self._question.conversion
        if self._auto_compaction is not None and self._auto_compaction.threshold is not None:
            self.step = Count(conversion.chat, self._question.engine)
            return
        self._enforcement.begin_answer(conversion.requirements)
        # What is made in the background may be followed at any time.
        is_seen = bool(self.request.stream or self.response.background)
        start = thought_start(conversion.chat, conversion.dialect, is_seen=is_seen)
        may_cite = self.request.text is None or not wants_json(self.request)
        self.answer.begin(start, conversion.finder(), self.sources if may_cite else None, protocol_of(conversion.dialect))
        self._phase = Phase.ASKING
        self.step = Ask(conversion.chat, self._question.engine, self._reason)

    # ---- before the first answer: tools of MCP servers, and approved calls -------------------------------------------

    def listed(self, label: str, listing: Listing) -> list[AnyEvent]:
        """The tools of an MCP server, or why there are none."""
        self._listings[label] = listing
        if not isinstance(step := self.step, ListTools) or any(each.label not in self._listings for each in step.servers):
            return []
        return self._attempt(partial(self._use_lists, step.servers))

    def _use_lists(self, servers: Sequence[McpServer]) -> None:
        """Shows the lists in the order of the tools. One that failed fails the response, unless the operator attached it."""
        question, listings = self._question, self._listings
        for label in (server.label for server in servers if not question.is_attached(server.label)):
            shown = question.allowed(label, listings[label])
            self._sequence.add(ListState(self._environment.new_id("mcpl"), label, shown))
            self._sequence.close_items("completed")
            if (failed := listings[label].error) is not None:
                raise ExternalConnectorError(failure_message(label, failed), param="tools")
        self._output.begin_round()
        question.add_lists({server.label: listings[server.label] for server in servers})
        self._ask()

    def _run_approved(self) -> None:
        """The model wrote these calls in an earlier response: they are run before it is asked again."""
        if not self._has_started:
            # Their events follow the first ones.
            self.step = RunTools(())
            return
        conversion = self._question.conversion
        calls = [self._output.make_call(partial(ApprovedCall, approval, conversion.box)) for approval in self._approvals]
        self._enforcement.limit_approved(calls, conversion.requirements.most_runs)
        for call in calls:
            self._sequence.add(call)
        self._phase = Phase.CLOSING
        self._sequence.close_items("completed")
        self._proceed()

    def _approved_ran(self) -> None:
        self._approvals = []
        self._continue_round()

    # ---- before the first answer: whether the model sees tools -------------------------------------------------------

    def probed(self, knowledge: EngineKnowledge) -> list[AnyEvent]:
        """What is known of the engine, now that the probe has ended, or has been waited for long enough."""
        return self._attempt(partial(self._use_knowledge, knowledge))

    def _use_knowledge(self, knowledge: EngineKnowledge) -> None:
        self._engines = [knowledge if at == self.engine else known for at, known in enumerate(self._engines)]
        self._question.probed(knowledge)
        self._ask()

    @property
    def knowledge(self) -> EngineKnowledge:
        """Of the engine that is asked."""
        return self._question.knowledge

    @property
    def keeps_words(self) -> bool:
        """Its tools are in words although the model may see others, and have to stay so in this conversation."""
        return self.engine in self._question.in_words

    # ---- an engine's answer ------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[AnyEvent]:
        """A piece of the engine's body, however it is split."""
        return self.answer.receive(data)

    def finish(self, error: ApiError | None = None) -> list[AnyEvent]:
        """The engine's body is at its end, or broke off with an error."""
        self.answer.finish(error)
        self._phase = Phase.ANSWERED
        return self._attempt(self._proceed)

    def refused(self, error: ApiError) -> list[AnyEvent]:
        """The engine refused before its first byte, or is not there."""
        return self._attempt(lambda: self._question_after(error))

    def _question_after(self, error: ApiError) -> None:
        question = self._question
        if isinstance(error, EngineUnavailable) and question.has_another_engine:
            self._give_way(error)
        elif isinstance(error, ContextLengthExceeded) and question.may_truncate:
            self._reason = "truncation"
            question.truncate(error)
        elif question.learn_from(error):
            self._reason = "lesson"
        elif _is_engines_own(error) and question.has_another_engine:
            self._give_way(error)
        else:
            raise error
        self._ask()

    def _give_way(self, error: ApiError) -> None:
        """The engine has failed before it began to answer: the next one is asked."""
        self._environment.report("another engine is asked", engine=self._question.knowledge.name, reason=error.code)
        self._reason = "next_engine"
        self._use_next_engine()

    @property
    def may_give_way(self) -> bool:
        """Nothing has come of the answer yet, and there is another engine."""
        return isinstance(self.step, Ask) and self._asks_again and not self._output.round and self._question.has_another_engine

    def _use_next_engine(self) -> None:
        self._question.use_next_engine()
        self.response.model = self._question.model
        for name, value in sampling_to_echo(self.request, self._question.conversion.sampling).items():
            setattr(self.response, name, value)

    def abort(self, error: ApiError) -> list[AnyEvent]:
        """Ends the response with this error, whatever it is doing. Of one that is cancelled, the usage is still estimated."""
        if not isinstance(self.step, Done):
            cancelled = isinstance(error, Cancelled) and not isinstance(self.error, Cancelled)
            if cancelled:
                self._count_cut_answer(error)
            if self._tool_runs is not None:
                self._tool_runs.abandon()
            self._enforcement.stop_rejecting()
            self._sequence.error = error
            self.answer.abandon()
            self.step = self._last_step() if cancelled else DONE
        return self._emitted()

    def _count_cut_answer(self, error: ApiError) -> None:
        if self.compaction is not None and isinstance(self.step, Compact):
            self.compaction.abort(error)
            self._usage.add(self.compaction._usage)
        elif not isinstance(self.step, Estimate) and (self._usage.current is not None or self._output.written):
            self._count_answer()

    def _attempt(self, work: Callable[[], None]) -> list[AnyEvent]:
        """An error on the way fails the response."""
        try:
            work()
        except ApiError as error:
            self._fail(error)
        return self._emitted()

    def _fail(self, error: ApiError) -> None:
        self._output.begin_answer()
        self._output.fail(error)
        self._enforcement.stop_rejecting()
        self._close_items()
        self._proceed()

    # ---- what comes back to it ---------------------------------------------------------------------------------------

    def checked(self, outcome: CheckOutcome) -> list[AnyEvent]:
        """The outcome of the check that a step, or `check`, asked for."""
        if self._preparing is not None:
            return self._attempt(lambda: self._prepared(outcome))
        self.answer.checked(outcome)
        return self._attempt(self._proceed)

    def _prepared(self, outcome: CheckOutcome) -> None:
        """A document was read, or a schema or grammar compiled; or that cannot be done."""
        assert self._preparing is not None
        work, self._preparing = self._preparing, None
        self._question.done(work, outcome)
        self._ask()

    def tool_result(self, call_id: str, result: ToolResult) -> list[AnyEvent]:
        runs = self._tool_runs
        call = runs.add_result(call_id, result, self.sources) if runs is not None else None
        if runs is None or call is None:
            # It came too late: the response was aborted.
            return self._emitted()
        if call.native.kind == HOSTED_SHELL:
            state = result_to_state(self._environment.new_id("sho"), call.call_id, call.arguments_to_run, result)
            self._sequence.insert_after(call, state)
        self._sequence.resume()
        return self._attempt(self._proceed) if runs.are_over else self._emitted()

    def estimated(self, usages: Sequence[Usage]) -> list[AnyEvent]:
        self._usage.estimate(usages)
        self.step = DONE
        return self._emitted()

    # ---- a prompt with too many tokens -------------------------------------------------------------------------------

    def counted(self, tokens: int) -> list[AnyEvent]:
        """How many tokens the prompt has."""
        return self._attempt(lambda: self._compact(tokens))

    def _compact(self, tokens: int) -> None:
        """Has the history compacted first, if there are too many."""
        if self._auto_compaction is None or not self._auto_compaction.is_due(tokens, self._question):
            self._ask()
            return
        self.compaction = self._make_compaction(
            request_to_summary_request(self.request),
            self._engines,
            self._environment,
            history=self._question.history,
            compact=True,
            response_id=self.response.id,
            created_at=self.response.created_at,
            first_engine=self.engine,
            in_words=self._question.in_words,
        )
        self.step = COMPACT

    def _make_compaction(self, *inputs: Any, **options: Any) -> "Exchange":
        return Exchange(*inputs, **options)

    def compacted(self) -> list[AnyEvent]:
        """`compaction` has run. If it failed, the prompt is answered as it is."""
        return self._attempt(self._use_compaction)

    def _use_compaction(self) -> None:
        assert self.compaction is not None
        assert self._auto_compaction is not None
        made = self.compaction.response
        self._usage.add(self.compaction._usage)
        self._auto_compaction.notices += self.compaction.notices
        while self.engine < self.compaction.engine:
            self._use_next_engine()
        if made.status == "completed":
            self._show_compaction(made.output[0])
        else:
            self._auto_compaction.failed(self.compaction.error)
        self._ask()

    def _show_compaction(self, item: OutputItem) -> None:
        assert isinstance(item, Compaction)
        self._sequence.add(FinishedCompaction(item))
        self._sequence.close_items("completed")
        self._output.begin_round()
        self._question.add_compaction(msgspec.to_builtins(item))

    # ---- from step to step -------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Takes every step that needs nobody else, until one does."""
        while self._advance():
            pass

    def _advance(self) -> bool:
        """False: the next step is the caller's."""
        sequence = self._sequence
        self.answer.continue_output()
        if self._phase is Phase.ASKING:
            return False
        if sequence.check is not None:
            self.step = Check(sequence.check)
            return False
        if self._phase is Phase.ANSWERED:
            return self._answered()
        calls = sequence.calls_to_run()
        if calls and (searches := [call for call in calls if not call.needs_shell]):
            for call in searches:
                self._search(call)
            sequence.resume()
            return True
        if calls:
            self._run_tools(calls)
            return False
        if self._approvals and sequence.error is None:
            self._approved_ran()
        else:
            self._closed()
        return False

    def _answered(self) -> bool:
        """An engine's answer is at its end: ask again where that helps, or close it."""
        output, sequence, enforcement = self._output, self._sequence, self._enforcement
        is_whole = self._is_whole()
        if self.answer.template_opens_thought:
            self._question.learn_of_answer({"opens_thought": True})
        if sequence.error is not None and self._may_start_over() and self._question.learn_from(sequence.error):
            self._count_answer()
            output.start_over()
            self._reason = "lesson"
            self._ask()
            return False
        if not is_whole and self.may_give_way and (sequence.error is None or _is_engines_own(sequence.error)):
            error = sequence.error or EngineDisagrees(CUT_SHORT)
            self._count_answer()
            output.start_over()
            self._give_way(error)
            self._ask()
            return False
        if is_whole and self._thought_too_long():
            self._count_answer()
            sequence.close_unchecked()
            self._question.stop_thinking()
            self._reason = "no_thought"
            self._ask()
            return False
        if is_whole and output.ending is COMPLETED and enforcement.requires_something:
            enforcement.reject_missing(output.turn, output.written)
        if sequence.error is None and enforcement.rejection is not None:
            self._ask_again(enforcement.rejection)
            return False
        enforcement.stop_rejecting()
        if not is_whole:
            output.fail(EngineDisagrees(CUT_SHORT))
        self._close_items()
        return True

    def _may_start_over(self) -> bool:
        return self._asks_again and self._output.can_start_over

    def _thought_too_long(self) -> bool:
        """Of a whole answer: the thought took all tokens that it may have, and what is required of the answer is missing. It is
        asked for again as it was, with as many tokens, and without thinking; that is not yet the second attempt at it."""
        output, question = self._output, self._question
        if output.ending.incomplete != OUT_OF_TOKENS or not self._asks_again:
            return False
        return output.only_thought and question.can_stop_thinking and self._enforcement.missing(output.round) is not None

    def _ask_again(self, rejection: Rejection) -> None:
        """Shows the model what is wrong with its answer, and continues with what it writes then."""
        self._count_answer()
        # A thought in place of the call says nothing about what the engine makes sure of.
        if rejection.call is None and self._enforcement.requirements.must_call and self._output.lone_thought is None:
            self._lessons().learn_of_missing_call()
        self._question.reject(rejection)
        self._reason = "repair"
        self._ask()

    def _close_items(self) -> None:
        self._phase = Phase.CLOSING
        cut = self._sequence.error is not None or self._output.ending.incomplete
        self._sequence.close_items("incomplete" if cut else "completed")

    def _is_whole(self) -> bool:
        ended = self._output.reason is not None or (self.answer.ended and not self._output.has_cut_call)
        return ended and self._sequence.error is None

    def _search(self, call: CallState) -> None:
        """A search for tools takes no input or output. What it found is offered from the next answer on."""
        tools = self._question.search(call.arguments)
        call.result = ToolResult(found_to_text(tools, self._question.conversion.box))
        self._sequence.insert_after(call, ToolSearchOutputState(self._environment.new_id("tso"), tools))

    def _closed(self) -> None:
        """Every item of the answer is closed: another round, or the end."""
        output, sequence = self._output, self._sequence
        self._lessons().learn_from_answer(sequence.error)
        if sequence.error is None and output.ending is COMPLETED:
            required = self._enforcement.requires_something
            if required and (missing := self._enforcement.missing(output.turn)) is not None:
                sequence.error = AnswerInvalid(f"The model was asked twice, and {missing}.")
            elif self._question.conversion.compacts and not sequence.opened:
                sequence.error = EngineError("The engine gave no summary of the conversation.")
            elif self._enforcement.requirements.hosted and self._goes_on():
                self._next_round()
                return
        self._count_answer()
        self.step = self._last_step() if sequence.error is None else DONE

    def _lessons(self) -> AnswerLessons:
        """Of the answer that is at its end."""
        return AnswerLessons(
            self._question, self._enforcement, self._output, self.answer, self._usage, self._environment.report
        )

    def _last_step(self) -> Step:
        uncounted = self._usage.uncounted
        return Estimate(tuple(uncounted)) if uncounted else DONE

    def _count_answer(self) -> None:
        """Without a report, one that failed counts for nothing."""
        output = self._output
        if self._usage.current is not None:
            # Only what the engine says about a thought is completed by what was written.
            self._usage.end_reported(output.lengths if output.has_thought else NOTHING_WRITTEN)
        elif self._sequence.error is None:
            answer = Uncounted(self.engine, self._question.conversion.chat, output.written, output.lengths)
            self._usage.end_unreported(answer)

    # ---- tools that the gateway runs ---------------------------------------------------------------------------------

    def _run_tools(self, calls: Sequence[CallState]) -> None:
        question, box = self._question, self._question.conversion.box
        window = question.knowledge.window_of(question.model)
        used = 0
        if window is not None:
            used = tokens_used(question.conversion.chat, self._output.written, self._usage.current)
        room = room_for_results(window, used, self.request.max_output_tokens, len(calls))
        if self._tool_runs is None:
            self._tool_runs = ToolRuns()
        self._tool_runs.begin(calls, room)
        self.step = RunTools(tuple(_to_tool_call(call, box) for call in calls))

    def _goes_on(self) -> bool:
        """Every call of this round has a result, so the model continues. A call that the client runs ends the response."""
        calls = [state for state in self._output.turn if isinstance(state, CallState)]
        return bool(calls) and all(call.result is not None for call in calls)

    def _next_round(self) -> None:
        self._count_answer()
        self._continue_round()

    def _continue_round(self) -> None:
        output, enforcement = self._output, self._enforcement
        called = any(isinstance(state, CallState) for state in output.round)
        in_loop = enforcement.repeats_itself
        # A small model would go on with what it reads of a call that was not run.
        states = output.turn
        if in_loop and self._question.is_helped:
            states = [state for state in states if not enforcement.is_answered(state)]
        cites = self.sources.next_number > 1 and not wants_json(self.request)
        self._question.add_round(states_to_turn(states), called=called, in_loop=in_loop, cites=cites)
        self._output.begin_round()
        self._enforcement.begin_round()
        self._reason = "tools"
        self._ask()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def end(self, error: ApiError | None = None) -> list[AnyEvent]:
        """The terminal event, and the response as it is to be stored: the caller stores it, and only then sends the event.

        With an error, again: it could not be stored, and must not be reported as if it were.
        """
        output, sequence = self._output, self._sequence
        sequence.error = error or sequence.error
        self.response.output = output.items
        self.response.usage = self._usage.total()
        if self._enforcement.requirements.hosted:
            self.response.tool_usage = calls_to_tool_usage(output.calls)
        self._show_notices()
        now, incomplete = int(self._environment.now()), output.ending.incomplete
        terminal = self._lifecycle.end(now, incomplete=incomplete, error=sequence.error)
        return [*self._emitted(), terminal]

    @property
    def stored_response(self) -> Response:
        """The response after `end()` as it is stored: its calls have what the model read of them."""
        if self._tool_runs is None:
            return self.response
        return structs.replace(self.response, output=self._tool_runs.to_stored(self.response.output))

    def _emitted(self) -> list[AnyEvent]:
        events, self._sequence.events = self._sequence.events, []
        return events


def _to_tool_call(call: CallState, box: Toolbox) -> ToolCall:
    native, idempotent = call.native, call.native not in box.not_idempotent
    return ToolCall(call.call_id, native.kind, native.name, native.namespace, call.arguments_to_run, idempotent)
