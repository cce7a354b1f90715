"""Responses request → chat request. A pure function of the request and the dialect."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from antiphon.core.checks.work import MALFORMED, Flaw, Grammar
from antiphon.core.items.enforcement import Rejection
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.help import NO_HELP, Help
from antiphon.core.knowledge.sampling import (
    ENGINE_DEFAULT,
    Sampling,
    sampling_of_answer,
    with_sampling,
)
from antiphon.core.prompt.chat_request import make_chat, wants_logprobs
from antiphon.core.prompt.documents import Documents, ReadWork
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.prompt.input_items import items_to_draft, tools_in_items, tools_of_search
from antiphon.core.prompt.loops import offer_without, withheld_to_notices
from antiphon.core.prompt.rounds import rejection_to_turns
from antiphon.core.prompt.turns import AssistantTurn, UserTurn
from antiphon.core.protocols.responses.fields import dropped_fields_to_notices, refuse_unsupported
from antiphon.core.protocols.responses.item_paths import is_stored
from antiphon.core.stream.text_calls import (
    CallFinder,
    ConstrainedCall,
    SaidCalls,
    TextCalls,
)
from antiphon.core.toolbox.cache import KnownToolboxes, toolbox_key
from antiphon.core.toolbox.choice import Offer, choice_to_offer, provisional_choice
from antiphon.core.toolbox.easier_tools.adaptations import offer_easier_tools
from antiphon.core.toolbox.requirements import (
    Checks,
    Definition,
    Requirements,
    offer_to_requirements,
    wants_json,
)
from antiphon.core.toolbox.search import describe_search, found_to_text
from antiphon.core.toolbox.tools import (
    ATTACHED,
    DEFINITIONS,
    NO_TOOLS,
    Define,
    KnownLists,
    Tool,
    Toolbox,
    tools_to_box,
)
from antiphon.errors import InvalidRequest
from antiphon.sealing import NO_SEALER, Sealer
from antiphon.wire.chat import ChatRequest
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
    # The documents that have to be read before it can be sent.
    unread: tuple[ReadWork, ...]
    # Makes a finder of the calls in the engine's text, one for each stream.
    finder: Callable[[], CallFinder | None]
    logprobs: bool
    # The answer is one sealed summary of the conversation.
    compacts: bool
    # The part of the model's sampling that counts for this answer.
    sampling: Sampling


def request_to_chat(
    request: CreateResponse,
    items: Sequence[dict[str, Any]],
    dialect: Dialect,
    model: str,
    sealer: Sealer = NO_SEALER,
    *,
    earlier: int = 0,
    check_grammars: bool = True,
    tool_definitions: Mapping[str, Define] = DEFINITIONS,
    flaw_of: Callable[[bytes | Grammar], Flaw | None] = lambda definition: None,
    documents: Documents | None = None,
    rounds: Sequence[AssistantTurn | UserTurn] = (),
    found: Sequence[Tool] = (),
    rejection: Rejection | None = None,
    help: Help = NO_HELP,
    sampling: Sampling = ENGINE_DEFAULT,
    attached: Sequence[Tool] = (),
    hosted_kinds: Collection[str] = (),
    lists: KnownLists | None = None,
    toolboxes: KnownToolboxes | None = None,
) -> Conversion:
    """`earlier`: how many of the items were stored, and not sent with this request. `flaw_of`: why a
    schema or grammar is known not to compile. `documents`: what is known of the documents in the items.
    `rounds`, `found`, `rejection`: what has become of the response so far. `help`: what a small model gets.
    `sampling`: how this model's tokens are chosen where the request does not say. `attached`: tools that the operator adds.
    `hosted_kinds`: the kinds of tool that the gateway runs. `lists`: what is known of the tools of MCP servers.
    `toolboxes`: what was made of tools that other requests had."""
    refuse_unsupported(request)
    more = _more_tools(items, found, attached, earlier=earlier)
    box = _box(request.tools or (), more, tool_definitions, help, lists, toolboxes)
    documents = documents or Documents()
    draft = _draft(items, rounds, box, sealer, documents, earlier=earlier)
    # One that is not the last item was refused, or was obeyed before.
    compacts = bool(items) and len(items) > earlier and items[-1].get("type") == "compaction_trigger"
    request, sampling = _as_answered(request, box, sampling, compacts=compacts)
    offer = _offer(request, box, draft, dialect, tool_definitions, help)
    checks = Checks(flaw_of)
    requirements = offer_to_requirements(
        request,
        offer,
        box,
        dialect,
        checks,
        compacts=compacts,
        check_grammars=check_grammars,
        hosted_kinds=hosted_kinds,
    )
    for turn in rejection_to_turns(rejection, requirements, helped=help.stops_loops) if rejection is not None else ():
        draft.add(turn)
    # Raises for a definition that must be followed: nothing is made of a request that has one.
    unreadable = tuple(_unreadable_to_notices(checks.definitions, flaw_of)) if checks.definitions else ()
    made = make_chat(request, model, draft, offer, box, requirements, dialect, sampling)
    before = (*dropped_fields_to_notices(request), *draft.notices, *documents.notices)
    return Conversion(
        made.chat,
        dialect,
        (*before, *box.notices, *(withheld_to_notices(offer) if offer.withheld else ()), *unreadable, *made.notices),
        box,
        requirements,
        offer,
        tuple(checks.definitions),
        tuple(documents.unread),
        _finder(offer, box),
        made.logprobs,
        compacts,
        sampling,
    )


def _more_tools(
    items: Sequence[dict[str, Any]], found: Sequence[Tool], attached: Sequence[Tool], *, earlier: int
) -> list[tuple[str, Tool]]:
    """The tools that are not in the request's `tools`, each with its place."""
    tools = tools_in_items(items, earlier=earlier)
    if attached:
        tools = [*((f"{ATTACHED}[{at}]", tool) for at, tool in enumerate(attached)), *tools]
    # Found after those that the prompt before had.
    return [*tools, *tools_of_search(found)] if found else tools


