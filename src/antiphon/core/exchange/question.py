"""The question of an exchange: which engine is asked, and the request in its dialect, as it is by now."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import UNSET, Struct, structs

from antiphon.core.checks.constraints import strict_facts
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.input_work import InputWork, Work
from antiphon.core.exchange.lessons import Learned, lesson_of
from antiphon.core.exchange.repairs import rejection_to_conversion
from antiphon.core.hosted.mcp.approvals import check_servers, items_to_approvals
from antiphon.core.hosted.mcp.tools import ToolLists
from antiphon.core.items.enforcement import Rejection
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.help import ENGINE_DEFAULT
from antiphon.core.knowledge.knowledge import UNTIL_PROBED, EngineKnowledge
from antiphon.core.prompt.conversation import Conversation
from antiphon.core.prompt.convert import NO_PROGRESS, ChatInputs, Conversion, ToolInputs, request_to_chat
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.item_types import CONTINUE_ANSWERS
from antiphon.core.prompt.truncation import has_room_for
from antiphon.core.prompt.turns import AssistantTurn, UserTurn
from antiphon.core.toolbox.choice import relaxed_choice
from antiphon.core.toolbox.mcp_servers import Listing, McpServer
from antiphon.core.toolbox.prompt_texts import AND_CITE, ANSWER_NOW, MAKE_IT_NOW
from antiphon.core.toolbox.requirements import wants_json
from antiphon.core.toolbox.search import search
from antiphon.core.toolbox.tools import ATTACHED
from antiphon.errors import ApiError, ContextLengthExceeded
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import CreateResponse

ROUNDS_USED_UP = "the model called tools {count} times in a row (tool_rounds): it was asked to answer without them"
STOPPED_LOOP = "the model made the same call again and again: it was asked to answer without tools"
NO_ROOM = "the limit of {most} tokens was left out: with the prompt, it is more than the context window of {window} tokens"
ANNOUNCED = "the model announced a call and made none: it was asked once more for the call or the answer"
THOUGHT_TOO_LONG = "the model used up max_output_tokens while it was thinking: it was asked again without thinking"


def _is_call(item: Item) -> bool:
    """Or the result of one."""
    return str(item.get("type")).endswith(("_call", "_call_output"))


# Each teaches something new. An engine that finds something to refuse in every form is not asked without end.
MOST_LESSONS = 12
# At first, and mostly to the end.
NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class ChosenEngine(Struct):
    """The engine that is asked, of those that may be; and what failures have taught about it, for this request alone."""

    engines: Sequence[EngineKnowledge]
    number: int
    # What is known of it.
    knowledge: EngineKnowledge
    # The numbers of the engines that get tools in words, because the conversation began so.
    in_words: frozenset[int]
    _facts: Mapping[str, Any] = NO_FACTS
    _lessons: int = 0
    # Those of the facts that count for other requests, once a few in a row have learned the same.
    repeating: Mapping[str, Any] = NO_FACTS

    @property
    def has_next(self) -> bool:
        return self.number + 1 < len(self.engines)

    def use_next(self) -> None:
        self.number += 1
        self.knowledge = self.engines[self.number]
        self._facts = self.repeating = NO_FACTS
        self._lessons = 0

    def dialect(self, known: Dialect, *, strict: bool) -> Dialect:
        """As it counts for this request. `strict`: the model answers without thinking, under constraints that leave no room
        for a thought."""
        dialect = structs.replace(known, **UNTIL_PROBED) if self.number in self.in_words else known
        if strict or self._facts:
            dialect = structs.replace(dialect, **{**(strict_facts(dialect) if strict else {}), **self._facts})
        return dialect

    def probed(self, knowledge: EngineKnowledge, model: str) -> None:
        """If it is still not known, tools stay in words to the end: each prompt has to begin as the one before it."""
        self.knowledge = knowledge
        self.engines = [knowledge if at == self.number else known for at, known in enumerate(self.engines)]
        if knowledge.assumes(model):
            self.in_words |= {self.number}

    def learn_from(self, error: ApiError, conversion: Conversion, report: Callable[..., None]) -> bool:
        """False: the error teaches nothing about the engine."""
        chat, model = conversion.chat, conversion.chat.model
        learned = lesson_of(error, chat, conversion.dialect) if self._lessons < MOST_LESSONS else None
        if learned is None:
            return False
        self._lessons += 1
        report("learned", engine=self.knowledge.name, model=model, facts=dict(learned.facts), lasting=learned.lasting)
        self._learn(learned, model)
        return True

    def _learn(self, learned: Learned, model: str) -> None:
        facts = dict(learned.facts)
        if learned.lasting:
            self.knowledge.learn(model, facts)
        if learned.repeats:
            self.repeating = {**self.repeating, **facts}
        elif not learned.lasting:
            # What was learned before it has not helped.
            self.repeating = NO_FACTS
        self._facts = {**self._facts, **facts}


class Question:
    """Every change converts the request anew: the conversion depends on the request and on what is known, and nothing else."""

    __slots__ = (
        "__weakref__",
        "_announced",
        "_environment",
        "_lists",
        "_progress",
        "_request",
        "_strict",
        "_thought_too_long",
        "_tools",
        "_tools_ended",
        "approvals",
        "conversation",
        "conversion",
        "engine",
        "input_work",
    )

    def __init__(
        self,
        request: CreateResponse,
        engines: Sequence[EngineKnowledge],
        environment: Environment,
        history: Sequence[Item],
        compact: bool,
        first_engine: int = 0,
        attached: Sequence[Tool] = (),
        in_words: Collection[int] = (),
    ) -> None:
        self._request = request
        self._environment = environment
        self.engine = ChosenEngine(engines, first_engine, engines[first_engine], frozenset(in_words))
        self.conversation = conversation = Conversation(request, history, environment.sealer.open, compact)
        self.input_work = InputWork(environment)
        # What is known of the tools of MCP servers, and the calls that the client has approved. A summary needs none of them.
        self._lists = ToolLists(conversation.items)
        has_none = compact or conversation.has_only_messages
        self.approvals = [] if has_none else items_to_approvals(conversation.items, conversation.stored, CONTINUE_ANSWERS)
        self._tools = ToolInputs(
            environment.tool_definitions, environment.hosted_kinds, attached, self._lists, environment.toolboxes
        )
        self._progress = NO_PROGRESS
        # The model answers without thinking, under constraints that leave no room for a thought.
        self._strict = False
        self._thought_too_long = False
        # Why the model is offered no more tools.
        self._tools_ended = ""
        # After how many of the rounds the model was asked for a call that it had announced. The last two of them are its words,
        # and our question. 0: it was not asked.
        self._announced = 0
        self.convert()
        if self.approvals:
            check_servers(self.approvals, self.conversion.box)

    @property
    def model(self) -> str:
        return self.conversion.chat.model

    @property
    def is_helped(self) -> bool:
        """A small model answers, which is helped out of loops."""
        knowledge = self.engine.knowledge
        return knowledge.help_for(self._request.model or knowledge.default_model, self._environment.help).stops_loops

    @property
    def dialect(self) -> Dialect:
        return self.conversion.dialect

    @property
    def has_stop(self) -> bool:
        """Words end the answer, wherever it is then."""
        return bool(self._request.stop)

    def convert(self) -> None:
        engine, environment, work = self.engine, self._environment, self.input_work
        conversation = self.conversation
        if conversation.dropped:
            items, earlier = conversation.prompt_items(work.size_of)
        else:
            items, earlier = conversation.window.items, conversation.stored
        model = self._request.model or engine.knowledge.default_model
        dialect, help, sampling, _ = engine.knowledge.traits_of(model, environment.help)
        inputs = ChatInputs(
            self._request,
            items,
            engine.dialect(dialect, strict=self._strict),
            model,
            environment.sealer,
            earlier,
            environment.check_grammars,
            work.flaw_of,
            Documents(work.outcome_of, fetches=environment.fetched_bytes > 0),
            help,
            sampling if environment.own_sampling else ENGINE_DEFAULT,
            self._tools,
            self._progress,
            engine.knowledge.window_of(model),
            environment.polling_tools,
            self.conversation.has_only_messages,
        )
        self.conversion: Conversion = request_to_chat(inputs)
        if self.conversion.unread or self.conversion.definitions or work.is_pending:
            work.begin(self.conversion)
        if self._request.max_output_tokens is not None:
            self._limit_to_window(self._request.max_output_tokens, engine.knowledge.window_of(model))
        if (rejection := self._progress.rejection) is not None:
            self.conversion = rejection_to_conversion(self.conversion, rejection, helped=help.stops_loops)

    def _limit_to_window(self, most: int, window: int | None) -> None:
        """Some engines refuse an answer that may be longer than their window has room for, and clients ask for the longest that
        another model can write. Without a limit, an answer ends where the window does."""
        chat, member = self.conversion.chat, self.conversion.dialect.max_tokens_member
        if window is None or getattr(chat, member) is UNSET or has_room_for(most, chat, window):
            return
        notice = NO_ROOM.format(most=most, window=window)
        unlimited = structs.replace(chat, **{member: UNSET})
        self.conversion = structs.replace(self.conversion, chat=unlimited, notices=(*self.conversion.notices, notice))

    def next_work(self) -> Work | None:
        """What has to be done before the engine can be asked. The request is converted anew when all of it is done, not after
        each."""
        while (work := self.input_work.next()) is None and self.input_work.is_outdated:
            self.convert()
        return work

    @property
    def notices(self) -> list[str]:
        notices = [*self.conversation.window.notices, *self.conversion.notices, *self._lists.notices]
        if self._thought_too_long:
            notices.append(THOUGHT_TOO_LONG)
        if self._tools_ended:
            notices.append(self._tools_ended)
        if self._announced:
            notices.append(ANNOUNCED)
        return notices

    # ---- MCP servers -------------------------------------------------------------------------------------------------

    @property
    def unlisted(self) -> Sequence[McpServer]:
        """The servers whose tools have to be listed before the engine is asked. A summary is made without tools."""
        return () if self.conversion.compacts else self.conversion.box.servers.unlisted

    def is_attached(self, label: str) -> bool:
        return self.conversion.box.servers.places[label].startswith(ATTACHED)

    def allowed(self, label: str, listing: Listing) -> Listing:
        """The tools of it that the request allows."""
        offers = self.conversion.box.servers.definitions[label].offers
        return structs.replace(listing, tools=[tool for tool in listing.tools if offers(tool)])

    def add_lists(self, listings: Mapping[str, Listing]) -> None:
        for label, listing in listings.items():
            self._lists.add(label, listing, attached=self.is_attached(label))
        self.convert()

    # ---- the engine --------------------------------------------------------------------------------------------------

    def use_next_engine(self) -> None:
        self.engine.use_next()
        self.convert()

    @property
    def awaits_probe(self) -> bool:
        """Whether the model sees tools is about to be known, and makes a difference here."""
        engine, model = self.engine, self.conversion.chat.model
        return engine.number not in engine.in_words and engine.knowledge.assumes(model) and self._has_tools

    @property
    def _has_tools(self) -> bool:
        return bool(self.conversion.box.offered.functions) or any(map(_is_call, self.conversation.window.items))

    def probed(self, knowledge: EngineKnowledge) -> None:
        self.engine.probed(knowledge, self.model)
        self.convert()

    def learn_from(self, error: ApiError) -> bool:
        """Changes it by what the error teaches about the engine; false if it teaches nothing."""
        if not self.engine.learn_from(error, self.conversion, self._environment.report):
            return False
        self.convert()
        return True

    def learn_of_repetition(self) -> None:
        """An answer has come, with or without lessons before it. Later rounds of the same request say nothing more."""
        if not self._progress.rounds:
            self.engine.knowledge.repeat(self.conversion.chat.model, self.engine.repeating)

    def learn_of_answer(self, facts: Mapping[str, Any]) -> None:
        """What an answer has shown counts from the next request on."""
        self.engine.knowledge.learn(self.conversion.chat.model, facts)

    # ---- the conversation --------------------------------------------------------------------------------------------

    @property
    def may_truncate(self) -> bool:
        return self._request.truncation == "auto" and self.conversation.dropped < 1

    def truncate(self, overflow: ContextLengthExceeded) -> None:
        self.conversation.truncate(overflow)
        self.convert()

    def add_compaction(self, item: Item) -> None:
        self.conversation.add_compaction(item)
        self.convert()

    # ---- what has become of the answers ------------------------------------------------------------------------------

    def reject(self, rejection: Rejection) -> None:
        """From now on the request shows the model what is wrong with its answer, and leaves it no way to be wrong again."""
        self._progress = structs.replace(self._progress, rejection=rejection)
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
        self._progress = structs.replace(self._progress, found=(*self._progress.found, *found))
        return found

    def add_round(self, turn: AssistantTurn, *, called: bool = True, in_loop: bool = False, cites: bool = False) -> None:
        """The model called tools, and continues with what came of it. `called`: it has done what `tool_choice` required.
        `in_loop`: it would go on calling, and has to answer now. `cites`: there are results to cite."""
        rounds = self._progress.rounds
        if turn.calls or turn.texts or turn.reasoning:
            rounds = (*rounds, turn)
        if in_loop:
            self._tools_ended = STOPPED_LOOP
        elif (count := len(rounds) - (2 if self._announced else 0)) >= self._environment.most_rounds:
            self._tools_ended = ROUNDS_USED_UP.format(count=count)
        if self._tools_ended and self.is_helped:
            words = f"{ANSWER_NOW} {AND_CITE}" if cites else ANSWER_NOW
            rounds = (*rounds, UserTurn([{"type": "text", "text": words}]))
        self._progress = structs.replace(self._progress, rounds=rounds, rejection=None)
        self._strict = False
        choice = self._request.tool_choice
        if called:
            choice = relaxed_choice(choice)
        self._request = structs.replace(self._request, tool_choice="none" if self._tools_ended else choice)
        self.convert()

    # ---- a call that was announced -----------------------------------------------------------------------------------

    @property
    def looks_for_announcements(self) -> bool:
        """The model may make a call or answer in words, and it matters which of them it has only announced."""
        environment, offer = self._environment, self.conversion.offer
        if not environment.asks_for_announced or environment.help == "off" or not offer.tools:
            return False
        return not (offer.must_call or self.conversion.compacts or wants_json(self._request))

    @property
    def may_ask_for_announced(self) -> bool:
        """Once for a response, and only of a model that was seen to do so before."""
        return self.looks_for_announcements and self.dialect.announces_calls and not self._announced

    @property
    def has_just_asked_for_announced(self) -> bool:
        """No tool has been run since."""
        return bool(self._announced) and self._announced == len(self._progress.rounds)

    def ask_for_announced(self, turn: AssistantTurn) -> None:
        """`turn`: what the model wrote, with the announcement at its end."""
        asked = UserTurn([{"type": "text", "text": MAKE_IT_NOW}])
        rounds = (*self._progress.rounds, turn, asked)
        self._announced = len(rounds)
        self._progress = structs.replace(self._progress, rounds=rounds, rejection=None)
        self._strict = False
        self.convert()
