"""Responses request → chat request. A pure function of the request, and of what is known of its model, tools and documents."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field, structs

from antiphon.core.checks.work import MALFORMED, Flaw, Grammar
from antiphon.core.items.enforcement import Rejection
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.help import ENGINE_DEFAULT, NO_HELP, Help, Sampling, sampling_of_answer, with_sampling
from antiphon.core.prompt.chat_request import make_chat, wants_logprobs
from antiphon.core.prompt.documents import Documents, ReadWork
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.prompt.examples import fitting_examples
from antiphon.core.prompt.item_types import items_to_draft, tools_in_items, tools_of_search
from antiphon.core.prompt.loops import Loops, Reason, offer_without, withheld_to_notices
from antiphon.core.prompt.turns import AssistantTurn, UserTurn, rejection_to_turns
from antiphon.core.protocols.responses.fields import dropped_fields_to_notices, refuse_unsupported
from antiphon.core.protocols.responses.references import is_stored
from antiphon.core.stream.citations import DocumentSource
from antiphon.core.stream.repeated_prompts import WithoutRepeatedPrompts
from antiphon.core.stream.text_calls import AnswersByCall, CallFinder, ConstrainedCall, TextCalls
from antiphon.core.toolbox.choice import NO_OFFER, Offer, choice_to_offer, provisional_choice
from antiphon.core.toolbox.definitions import DEFINITIONS, Define
from antiphon.core.toolbox.easier_tools.adaptations import offer_easier_tools
from antiphon.core.toolbox.mcp_servers import KnownLists
from antiphon.core.toolbox.request_tools import KnownToolboxes, toolbox_key, tools_to_box
from antiphon.core.toolbox.requirements import (
    NOTHING_HOSTED,
    Checks,
    Definition,
    HostedCalls,
    Requirements,
    offer_to_requirements,
    wants_json,
)
from antiphon.core.toolbox.search import describe_search, found_to_text
from antiphon.core.toolbox.toolbox import NO_TOOLS, Toolbox
from antiphon.core.toolbox.tools import ATTACHED
from antiphon.errors import InvalidRequest
from antiphon.sealing import NO_SEALER, Sealer
from antiphon.wire.chat import ChatRequest
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import CreateResponse


class Conversion(Struct, frozen=True):
    chat: ChatRequest
    dialect: Dialect
    notices: tuple[str, ...]
    box: Toolbox
    requirements: Requirements
    offer: Offer
    # The schemas and grammars that the checks are made of.
    definitions: tuple[Definition, ...]
    # The documents that have to be read before it can be sent, and the passages of documents that the model can cite.
    unread: tuple[ReadWork, ...]
    cited: tuple[DocumentSource, ...]
    # Makes a finder of the calls in the engine's text, one for each stream.
    finder: Callable[[], CallFinder | None]
    logprobs: bool
    # The answer is one sealed summary of the conversation.
    compacts: bool
    # The part of the model's sampling that counts for this answer.
    sampling: Sampling


class ToolInputs(Struct, frozen=True):
    """What the tools of a request are made with, beside the request itself."""

    definitions: Mapping[str, Define] = field(default_factory=lambda: DEFINITIONS)
    # The kinds of tool that the gateway runs.
    hosted_kinds: Mapping[str, HostedCalls] = NOTHING_HOSTED
    # Tools that the operator adds.
    attached: Sequence[Tool] = ()
    # What is known of the tools of MCP servers.
    lists: KnownLists | None = None
    # What was made of tools that other requests had.
    toolboxes: KnownToolboxes | None = None


class Progress(Struct, frozen=True):
    """What has become of a response before its engine is asked again."""

    rounds: Sequence[AssistantTurn | UserTurn] = ()
    # The tools that searches have found.
    found: Sequence[Tool] = ()
    rejection: Rejection | None = None


NO_TOOL_INPUTS = ToolInputs()
NO_PROGRESS = Progress()


def _no_flaw(definition: bytes | Grammar) -> Flaw | None:
    return None


class ChatInputs(Struct, frozen=True):
    """All that a chat request depends on."""

    request: CreateResponse
    items: Sequence[Item]
    dialect: Dialect
    model: str
    sealer: Sealer = NO_SEALER
    # How many of the items were stored, and not sent with this request.
    earlier: int = 0
    check_grammars: bool = True
    # Why a schema or grammar is known not to compile.
    flaw_of: Callable[[bytes | Grammar], Flaw | None] = _no_flaw
    # What is known of the documents in the items.
    documents: Documents | None = None
    # What a small model gets.
    help: Help = NO_HELP
    # How this model's tokens are chosen where the request does not say.
    sampling: Sampling = ENGINE_DEFAULT
    tools: ToolInputs = NO_TOOL_INPUTS
    progress: Progress = NO_PROGRESS
    # The context window of the model, in tokens; None: not known.
    window: int | None = None
    # Patterns of the names of tools that may be called again at once.
    polls: Collection[str] = ()
    # None of the items brings tools.
    has_only_messages: bool = False


def request_to_chat(inputs: ChatInputs) -> Conversion:
    request, items, dialect = inputs.request, inputs.items, inputs.dialect
    refuse_unsupported(request)
    # Most requests have no tools, and no model of theirs needs a sampling of its own.
    no_tools = inputs.has_only_messages and not (request.tools or inputs.tools.attached or inputs.progress.found)
    box = NO_TOOLS if no_tools else _box(inputs, _more_tools(inputs))
    documents = inputs.documents or Documents()
    draft = _draft(inputs, box, documents)
    # One that is not the last item was refused, or was obeyed before.
    compacts = bool(items) and len(items) > inputs.earlier and items[-1].get("type") == "compaction_trigger"
    sampling = inputs.sampling
    if compacts or sampling is not ENGINE_DEFAULT:
        request, sampling = _as_answered(request, box, inputs, compacts=compacts)
    loops = draft.stop_loops(helped=inputs.help.stops_loops, polls=inputs.polls, changes=box.may_change)
    offers_none = not box.offered.functions and request.tool_choice in (None, "auto")
    offer = NO_OFFER if offers_none else _offer(request, box, draft, inputs, loops)
    checks = Checks(inputs.flaw_of)
    requirements = offer_to_requirements(
        request,
        offer,
        box,
        dialect,
        checks,
        compacts=compacts,
        check_grammars=inputs.check_grammars,
        hosted_kinds=inputs.tools.hosted_kinds,
    )
    if (rejection := inputs.progress.rejection) is not None:
        for turn in rejection_to_turns(rejection, requirements, helped=inputs.help.stops_loops):
            draft.add(turn)
    # Raises for a definition that must be followed: nothing is made of a request that has one.
    unreadable = tuple(_unreadable_to_notices(checks.definitions, inputs.flaw_of)) if checks.definitions else ()
    made = make_chat(request, inputs.model, draft, offer, box, requirements, dialect, sampling)
    withheld = withheld_to_notices(offer) if offer.withheld else ()
    before = (*dropped_fields_to_notices(request), *draft.notices, *documents.notices, *box.notices)
    notices = (*before, *withheld, *unreadable, *made.notices)
    finder = _no_finder if offer is NO_OFFER else _finder(offer, box)
    if loops.notes or (inputs.help.stops_loops and (draft.has_calls or inputs.progress.rounds)):
        finder = partial(_without_own_words, finder)
    return Conversion(
        made.chat,
        dialect,
        notices,
        box,
        requirements,
        offer,
        tuple(checks.definitions),
        tuple(documents.unread),
        tuple(documents.cited),
        finder,
        made.logprobs,
        compacts,
        sampling,
    )


def _more_tools(inputs: ChatInputs) -> list[tuple[str, Tool]]:
    """The tools that are not in the request's `tools`, each with its place."""
    tools, attached, found = tools_in_items(inputs.items, earlier=inputs.earlier), inputs.tools.attached, inputs.progress.found
    if attached:
        tools = [*((f"{ATTACHED}[{at}]", tool) for at, tool in enumerate(attached)), *tools]
    # Found after those that the prompt before had.
    return [*tools, *tools_of_search(found)] if found else tools


