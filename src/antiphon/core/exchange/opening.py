"""What comes before an engine is asked: documents are read, servers listed, approved calls run, a prompt too long compacted."""

from collections.abc import Sequence

import msgspec
from msgspec import structs

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.exchange.answering import Answering
from antiphon.core.exchange.closing import run_approved
from antiphon.core.exchange.input_work import Work
from antiphon.core.exchange.response_object import Next, OpenResponse, Phase
from antiphon.core.exchange.steps import AskReason, AwaitProbe, Check, Count, ListTools, RunTools
from antiphon.core.hosted.mcp.tools import ListState, failure_message
from antiphon.core.items.messages import FinishedCompaction
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.prompt.truncation import CHARACTERS_PER_TOKEN
from antiphon.core.toolbox.mcp_servers import Listing, McpServer
from antiphon.errors import ApiError, ExternalConnectorError
from antiphon.sealing import NO_SEALER
from antiphon.wire.responses import Compaction, ContextManagement, CreateResponse, OutputItem


class Opening(Phase):
    """It is entered each time that an engine is to be asked. Mostly nothing is to be done then."""

    # Why the engine is asked.
    reason: AskReason
    # The work that is being done.
    work: Work | None = None
    # The MCP servers that are being listed, and by label the lists that have come, until all are there.
    servers: tuple[McpServer, ...] = ()
    listings: dict[str, Listing] = {}

    def proceed(self) -> Next:
        opened, question = self.opened, self.opened.question
        if question.input_work.is_pending and (work := question.next_work()) is not None:
            self.work = work
            return Check(work)
        has_servers = opened.runs_tools and bool(question.conversion.box.servers.unlisted)
        if has_servers and (unlisted := question.unlisted):
            self.servers = tuple(unlisted)
            return ListTools(self.servers, not all(question.is_attached(server.label) for server in unlisted))
        if opened.approvals:
            # Their events follow the first ones.
            return run_approved(opened) if opened.has_started else RunTools(())
        if question.awaits_probe:
            return AwaitProbe(question.engine.number, question.model)
        opened.show_notices()
        if opened.compact_threshold is not None:
            return Count(question.conversion.chat, question.engine.number)
        return Answering(opened, self.reason)

    def checked(self, outcome: CheckOutcome) -> Next:
        """A document was read, or a schema or grammar compiled; or that cannot be done."""
        assert self.work is not None
        work, self.work = self.work, None
        self.opened.question.input_work.done(work, outcome)
        return self.proceed()

    def probed(self, knowledge: EngineKnowledge) -> Next:
        self.opened.question.probed(knowledge)
        return self.proceed()

    # ---- MCP servers -------------------------------------------------------------------------------------------------

    def add_list(self, label: str, listing: Listing) -> bool:
        """True: all lists are there."""
        self.listings[label] = listing
        return all(server.label in self.listings for server in self.servers)

    def use_lists(self) -> Next:
        """Shows the lists in the order of the tools. One that failed fails the response, unless the operator attached it."""
        opened, question, listings = self.opened, self.opened.question, self.listings
        for label in (server.label for server in self.servers if not question.is_attached(server.label)):
            allowed = question.allowed(label, listings[label])
            opened.answers.sequence.add(ListState(opened.environment.new_id(ListState.prefix), label, allowed))
            opened.answers.sequence.close_items("completed")
            if (failed := listings[label].error) is not None:
                raise ExternalConnectorError(failure_message(label, failed), param="tools")
        opened.answers.output.begin_round()
        question.add_lists({server.label: listings[server.label] for server in self.servers})
        return self.proceed()


# ---- `context_management`: a prompt with too many tokens is compacted before it is answered, at most once in a response ----

# Where no threshold is given: the share of the model's context window that the prompt may fill.
SHARE_OF_WINDOW = 0.8
# A compaction must replace at least this share of the threshold. Otherwise every turn would be compacted, for little.
LEAST_SHARE = 0.1

UNKNOWN_WINDOW = "context_management was ignored: it has no compact_threshold, and the context window of the model is not known"
CANNOT_SEAL = "context_management was ignored: there is no sealer for compactions"
TOO_LITTLE = "context_management: the prompt is over the threshold, but there is too little before the last turn to compact"
FAILED = "context_management: the history was not compacted: {reason}"
CUT_OFF = "The summary was cut off."


def set_compact_threshold(opened: OpenResponse, entries: Sequence[ContextManagement]) -> None:
    """A summary is not compacted itself."""
    question = opened.question
    if question.conversion.compacts:
        return
    if opened.environment.sealer is NO_SEALER:
        opened.compaction_notices = (CANNOT_SEAL,)
        return
    opened.compact_threshold = _threshold(entries, question.engine.knowledge.window_of(question.model))
    if opened.compact_threshold is None:
        opened.compaction_notices = (UNKNOWN_WINDOW,)


def _threshold(entries: Sequence[ContextManagement], window: int | None) -> int | None:
    given = [entry.compact_threshold for entry in entries if entry.compact_threshold is not None]
    if given:
        return min(given)
    return None if window is None else int(window * SHARE_OF_WINDOW)


def must_compact(opened: OpenResponse, tokens: int) -> bool:
    """Of a prompt of this many tokens. It is counted once."""
    threshold, opened.compact_threshold = opened.compact_threshold, None
    if threshold is None or tokens <= threshold:
        return False
    question = opened.question
    if question.conversation.window.replaceable(question.input_work.size_of) < threshold * LEAST_SHARE * CHARACTERS_PER_TOKEN:
        opened.compaction_notices = (*opened.compaction_notices, TOO_LITTLE)
        return False
    return True


def add_compaction(opened: OpenResponse, item: OutputItem) -> None:
    """Shows the compaction of the history, which the prompt begins with from now on."""
    assert isinstance(item, Compaction)
    answers = opened.answers
    answers.sequence.add(FinishedCompaction(item))
    answers.sequence.close_items("completed")
    answers.output.begin_round()
    opened.question.add_compaction(msgspec.to_builtins(item))


def compaction_failed(opened: OpenResponse, error: ApiError | None) -> None:
    """The prompt is answered as it is. Without an error, the summary was cut off."""
    reason = CUT_OFF if error is None else error.message
    opened.compaction_notices = (*opened.compaction_notices, FAILED.format(reason=reason))


def request_to_summary_request(request: CreateResponse) -> CreateResponse:
    """The limits of the answer are not those of the summary."""
    return structs.replace(
        request,
        context_management=None,
        max_output_tokens=None,
        stop=None,
        include=None,
        top_logprobs=None,
        stream=False,
        background=None,
        beyond=None if request.beyond is None else structs.replace(request.beyond, stop_sequences=None),
    )
