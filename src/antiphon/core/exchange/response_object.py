"""The response object at the start of a response, all that belongs to it while it is being made, and the notices that it
shows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct, structs

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.lifecycle import NO_CONTAINERS, NOTHING_INCLUDED, EventOptions
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.question import Question
from antiphon.core.exchange.steps import AskReason, Step
from antiphon.core.exchange.tool_runs import ToolRuns, calls_to_container
from antiphon.core.hosted.mcp.approvals import Approval
from antiphon.core.hosted.search_results import files_shown
from antiphon.core.items.answers import Answers
from antiphon.core.items.calls import LeftOutCalls
from antiphon.core.knowledge.help import ENGINE_DEFAULT, Sampling, is_capped, with_sampling
from antiphon.core.protocols.responses.fields import SEALED_REASONING, conversation_of, wants_summary
from antiphon.core.stream.chat_chunks import OUT_OF_TOKENS
from antiphon.core.stream.citations import Sources
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.choice import choice_to_response
from antiphon.errors import counted
from antiphon.sealing import KeptItems
from antiphon.wire.responses import (
    Beyond,
    CreateResponse,
    ReasoningOptions,
    Response,
    TextFormat,
    TextOptions,
    no_reasoning,
)

# ---- What has become of the answers: what was left out of them, and what their engine has not done -------------------

NO_LOGPROBS = "logprobs were left out: this engine returns none"
ESTIMATED = "usage is estimated: the engine reports none"
TRUNCATED = "truncation auto: the oldest turns of the input were left out"
DROPPED_CALLS = "tool calls of the model were left out: {count} beyond {limit}"
CAPPED = "the answer was cut off: this model writes {most} tokens at most unless max_output_tokens is set"
LOOPING = "a call of {name} was left out: the model is in a loop, and was asked not to make it"
TWICE = "a call of {name} was left out: the model made it twice in one answer"
AFTER_REJECTED = "calls of the model were left out: {count} after a call that was wrong, for which it was asked again"
UNCHECKED = "a call of {name} was not checked: its check took too long, or failed"
PARROTED = "the model repeated what it was told about its answer or its calls: this was left out"
BEFORE_JSON = "what precedes the JSON in the model's answer was left out: the answer was to be JSON from its beginning on"
NOT_RUN = "a call of {name} was not run: {why}"
CALLS_IN_THOUGHTS = "the model made a tool call inside its reasoning, and nothing else: it was taken for a call"


def answer_notices(request: CreateResponse, question: Question, answers: Answers) -> list[str]:
    notices: list[str] = []
    reader = answers.reader
    if question.conversation.dropped:
        notices.append(TRUNCATED)
    if (left_out := answers.enforcement.left_out).any:
        notices += _calls_left_out(left_out)
    if reader.repeats_prompt:
        notices.append(PARROTED)
    # The prefix is what our own constraint has made the model write.
    if reader.left_out and reader.left_out not in question.dialect.answer_prefix:
        notices.append(BEFORE_JSON)
    if reader.calls_in_thoughts:
        notices.append(CALLS_IN_THOUGHTS)
    conversion = question.conversion
    if answers.output.ending.incomplete == OUT_OF_TOKENS and is_capped(request, conversion.sampling):
        notices.append(CAPPED.format(most=conversion.sampling.most_tokens))
    # As it is known by now: an answer may have shown it.
    dialect = question.engine.knowledge.dialect_for(conversion.chat.model)
    if conversion.logprobs and not dialect.returns_logprobs:
        notices.append(NO_LOGPROBS)
    if not dialect.reports_usage:
        notices.append(ESTIMATED)
    return notices


def _calls_left_out(calls: LeftOutCalls) -> Iterator[str]:
    if dropped := calls.dropped:
        yield DROPPED_CALLS.format(count=dropped, limit=calls.limit)
    for name, why in calls.not_run:
        yield NOT_RUN.format(name=name, why=why)
    for name in calls.looping:
        yield LOOPING.format(name=name)
    for name in calls.twice:
        yield TWICE.format(name=name)
    if after := calls.after_rejected:
        yield AFTER_REJECTED.format(count=after)
    for name in calls.unchecked:
        yield UNCHECKED.format(name=name)


# An input of many items may give as many notices, and a notice may quote what the client sent.
MOST = 100
LONGEST = 1000
MORE = "and {more}"


def shortened(given: Iterable[str]) -> list[str]:
    """Each once. Those that are too many are counted, and what is too long is cut off."""
    notices = list(dict.fromkeys(given))
    shown = [each if len(each) <= LONGEST else f"{each[:LONGEST]}…" for each in notices[:MOST]]
    more = len(notices) - MOST
    return [*shown, MORE.format(more=counted(more, "more notice"))] if more > 0 else shown


# ---- What the events of a response look like, by its request ---------------------------------------------------------


def request_to_event_options(
    request: CreateResponse, question: Question, environment: Environment, containers: Mapping[str, str] = NO_CONTAINERS
) -> EventOptions:
    """`containers`: that its tools run code in, by their types."""
    options, conversion, beyond = request.stream_options, question.conversion, request.beyond or NOTHING_BEYOND
    padded = options is not None and options.include_obfuscation
    return EventOptions(
        summary=environment.always_summary or (request.reasoning is not None and wants_summary(request) is not None),
        logprobs=conversion.logprobs,
        top_logprobs=request.top_logprobs or 0,
        seal=environment.sealer.seal,
        # What is not stored is lost unless the client sends it back. Many clients do not know to ask for that.
        seals_reasoning=request.store is False or SEALED_REASONING in (request.include or ()),
        compacts=conversion.compacts,
        # Not before the end: how large its items are is known when the files in them have been read.
        kept=(lambda: question.conversation.window.to_kept(question.input_work.size_of)) if conversion.compacts else KeptItems,
        padding=environment.padding() if padded else None,
        reasoning_events=environment.reasoning_events,
        included=frozenset(request.include) if request.include else NOTHING_INCLUDED,
        containers=containers,
        shows_files=beyond.shows_files,
        shows_summary=beyond.shows_summary,
    )


NOTHING_BEYOND = Beyond()
# Tokens that an engine may leave free at the end of a window.
AROUND_WINDOW = 16
# What it says of `text` where the request says nothing.
PLAIN_TEXT: dict[str, Any] = {"format": {"type": "text"}}


def request_to_response(
    request: CreateResponse,
    tools: Sequence[dict[str, Any]],
    *,
    response_id: str,
    model: str,
    now: int,
    sampling: Sampling = ENGINE_DEFAULT,
) -> Response:
    """The response at its start: fields of the request are echoed, others have the model's sampling or the API's default."""
    if sampling is ENGINE_DEFAULT and _echoed(request) == NOTHING_TO_ECHO:
        # What most requests are: the response is copied, but for what is its own, in a third of the instructions.
        return structs.replace(
            PLAIN_RESPONSE,
            id=response_id,
            created_at=now,
            model=model,
            store=request.store is not False,
            output=[],
            tools=list(tools),
            metadata={},
            reasoning=no_reasoning(),
        )
    return _echoing_response(request, tools, response_id, model, now, sampling)


def _echoing_response(
    request: CreateResponse, tools: Sequence[dict[str, Any]], response_id: str, model: str, now: int, sampling: Sampling
) -> Response:
    used = request if sampling is ENGINE_DEFAULT else with_sampling(request, sampling)
    conversation = conversation_of(request) if request.conversation is not None else None
    return Response(
        id=response_id,
        created_at=now,
        status="queued" if request.background else "in_progress",
        background=bool(request.background),
        model=model,
        instructions=request.instructions,
        max_tool_calls=request.max_tool_calls,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        frequency_penalty=0.0 if request.frequency_penalty is None else request.frequency_penalty,
        presence_penalty=0.0 if request.presence_penalty is None else request.presence_penalty,
        top_logprobs=request.top_logprobs or 0,
        truncation="disabled" if request.truncation is None else request.truncation,
        previous_response_id=request.previous_response_id,
        conversation=UNSET if conversation is None else {"id": conversation},
        store=request.store is not False,
        service_tier="default" if request.service_tier in (None, "auto") else request.service_tier,
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_retention=UNSET if (kept := request.prompt_cache_retention) is None else kept.replace("-", "_"),
        user=request.user,
        safety_identifier=request.safety_identifier,
        metadata={} if request.metadata is None else request.metadata,
        reasoning=_reasoning_to_echo(request) if request.reasoning is not None else {"effort": None, "summary": None},
        text=PLAIN_TEXT if request.text is None else _text_to_echo(request.text),
        tools=list(tools),
        tool_choice="auto" if request.tool_choice is None else choice_to_response(request.tool_choice),
        # As in `sampling_to_echo`.
        max_output_tokens=used.max_output_tokens,
        temperature=1.0 if used.temperature is None else used.temperature,
        top_p=1.0 if used.top_p is None else used.top_p,
    )


# The fields of a request that the response repeats, beside `store`.
_echoed = attrgetter(
    "background",
    "conversation",
    "frequency_penalty",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "temperature",
    "text",
    "tool_choice",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
NOTHING_TO_ECHO = _echoed(CreateResponse())
# What is answered to a request that has none of them.
PLAIN_RESPONSE = _echoing_response(CreateResponse(), (), "", "", 0, ENGINE_DEFAULT)


def sampling_to_echo(request: CreateResponse, sampling: Sampling) -> dict[str, Any]:
    """The fields of the response that depend on which model answers: what is really used."""
    used = request if sampling is ENGINE_DEFAULT else with_sampling(request, sampling)
    return {
        "max_output_tokens": used.max_output_tokens,
        "temperature": 1.0 if used.temperature is None else used.temperature,
        "top_p": 1.0 if used.top_p is None else used.top_p,
    }


def _reasoning_to_echo(request: CreateResponse) -> dict[str, str | None]:
    asked = request.reasoning or ReasoningOptions()
    return {"effort": asked.effort, "summary": wants_summary(request)}


def _text_to_echo(text: TextOptions) -> dict[str, Any]:
    format = text.format or TextFormat()
    echo: dict[str, Any] = {"format": {"type": format.type}}
    if format.type == "json_schema":
        described = {} if format.description is None else {"description": format.description}
        echo["format"] |= {"name": format.name, **described, "schema": format.schema, "strict": bool(format.strict)}
    if text.verbosity is not None:
        echo["verbosity"] = text.verbosity
    return echo


# ---- A response while it is being made -------------------------------------------------------------------------------


class OpenResponse(Struct):
    """What the phases of an exchange share."""

    request: CreateResponse
    response: Response
    environment: Environment
    question: Question
    answers: Answers
    # What the model can cite: the results of tools that the gateway ran.
    sources: Sources
    # What was changed before the exchange began.
    earlier_notices: Sequence[str]
    # Servers are asked for their tools, and approved calls are run, before the engine is asked.
    runs_tools: bool
    # The approved calls that are still to be run.
    approvals: Sequence[Approval]
    has_started: bool = False
    # A prompt of more tokens is compacted. None: it need not be counted.
    compact_threshold: int | None = None
    compaction_notices: Sequence[str] = ()
    # The calls of tools that the gateway runs, if there are any.
    tool_runs: ToolRuns | None = None

    @property
    def notices(self) -> list[str]:
        """What was changed or left out on the way."""
        notices = [*self.earlier_notices, *self.question.notices, *self.compaction_notices]
        notices = shortened(notices) if notices else notices
        if self.tool_runs is not None:
            notices += self.tool_runs.notices
        notices += answer_notices(self.request, self.question, self.answers)
        return list(dict.fromkeys(notices)) if notices else notices

    def show_notices(self) -> None:
        """The response itself has them: the headers of a stream have been sent when some of them come up."""
        self.response.antiphon_notices = self.notices or UNSET

    # ---- what other protocols show -----------------------------------------------------------------------------------

    def show_beyond(self) -> None:
        response, output = self.response, self.answers.output
        response.stop_sequence = output.stop_sequence or UNSET
        response.engine_extras = output.extras or UNSET
        response.filled_window = self._has_filled_window or UNSET
        if self.tool_runs is not None:
            response.container = calls_to_container(self.tool_runs.calls) or UNSET

    @property
    def _has_filled_window(self) -> bool:
        """The answer was cut off where the window ends, before it was as long as the request allows."""
        window = self.question.engine.knowledge.window_of(self.question.model)
        most, last = self.request.max_output_tokens, self.answers.usage.last_reported
        if self.answers.output.ending.incomplete != OUT_OF_TOKENS or window is None or last is None:
            return False
        is_shorter = most is None or last.output_tokens < most
        return is_shorter and last.input_tokens + last.output_tokens >= window - AROUND_WINDOW

    @property
    def can_pause(self) -> bool:
        """It may end here, and its client have the model go on: tools were run, and the client itself has nothing to run."""
        beyond, runs = self.request.beyond, self.tool_runs
        if beyond is None or not beyond.may_pause or runs is None or not runs.calls or self.answers.sequence.error is not None:
            return False
        return all(call.runs_here for call in self.answers.output.calls)

    @property
    def can_end_without_announced(self) -> bool:
        """The client has an answer, and nothing of the one that was asked for after it: that one may fail unseen."""
        return self.question.has_just_asked_for_announced and self.answers.output.is_round_unseen

    def use_next_engine(self) -> None:
        self.question.use_next_engine()
        self.response.model = self.question.model
        for name, value in sampling_to_echo(self.request, self.question.conversion.sampling).items():
            setattr(self.response, name, value)

    def count_answer(self) -> None:
        self.answers.count(self.question.engine.number, self.question.conversion.chat)


def open_response(
    request: CreateResponse,
    question: Question,
    environment: Environment,
    *,
    response_id: str | None,
    created_at: int | None,
    may_ask_again: bool,
    notices: Sequence[str],
    runs_tools: bool,
    containers: Mapping[str, str],
    files: Mapping[str, Sequence[CodeFile]],
) -> OpenResponse:
    """With nothing in it yet. What each argument means is in `Exchange`."""
    conversion = question.conversion
    response = request_to_response(
        request,
        conversion.box.in_response,
        response_id=response_id or environment.new_id("resp"),
        model=conversion.chat.model,
        now=int(environment.now()) if created_at is None else created_at,
        sampling=conversion.sampling,
    )
    style = request_to_event_options(request, question, environment, containers)
    answers = Answers(environment.new_id, style, environment.forms, may_ask_again)
    conversation = question.conversation
    sources = Sources(() if conversation.has_only_messages else files_shown(conversation.items))
    if files:
        for container, known in files.items():
            sources.add_files(container, known)
    approvals = question.approvals if runs_tools and not conversion.compacts else ()
    return OpenResponse(request, response, environment, question, answers, sources, notices, runs_tools, approvals)


# ---- the phases of its exchange ----------------------------------------------------------------------------------------


class Phase(Struct):
    """What an exchange is doing. A phase decides what comes next."""

    opened: OpenResponse

    def proceed(self) -> "Next":
        """The step that the caller has to take now; or another phase, or a reason to ask an engine."""
        raise NotImplementedError

    def checked(self, outcome: CheckOutcome) -> "Next":
        """The outcome of the check that the last step asked for."""
        self.opened.answers.reader.checked(outcome)
        return self.proceed()


Next = Step | Phase | AskReason
