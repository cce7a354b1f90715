"""The question of an exchange: which engine is asked, and the request in its dialect, as it is by now."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.checks.constraints import strict_facts
from antiphon.core.checks.work import (
    MALFORMED,
    CheckOutcome,
    DefinitionWork,
    DocumentWork,
    Flaw,
    Grammar,
    StoredFileWork,
)
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.lessons import lesson_of
from antiphon.core.exchange.repairs import rejection_to_conversion
from antiphon.core.hosted.mcp.approvals import check_servers, items_to_approvals
from antiphon.core.hosted.mcp.tool_lists import ToolLists
from antiphon.core.items.enforcement import Rejection
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.knowledge import UNTIL_PROBED, EngineKnowledge
from antiphon.core.prompt.compaction import TRIGGER, items_to_window
from antiphon.core.prompt.convert import Conversion, request_to_chat
from antiphon.core.prompt.documents import (
    Documents,
    ReadWork,
    files_of,
    outcome_size,
    work_digest,
)
from antiphon.core.prompt.item_types import CONTINUE_ANSWERS
from antiphon.core.prompt.truncation import share_to_drop, size_of, truncated
from antiphon.core.prompt.turns import AssistantTurn, UserTurn
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.references import resolved
from antiphon.core.toolbox.choice import relaxed_choice
from antiphon.core.toolbox.mcp_servers import Listing, McpServer
from antiphon.core.toolbox.search import search
from antiphon.core.toolbox.tools import ATTACHED, Tool
from antiphon.core.toolbox.words import AND_CITE, ANSWER_NOW
from antiphon.errors import ApiError, ContextLengthExceeded
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse

# Each teaches something new. An engine that finds something to refuse in every form is not asked without end.
MOST_LESSONS = 12
ROUNDS_USED_UP = "the model called tools {count} times in a row (tool_rounds): it was asked to answer without them"
STOPPED_LOOP = "the model made the same call again and again: it was asked to answer without tools"
THOUGHT_TOO_LONG = "the model used up max_output_tokens while it was thinking: it was asked again without thinking"

# At first, and mostly to the end.
NO_FACTS: Mapping[str, Any] = {}
NOTHING_DEFINED: Mapping[bytes | Grammar, Flaw | None] = {}
NOTHING_READ: Mapping[bytes, CheckOutcome] = {}

TOO_SLOW = Flaw("it takes too long to compile")
TOO_SLOW_TO_READ = "it takes too long, or too much memory"


def _own_items(request: CreateResponse, history: Sequence[Item], *, compact: bool) -> list[Item]:
    items = request_to_items(request)
    # What is only a text stands for nothing else.
    if not isinstance(request.input, str):
        items = resolved(history, items)
    triggered = bool(items) and items[-1].get("type") == TRIGGER
    return [*items, {"type": TRIGGER}] if compact and not triggered else items


def _is_call(item: Item) -> bool:
    """Or the result of one."""
    return str(item.get("type")).endswith(("_call", "_call_output"))


class Question:
    """Every change converts the request anew: the conversion depends on the request and on what is known, and nothing else."""

    def __init__(
        self,
        request: CreateResponse,
        engines: Sequence[EngineKnowledge],
        environment: Environment,
        *,
        history: Sequence[Item],
        compact: bool,
        first_engine: int = 0,
        attached: Sequence[Tool] = (),
        in_words: Collection[int] = (),
    ) -> None:
        self.engine = first_engine
        # What is known of it.
        self.knowledge = engines[first_engine]
        # The share of a history too long that was left out.
        self.dropped = 0.0
        self._request = request
        self._engines = engines
        self._environment = environment
        # Every item of the conversation, and those of them that the prompt is made of.
        self.items = [*history, *_own_items(request, history, compact=compact)]
        self._earlier = len(history)
        self.window = items_to_window(self.items, environment.sealer.open, earlier=self._earlier, sent=self._earlier)
        # The numbers of the engines that get tools in words, because the conversation began so.
        self.in_words = frozenset(in_words)
        # What failures have taught, for this request alone.
        self._facts = NO_FACTS
        self._lessons = 0
        # Those of them that count for other requests, once a few in a row have learned the same.
        self._repeating = NO_FACTS
        self._rounds: Sequence[AssistantTurn | UserTurn] = ()
        # Why the model is offered no more tools.
        self._tools_ended = ""
        # Tools that the operator adds to the request; what is known of the tools of MCP servers; and the calls that the client
        # has approved. A summary needs none of them.
        self._attached = attached
        self._lists = ToolLists(self.items)
        self.approvals = [] if compact else items_to_approvals(self.items, self._earlier, CONTINUE_ANSWERS)
        # The tools that searches of this response have found.
        self._found: Sequence[Tool] = ()
        self._rejection: Rejection | None = None
        # The model answers without thinking, under constraints that leave no room for a thought.
        self._strict = False
        self._thought_too_long = False
        # The schemas and grammars that were compiled for this request, and why one was not.
        self._defined = NOTHING_DEFINED
        # What came of reading its documents, by their digests.
        self._documents = NOTHING_READ
        # The work that the conversion has to wait for, and whether what came of it changes the conversion.
        self._work: Iterator[ReadWork | DefinitionWork] = iter(())
        self._outdated = False
        self.convert()
        if self.approvals:
            check_servers(self.approvals, self.conversion.box)

    @property
    def history(self) -> Sequence[Item]:
        """The stored items before the request's own."""
        return self.items[: self._earlier]

    @property
    def model(self) -> str:
        return self.conversion.chat.model

    @property
    def is_helped(self) -> bool:
        """A small model answers, which is helped out of loops."""
        model = self._request.model or self.knowledge.default_model
        return self.knowledge.help_for(model, self._environment.help).stops_loops

    @property
    def dialect(self) -> Dialect:
        return self.conversion.dialect

    @property
    def has_stop(self) -> bool:
        """Words end the answer, wherever it is then."""
        return bool(self._request.stop)

    def convert(self) -> None:
        items, earlier = self._remaining() if self.dropped else (self.window.items, self._earlier)
        knowledge, environment = self.knowledge, self._environment
        model = self._request.model or knowledge.default_model
        dialect, help, sampling, _ = knowledge.traits_of(model, environment.help)
        if self.engine in self.in_words:
            dialect = structs.replace(dialect, **UNTIL_PROBED)
        if self._strict or self._facts:
            dialect = structs.replace(dialect, **{**(strict_facts(dialect) if self._strict else {}), **self._facts})
        conversion = request_to_chat(
            self._request,
            items,
            dialect,
            model,
            environment.sealer,
            earlier=earlier,
            check_grammars=environment.check_grammars,
            tool_definitions=environment.tool_definitions,
            flaw_of=self._flaw_of,
            documents=Documents(self._outcome_of),
            rounds=self._rounds,
            found=self._found,
            rejection=self._rejection,
            help=help,
            sampling=sampling,
            attached=self._attached,
            hosted_kinds=environment.hosted_kinds,
            lists=self._lists,
            toolboxes=environment.toolboxes,
        )
        self._work = iter(())
        if conversion.unread or conversion.definitions:
            definitions = [DefinitionWork(each.definition) for each in conversion.definitions]
            self._work = iter((*map(self._bounded, conversion.unread), *definitions))
        self._outdated = False
        self.conversion: Conversion = conversion
        if self._rejection is not None:
            self.conversion = rejection_to_conversion(conversion, self._rejection, helped=help.stops_loops)

    def _remaining(self) -> tuple[list[Item], int]:
        """The items, without the oldest turns of a history too long; and how many of them are stored ones."""
        items = self.window.items
        left = truncated(items, self.dropped, self.size_of)
        if left is None:
            raise ContextLengthExceeded("The input is too long, even its last turn alone.", param="input")
        return left, max(0, self._earlier - (len(items) - len(left)))

    def size_of(self, item: Item) -> int:
        """With what was read of the files that it names."""
        found = (self._documents.get(work_digest(file)) for file in files_of(item))
        return size_of(item) + sum(outcome_size(outcome) for outcome in found if outcome is not None)

    @property
    def notices(self) -> list[str]:
        notices = [*self.window.notices, *self.conversion.notices, *self._lists.notices]
        if self._thought_too_long:
            notices.append(THOUGHT_TOO_LONG)
        if self._tools_ended:
            notices.append(self._tools_ended)
        return notices

    # ---- documents, schemas and grammars -----------------------------------------------------------------------------

    def _bounded(self, work: ReadWork) -> ReadWork:
        """An image in a file may be as large as one in a request."""
        is_image = isinstance(work, StoredFileWork) and work.is_image
        return structs.replace(work, most_bytes=self._environment.limits.image_bytes) if is_image else work

    def next_work(self) -> ReadWork | DefinitionWork | None:
        """What has to be done before the engine can be asked: a document is read, a schema or grammar is compiled. The request
        is converted anew when all of it is done, not after each."""
        while True:
            for work in self._work:
                if not self._knows(work):
                    return work
            if not self._outdated:
                return None
            self.convert()

    def done(self, work: ReadWork | DefinitionWork, outcome: CheckOutcome) -> None:
        """What was not finished may be on a machine that is less busy: it is known for this request only."""
        if isinstance(work, DefinitionWork):
            self._define(work.definition, outcome)
        else:
            self._read(work, outcome)

    def _read(self, work: ReadWork, outcome: CheckOutcome) -> None:
        """What is in an uploaded file counts for this request only: it may be removed, and others must not get it."""
        self._outdated = True
        digest = work_digest(work)
        found = CheckOutcome(complaint=TOO_SLOW_TO_READ) if outcome.unfinished else outcome
        self._documents = {**self._documents, digest: found}
        if isinstance(work, DocumentWork) and not outcome.unfinished:
            self._environment.documents.add(digest, outcome)

    def _define(self, definition: bytes | Grammar, outcome: CheckOutcome) -> None:
        flaw = None if outcome.complaint is None else Flaw(outcome.complaint, outcome.code == MALFORMED)
        flaw = TOO_SLOW if outcome.unfinished else flaw
        self._outdated = self._outdated or flaw is not None
        self._defined = {**self._defined, definition: flaw}
        if not outcome.unfinished:
            self._environment.definitions.add(definition, flaw)

    def _knows(self, work: ReadWork | DefinitionWork) -> bool:
        """It was done before, for this request or for another."""
        if not isinstance(work, DefinitionWork):
            return self._outcome_of(work_digest(work)) is not None
        return work.definition in self._defined or work.definition in self._environment.definitions

    def _outcome_of(self, digest: bytes) -> CheckOutcome | None:
        return self._documents.get(digest) or self._environment.documents.get(digest)

    def _flaw_of(self, definition: bytes | Grammar) -> Flaw | None:
        return self._defined.get(definition) or self._environment.definitions.flaw(definition)

    # ---- MCP servers -------------------------------------------------------------------------------------------------

    @property
    def unlisted(self) -> Sequence[McpServer]:
        """The servers whose tools have to be listed before the engine is asked. A summary is made without tools."""
        return () if self.conversion.compacts else self.conversion.box.unlisted

    def is_attached(self, label: str) -> bool:
        return self.conversion.box.servers[label].startswith(ATTACHED)

    def allowed(self, label: str, listing: Listing) -> Listing:
        """The tools of it that the request allows."""
        offers = self.conversion.box.mcp[label].offers
        return structs.replace(listing, tools=[tool for tool in listing.tools if offers(tool)])

    def add_lists(self, listings: Mapping[str, Listing]) -> None:
        for label, listing in listings.items():
            self._lists.add(label, listing, attached=self.is_attached(label))
        self.convert()

    # ---- how it changes ----------------------------------------------------------------------------------------------

    @property
    def has_another_engine(self) -> bool:
        return self.engine + 1 < len(self._engines)

    def use_next_engine(self) -> None:
        self.engine += 1
        self.knowledge = self._engines[self.engine]
        self._facts = self._repeating = NO_FACTS
        self._lessons = 0
        self.convert()

    @property
    def awaits_probe(self) -> bool:
        """Whether the model sees tools is about to be known, and makes a difference here."""
        return self.engine not in self.in_words and self.knowledge.assumes(self.model) and self._has_tools

    @property
    def _has_tools(self) -> bool:
        return bool(self.conversion.box.functions) or any(map(_is_call, self.window.items))

    def probed(self, knowledge: EngineKnowledge) -> None:
        """If it is still not known, tools stay in words to the end: each prompt has to begin as the one before it."""
        self.knowledge = knowledge
        if knowledge.assumes(self.model):
            self.in_words |= {self.engine}
        self.convert()

    @property
    def may_truncate(self) -> bool:
        return self._request.truncation == "auto" and self.dropped < 1

    def truncate(self, overflow: ContextLengthExceeded) -> None:
        """Leaves out as many of the oldest turns as the engine's words ask for."""
        words = overflow.failure.message if overflow.failure is not None else ""
        self.dropped = share_to_drop(words, self.dropped)
        self.convert()

    def add_compaction(self, item: Item) -> None:
        """From now on it stands for all items, as it will in the requests that continue this one."""
        self.items.append(item)
        opens = self._environment.sealer.open
        self.window = items_to_window(self.items, opens, earlier=self._earlier, sent=len(self.items))
        self.convert()

    def learn_from(self, error: ApiError) -> bool:
        """Changes it by what the error teaches about the engine; false if it teaches nothing."""
        learned = lesson_of(error, self.conversion.chat, self.dialect) if self._lessons < MOST_LESSONS else None
        if learned is None:
            return False
        self._lessons += 1
        facts, lasting = dict(learned.facts), learned.lasting
        self._environment.report("learned", engine=self.knowledge.name, model=self.model, facts=facts, lasting=lasting)
        if lasting:
            self.knowledge.learn(self.model, facts)
        if learned.repeats:
            self._repeating = {**self._repeating, **facts}
        elif not lasting:
            # What was learned before it has not helped.
            self._repeating = NO_FACTS
        self._facts = {**self._facts, **facts}
        self.convert()
        return True

    def learn_of_repetition(self) -> None:
        """An answer has come, with or without lessons before it. Later rounds of the same request say nothing more."""
        if not self._rounds:
            self.knowledge.repeat(self.conversion.chat.model, self._repeating)

    def learn_of_answer(self, facts: Mapping[str, Any]) -> None:
        """What an answer has shown counts from the next request on."""
        self.knowledge.learn(self.conversion.chat.model, facts)

    def reject(self, rejection: Rejection) -> None:
        """From now on the request shows the model what is wrong with its answer, and leaves it no way to be wrong again."""
        self._rejection = rejection
        self._strict = True
        self.convert()

    @property
    def can_stop_thinking(self) -> bool:
        return self.dialect.thinks and bool(self.dialect.no_thinking)

    def stop_thinking(self) -> None:
        """From now on the model answers at once: it has used up its tokens for a thought."""
        self._thought_too_long = self._strict = True
        self.convert()

    def search(self, arguments: str) -> list[Tool]:
        """Searches the deferred tools. What is found is offered from the next conversion on."""
        found = search(self.conversion.box, arguments, self._request.tool_choice)
        self._found = (*self._found, *found)
        return found

    def add_round(self, turn: AssistantTurn, *, called: bool = True, in_loop: bool = False, cites: bool = False) -> None:
        """The model called tools, and continues with what came of it. `called`: it has done what `tool_choice` required.
        `in_loop`: it would go on calling, and has to answer now. `cites`: there are results to cite."""
        if turn.calls or turn.texts or turn.reasoning:
            self._rounds = (*self._rounds, turn)
        self._rejection = None
        self._strict = False
        if in_loop:
            self._tools_ended = STOPPED_LOOP
        elif len(self._rounds) >= self._environment.most_rounds:
            self._tools_ended = ROUNDS_USED_UP.format(count=len(self._rounds))
        if self._tools_ended and self.is_helped:
            words = ANSWER_NOW + AND_CITE if cites else ANSWER_NOW
            self._rounds = (*self._rounds, UserTurn([{"type": "text", "text": words}]))
        choice = self._request.tool_choice
        if called:
            choice = relaxed_choice(choice)
        self._request = structs.replace(self._request, tool_choice="none" if self._tools_ended else choice)
        self.convert()