def _box(inputs: ChatInputs, more: Sequence[tuple[str, Tool]]) -> Toolbox:
    tools, known, help = inputs.request.tools or (), inputs.tools.toolboxes, inputs.help
    if not tools and not more:
        return NO_TOOLS
    definitions = inputs.tools.definitions
    key = None if more or known is None else toolbox_key(tools, definitions, help)
    if key is None or known is None:
        return _new_box(tools, more, definitions, help, inputs.tools.lists)
    if (box := known.get(key)) is None:
        # Without the lists, which are those of one conversation.
        box = _new_box(tools, (), definitions, help, None)
        known.add(key, box)
    return box


def _new_box(
    tools: Sequence[Tool],
    more: Sequence[tuple[str, Tool]],
    definitions: Mapping[str, Define],
    help: Help,
    lists: KnownLists | None,
) -> Toolbox:
    box = tools_to_box(tools, more, definitions, lists)
    describe_search(box)
    if help.easier_tools:
        offer_easier_tools(box, help.reason)
    return box


def _draft(inputs: ChatInputs, box: Toolbox, documents: Documents) -> ChatDraft:
    words = partial(found_to_text, box=box)
    draft = items_to_draft(
        inputs.items, box.as_called, inputs.sealer.open, documents=documents, found_words=words, earlier=inputs.earlier
    )
    for called in inputs.progress.rounds:
        draft.add(called)
    return draft


