"""The items of an answer are closed, which may take a check or a tool. Then the model continues, or the response ends."""

from collections.abc import Sequence
from functools import partial

from antiphon.core.exchange.announcements import announces_call
from antiphon.core.exchange.answer_lessons import AnswerLessons
from antiphon.core.exchange.response_object import Next, OpenResponse, Phase
from antiphon.core.exchange.steps import DONE, AskReason, Check, Estimate, RunTools, Step, ToolCall
from antiphon.core.exchange.tool_runs import ToolRuns, room_for_results, tokens_used
from antiphon.core.hosted.mcp.approvals import ApprovedCall
from antiphon.core.hosted.rows import BY_KIND
from antiphon.core.hosted.tool_search import ToolSearchOutputState
from antiphon.core.items.calls import CallState
from antiphon.core.items.usage import UsageCount
from antiphon.core.prompt.turns import states_to_turn
from antiphon.core.stream.chat_chunks import COMPLETED
from antiphon.core.toolbox.requirements import wants_json
from antiphon.core.toolbox.search import found_to_text
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import AnswerInvalid, EngineError


class Closing(Phase):
    def proceed(self) -> Next:
        sequence = self.opened.answers.sequence
        while True:
            if (work := sequence.check) is not None:
                return Check(work)
            calls = sequence.calls_to_run()
            if not calls:
                return self._closed()
            searches = [call for call in calls if not call.needs_shell]
            if not searches:
                return _run_tools(self.opened, calls)
            for call in searches:
                _search(self.opened, call)
            sequence.resume()

    def _closed(self) -> Next:
        """Every item of the answer is closed: another round, or the end."""
        opened, answers = self.opened, self.opened.answers
        output, sequence, enforcement = answers.output, answers.sequence, answers.enforcement
        AnswerLessons(opened.question, answers, opened.environment.report).learn_from_answer(sequence.error)
        goes_on = False
        if sequence.error is None and output.ending is COMPLETED:
            required = enforcement.requires_something
            if required and (missing := enforcement.missing(output.turn)) is not None:
                sequence.fail(AnswerInvalid(f"The model was asked twice, and {missing}."))
            elif opened.question.conversion.compacts and not sequence.opened:
                sequence.fail(EngineError("The engine gave no summary of the conversation."))
            else:
                goes_on = enforcement.requirements.hosted and answers.calls_have_results
        opened.count_answer()
        if goes_on:
            return _next_round(opened)
        if sequence.error is None and _is_announcement(opened):
            return _ask_for_announced(opened)
        if sequence.error is not None and opened.can_end_without_announced:
            output.start_over()
        # Mostly every answer was counted.
        return last_step(answers.usage) if sequence.error is None and answers.usage.uncounted else DONE


class ClosingApproved(Closing):
    """The calls that the client has approved are run. The model wrote them in an earlier response, and is asked now."""

    def _closed(self) -> Next:
        if self.opened.answers.sequence.error is not None:
            return super()._closed()
        self.opened.approvals = []
        return _next_round(self.opened)


def run_approved(opened: OpenResponse) -> Phase:
    conversion, answers = opened.question.conversion, opened.answers
    calls = [answers.output.make_call(partial(ApprovedCall, approval, conversion.box)) for approval in opened.approvals]
    answers.enforcement.limit_approved(calls, conversion.requirements.most_runs)
    for call in calls:
        answers.sequence.add(call)
    answers.sequence.close_items("completed")
    return ClosingApproved(opened)


def last_step(usage: UsageCount) -> Step:
    return Estimate(tuple(usage.uncounted)) if usage.uncounted else DONE


# ---- a call that was announced, and not made -------------------------------------------------------------------------


def _is_announcement(opened: OpenResponse) -> bool:
    answers, question = opened.answers, opened.question
    if not (answers.may_ask_again and question.may_ask_for_announced):
        return False
    words = answers.output.last_words
    return words is not None and announces_call(words)


def _ask_for_announced(opened: OpenResponse) -> AskReason:
    """What the client has seen stays. What the model writes now follows it."""
    output = opened.answers.output
    opened.question.ask_for_announced(states_to_turn(output.turn))
    output.begin_round()
    opened.answers.enforcement.begin_round()
    return "announced"


# ---- tools that the gateway runs -------------------------------------------------------------------------------------


def _search(opened: OpenResponse, call: CallState) -> None:
    """A search for tools takes no input or output. What it found is offered from the next answer on."""
    tools = opened.question.search(call.arguments)
    call.result = ToolResult(found_to_text(tools, opened.question.conversion.box))
    opened.answers.sequence.insert_after(
        call, ToolSearchOutputState(opened.environment.new_id(ToolSearchOutputState.prefix), tools)
    )


def _run_tools(opened: OpenResponse, calls: Sequence[CallState]) -> RunTools:
    conversion, answers = opened.question.conversion, opened.answers
    window = opened.question.engine.knowledge.window_of(conversion.chat.model)
    used = 0
    if window is not None:
        used = tokens_used(conversion.chat, answers.output.written, answers.usage.current)
    room = room_for_results(window, used, opened.request.max_output_tokens, len(calls))
    if opened.tool_runs is None:
        opened.tool_runs = ToolRuns()
    opened.tool_runs.begin(calls, room)
    return RunTools(tuple(_to_tool_call(call, conversion.box) for call in calls))


def _to_tool_call(call: CallState, box: Toolbox) -> ToolCall:
    identity, idempotent = call.identity, call.identity not in box.not_idempotent
    return ToolCall(call.call_id, identity.kind, identity.name, identity.namespace, call.arguments_to_run, idempotent)


def add_result(opened: OpenResponse, call_id: str, result: ToolResult) -> bool:
    """True: every call that runs has its result now. A result that comes after the response was aborted changes nothing."""
    runs, sequence = opened.tool_runs, opened.answers.sequence
    call = runs.add_result(call_id, result, opened.sources) if runs is not None else None
    if runs is None or call is None:
        return False
    tool = BY_KIND.get(call.identity.kind)
    if tool is not None and tool.follow is not None:
        sequence.insert_after(call, tool.follow(opened.environment.new_id, call.call_id, call.arguments_to_run, result))
    sequence.resume()
    return runs.are_over


def _next_round(opened: OpenResponse) -> AskReason:
    """The calls of this round have results: the model continues."""
    output, enforcement, question = opened.answers.output, opened.answers.enforcement, opened.question
    called = any(isinstance(state, CallState) for state in output.round)
    in_loop = enforcement.runs.is_loop
    # A small model would go on with what it reads of a call that was not run.
    states = output.turn
    if in_loop and question.is_helped:
        states = [state for state in states if not enforcement.is_answered(state)]
    cites = opened.sources.next_number > 1 and not wants_json(opened.request)
    question.add_round(states_to_turn(states), called=called, in_loop=in_loop, cites=cites)
    output.begin_round()
    enforcement.begin_round()
    return "tools"