def _box(
    tools: Sequence[Tool],
    more: Sequence[tuple[str, Tool]],
    definitions: Mapping[str, Define],
    help: Help,
    lists: KnownLists | None,
    known: KnownToolboxes | None,
) -> Toolbox:
    if not tools and not more:
        return NO_TOOLS
    key = None if more or known is None else toolbox_key(tools, definitions, help)
    if key is None or known is None:
        return _new_box(tools, more, definitions, help, lists)
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


def _draft(
    items: Sequence[dict[str, Any]],
    rounds: Sequence[AssistantTurn | UserTurn],
    box: Toolbox,
    sealer: Sealer,
    documents: Documents,
    *,
    earlier: int,
) -> ChatDraft:
    words = partial(found_to_text, box=box)
    draft = items_to_draft(items, box.as_called, sealer.open, documents=documents, found_words=words, earlier=earlier)
    for called in rounds:
        draft.add(called)
    return draft


def _as_answered(
    request: CreateResponse, box: Toolbox, sampling: Sampling, *, compacts: bool
) -> tuple[CreateResponse, Sampling]:
    """The request as this answer needs it, and the part of the model's sampling that counts for it."""
    if compacts:
        # The format and the tools are those of answers. A summary is neither a call nor JSON.
        request = structs.replace(request, text=None, tool_choice="none")
    if sampling is ENGINE_DEFAULT:
        return request, sampling
    # A choice of "none" changes nothing: it may be that of the last round only. Nor does it matter what a server lists.
    has_tools = bool(box.functions or box.servers) and not compacts
    sampling = sampling_of_answer(sampling, request, has_tools=has_tools, compacts=compacts)
    return with_sampling(request, sampling), sampling


def _offer(
    request: CreateResponse, box: Toolbox, draft: ChatDraft, dialect: Dialect, definitions: Mapping[str, Define], help: Help
) -> Offer:
    withheld = draft.stop_loops(helped=help.stops_loops)
    holds_calls = help.holds_calls and _may_hold_calls(request)
    # A server's tools may be meant that are not known yet. The request is converted again when they are.
    choice = provisional_choice(request.tool_choice, box) if box.unlisted else request.tool_choice
    offer = choice_to_offer(choice, box, dialect, definitions, holds_calls=holds_calls)
    return offer_without(offer, withheld, box.own_names(offer.names)) if withheld else offer


def _may_hold_calls(request: CreateResponse) -> bool:
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
    names = {name: schemas.get(name) for name in (*offered, *box.own_names(offered), *offer.withheld)}
    if say is not None:
        return lambda: ConstrainedCall(offer.names, say=say, otherwise=SaidCalls(names, say))
    return lambda: TextCalls(names) if names else None