def _as_answered(
    request: CreateResponse, box: Toolbox, inputs: ChatInputs, *, compacts: bool
) -> tuple[CreateResponse, Sampling]:
    """The request as this answer needs it, and the part of the model's sampling that counts for it."""
    if compacts:
        # The format and the tools are those of answers. A summary is neither a call nor JSON.
        request = structs.replace(request, text=None, tool_choice="none")
    if inputs.sampling is ENGINE_DEFAULT:
        return request, inputs.sampling
    # A choice of "none" changes nothing: it may be that of the last round only.
    has_tools = not compacts and _has_tools_of_others(box, inputs.tools.hosted_kinds)
    sampling = sampling_of_answer(inputs.sampling, request, has_tools=has_tools, compacts=compacts)
    return with_sampling(request, sampling), sampling


def _has_tools_of_others(box: Toolbox, hosted_kinds: Mapping[str, HostedCalls]) -> bool:
    """The client or a server runs a tool that may be called, now or once it is found. What a server lists does not matter."""
    if box.servers.places or box.deferred.tools:
        return True
    return any(identity.kind not in hosted_kinds for identity in box.offered.identities.values())


def _offer(request: CreateResponse, box: Toolbox, draft: ChatDraft, inputs: ChatInputs, loops: Loops) -> Offer:
    help = inputs.help
    constrains_answers = help.constrains_answers and _may_constrain_calls(request)
    # A server's tools may be meant that are not known yet. The request is converted again when they are.
    choice = provisional_choice(request.tool_choice, box) if box.servers.unlisted else request.tool_choice
    offer = choice_to_offer(
        choice,
        box,
        inputs.dialect,
        inputs.tools.definitions,
        constrains_answers=constrains_answers,
        parallel=request.parallel_tool_calls is not False,
    )
    if help.shows_examples:
        draft.examples = tuple(fitting_examples(offer, box, inputs.window))
    withheld = dict.fromkeys(offer.names, Reason.HAS_ENDED.format(reason=loops.ended)) if loops.ended else loops.withheld
    if help.stops_loops and not loops.waits and 0 < len(idle := box.needing_running(offer.names)) < len(offer.names):
        # A small model would try to run code with it.
        withheld = {**dict.fromkeys(idle, Reason.NOTHING_RUNS), **withheld}
    if withheld:
        offer = offer_without(offer, withheld, box.replaced_names(offer.names))
    return structs.replace(offer, made=loops.made) if loops.made and offer.tools and not offer.must_call else offer


def _may_constrain_calls(request: CreateResponse) -> bool:
    """Not where something is asked of the text itself, which would be about the JSON around it: a format, the probabilities of
    its tokens, the words that end it."""
    return not wants_json(request) and not request.stop and not wants_logprobs(request)


def _unreadable_to_notices(
    definitions: Iterable[Definition], flaw_of: Callable[[bytes | Grammar], Flaw | None]
) -> Iterable[str]:
    for definition in definitions:
        flaw, where = flaw_of(definition.definition), definition.where
        if flaw is None:
            continue
        if definition.required:
            code = "invalid_json_schema" if where.startswith("text.") else "invalid_function_parameters"
            raise InvalidRequest(f"Invalid `{where}`: not a JSON schema: {flaw.reason}.", param=where, code=code)
        if flaw.malformed and not is_stored(where):
            where = f"{where}.definition"
            raise InvalidRequest(f"Invalid `{where}`: not a grammar: {flaw.reason}.", param=where, code=MALFORMED)
        yield f"{definition.notice}: {flaw.reason}"


def _without_own_words(finder: Callable[[], CallFinder | None]) -> CallFinder:
    """The prompt has sentences of ours in it, which a small model repeats."""
    return WithoutRepeatedPrompts(finder())


def _no_finder() -> None:
    """No call can be in the text of an answer without tools."""


def _finder(offer: Offer, box: Toolbox) -> Callable[[], CallFinder | None]:
    if not offer.tools and not offer.only and not offer.withheld:
        return _no_finder
    say = offer.say.name if offer.say is not None else None
    if offer.constrained and say is None:
        return lambda: ConstrainedCall(offer.names)
    schemas = {tool.function.name: tool.function.parameters for tool in offer.tools}
    offered = offer.only or tuple(schemas)
    # A call that may not be made is a call all the same: it is asked for again, and not shown as text.
    names = {name: schemas.get(name) for name in (*offered, *box.replaced_names(offered), *offer.withheld)}
    if say is not None:
        listed = offer.most_calls > 1
        return lambda: ConstrainedCall(offer.names, say=say, otherwise=AnswersByCall(names, say), listed=listed)
    return lambda: TextCalls(names) if names else None
