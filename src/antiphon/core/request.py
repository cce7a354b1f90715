"""Responses request → chat request. A pure function of the request and the dialect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, structs

from antiphon.core.call_schema import functions_to_response_format
from antiphon.core.check_work import DocumentWork
from antiphon.core.checks import Checks, Definition, format_to_schema, offer_to_requirements, takes_format
from antiphon.core.constraints import begin_answer, constrain, constrains, is_constrained, stop_thinking
from antiphon.core.dialect import Dialect
from antiphon.core.documents import Documents
from antiphon.core.draft import ChatDraft
from antiphon.core.easier_tools.adaptations import offer_easier_tools
from antiphon.core.efforts import NO_EFFORT
from antiphon.core.enforcement import Rejection
from antiphon.core.help import NO_HELP, Help
from antiphon.core.input_items import items_to_draft, tools_in_items
from antiphon.core.loops import offer_without, withheld_to_notices
from antiphon.core.request_fields import LOGPROBS, dropped_fields_to_notices, or_unset, refuse_unsupported
from antiphon.core.requirements import Requirements
from antiphon.core.rounds import rejection_to_turns
from antiphon.core.sampling import ENGINE_DEFAULT, Sampling, sampling_of_answer, with_sampling
from antiphon.core.sealed_text import NO_SEALER, Sealer
from antiphon.core.text_calls import CallFinder, ConstrainedCall, TextCalls
from antiphon.core.tool_choice import Offer, choice_to_offer
from antiphon.core.tool_words import must_call, tools_to_words
from antiphon.core.tools import DEFINITIONS, Define, Grammar, Toolbox, tools_to_box
from antiphon.core.turns import AssistantTurn
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatRequest, StreamOptions
from antiphon.wire.responses import CreateResponse, TextFormat, TextOptions

VERBOSITY = {
    "low": "Keep your answers short: only what was asked for.",
    "medium": "",
    "high": "Answer at length, with explanations and details.",
}


UNSEEN_IMAGES = "images were sent, but the model may not see them: its engine says so, or has accepted one and ignored it"


@dataclass(frozen=True, slots=True)
class Conversion:
    chat: ChatRequest
    dialect: Dialect
    notices: tuple[str, ...]
    box: Toolbox
    requirements: Requirements
    offer: Offer
    # The schemas and grammars that the checks are made of.
    definitions: tuple[Definition, ...]
    # The documents that have to be read before it can be sent.
    unread: tuple[DocumentWork, ...]
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
    complaint_about: Callable[[bytes | Grammar], str | None] = lambda definition: None,
    documents: Documents | None = None,
    rounds: Sequence[AssistantTurn] = (),
    rejection: Rejection | None = None,
    help: Help = NO_HELP,
    sampling: Sampling = ENGINE_DEFAULT,
) -> Conversion:
    """`earlier`: how many of the items were stored, and not sent with this request. `complaint_about`: why a
    schema or grammar is known not to compile. `documents`: what is known of the documents in the items.
    `rounds`, `rejection`: what has become of the response so far. `help`: what a small model gets.
    `sampling`: how this model's tokens are chosen where the request does not say."""
    refuse_unsupported(request)
    box = tools_to_box(request.tools or (), tools_in_items(items, earlier=earlier), tool_definitions)
    if help.easier_tools:
        offer_easier_tools(box, help.reason)
    documents = documents or Documents()
    draft = items_to_draft(items, box.as_called, sealer.open, documents=documents, earlier=earlier)
    compacts = any(item.get("type") == "compaction_trigger" for item in items[max(0, earlier) :])
    if compacts:
        # The format and the tools are those of answers. A summary is neither a call nor JSON.
        request = structs.replace(request, text=None, tool_choice="none")
    # A choice of "none" changes nothing: it may be that of the last round only.
    sampling = sampling_of_answer(sampling, request, has_tools=bool(box.functions) and not compacts, compacts=compacts)
    request = with_sampling(request, sampling)
    for called in rounds:
        draft.add(called)
    withheld = draft.stop_loops() if help.stops_loops else {}
    holds_calls = help.holds_calls and _may_hold_calls(request)
    offer = choice_to_offer(request.tool_choice, box, dialect, tool_definitions, holds_calls=holds_calls)
    offer = offer_without(offer, withheld, box.own_names(offer.names))
    checks = Checks(complaint_about)
    requirements = offer_to_requirements(request, offer, box, dialect, checks, compacts=compacts, check_grammars=check_grammars)
    for turn in rejection_to_turns(rejection, requirements, helped=help.stops_loops) if rejection is not None else ():
        draft.add(turn)
    chat = _chat(request, model, draft, offer, box, requirements, dialect)
    notices = [
        *dropped_fields_to_notices(request),
        *draft.notices,
        *documents.notices,
        *box.notices,
        *withheld_to_notices(offer),
        *_unreadable_to_notices(checks.definitions, complaint_about),
    ]
    logprobs = _logprobs(request, chat, dialect, notices)
    if not dialect.shows_images and _has_images(chat):
        notices.append(UNSEEN_IMAGES)
    _effort(request, chat, dialect, notices)
    _add_extra(chat, dialect)
    _constrain(request, chat, offer, box, dialect)
    _add_free_extra(chat, sampling)
    _note_lost_effort(request, chat, dialect, notices)
    return Conversion(
        chat,
        dialect,
        tuple(notices),
        box,
        requirements,
        offer,
        tuple(checks.definitions),
        tuple(documents.unread),
        _finder(offer, box),
        logprobs,
        compacts,
        sampling,
    )


def _chat(
    request: CreateResponse,
    model: str,
    draft: ChatDraft,
    offer: Offer,
    box: Toolbox,
    requirements: Requirements,
    dialect: Dialect,
) -> ChatRequest:
    text = request.text or TextOptions()
    chat = ChatRequest(
        model=model,
        messages=draft.messages(dialect, head=request.instructions or "", tail=_own_words(text, offer, dialect)),
        temperature=or_unset(request.temperature),
        top_p=or_unset(request.top_p),
        presence_penalty=or_unset(request.presence_penalty),
        frequency_penalty=or_unset(request.frequency_penalty),
        stop=or_unset(request.stop),
        seed=or_unset(request.seed),
        user=or_unset(request.user),
        stream_options=StreamOptions() if dialect.takes_stream_options else UNSET,
    )
    if offer.tools and not offer.in_words:
        chat.tools = offer.shown
        chat.tool_choice = offer.choice
        chat.parallel_tool_calls = requirements.parallel and requirements.most_calls != 1
    if dialect.cache_key_member is not None and request.prompt_cache_key:
        setattr(chat, dialect.cache_key_member, request.prompt_cache_key)
    if request.max_output_tokens is not None:
        setattr(chat, dialect.max_tokens_member, request.max_output_tokens)
    return chat


def _may_hold_calls(request: CreateResponse) -> bool:
    """Not where something is asked of the text itself, which would be about the JSON around it: a format, the probabilities of
    its tokens, the words that end it."""
    has_format = request.text is not None and format_to_schema(request.text.format) is not None
    return not has_format and not request.stop and not _wants_logprobs(request)


def _unreadable_to_notices(
    definitions: Iterable[Definition], complaint_about: Callable[[bytes | Grammar], str | None]
) -> Iterable[str]:
    for definition in definitions:
        reason = complaint_about(definition.definition)
        if reason is not None and definition.required:
            code = "invalid_json_schema" if definition.where.startswith("text.") else "invalid_function_parameters"
            raise InvalidRequest(
                f"Invalid `{definition.where}`: not a JSON schema: {reason}.", param=definition.where, code=code
            )
        if reason is not None:
            yield f"{definition.notice}: {reason}"


def _finder(offer: Offer, box: Toolbox) -> Callable[[], CallFinder | None]:
    say = offer.say.name if offer.say is not None else None
    if offer.constrained and say is None:
        return lambda: ConstrainedCall(offer.names)
    schemas = {tool.function.name: tool.function.parameters for tool in offer.tools}
    offered = offer.only or tuple(schemas)
    # A call that may not be made is a call all the same: it is asked for again, and not shown as text.
    names = {name: schemas.get(name) for name in (*offered, *box.own_names(offered), *offer.withheld)}
    if say is not None:
        return lambda: ConstrainedCall(offer.names, say=say, otherwise=TextCalls(names))
    return lambda: TextCalls(names) if names else None


def chat_to_bytes(chat: ChatRequest) -> bytes:
    """The body of POST /v1/chat/completions."""
    return msgspec.json.encode(chat)


def _constrain(request: CreateResponse, chat: ChatRequest, offer: Offer, box: Toolbox, dialect: Dialect) -> None:
    """Last, because it may replace what the request says."""
    if not dialect.thinks:
        stop_thinking(chat, dialect)
    if (format := _response_format(request, offer, box, dialect)) is not None:
        constrain(chat, format, dialect)
    begin_answer(chat, dialect)


def _note_lost_effort(request: CreateResponse, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> None:
    """A constraint may leave no room for a thought."""
    effort = request.reasoning.effort if request.reasoning else None
    stopped = dialect.no_thinking.get("reasoning_effort", NO_EFFORT)
    if effort not in (None, NO_EFFORT) and chat.grammar is not UNSET and chat.reasoning_effort == stopped:
        notices.append(f"reasoning effort {effort} was left out: this engine constrains an answer without a thought")


def _response_format(request: CreateResponse, offer: Offer, box: Toolbox, dialect: Dialect) -> dict[str, Any] | None:
    if offer.constrained:
        functions = [box.functions[name].function for name in offer.names]
        return functions_to_response_format([*functions, offer.say] if offer.say is not None else functions)
    # An answer that must be a call has no format.
    if not takes_format(offer, dialect) or offer.must_call:
        return None
    return _format_to_chat(request.text.format if request.text else None)


def _format_to_chat(format: TextFormat | None) -> dict[str, Any] | None:
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": format.name, "schema": format.schema}
    if format.description is not None:
        schema["description"] = format.description
    if format.strict is not None:
        schema["strict"] = format.strict
    return {"type": "json_schema", "json_schema": schema}


def _own_words(text: TextOptions, offer: Offer, dialect: Dialect) -> list[str]:
    """What Antiphon adds to the instructions."""
    return [
        VERBOSITY[text.verbosity or "medium"],
        tools_to_words(offer.shown) if offer.in_words else "",
        must_call(offer.only or ()) if offer.prompted else "",
        "" if offer.must_call else _shown_schema(text.format, dialect, constrained=takes_format(offer, dialect)),
    ]


def _shown_schema(format: TextFormat | None, dialect: Dialect, *, constrained: bool) -> str:
    """Engines constrain the answer to a schema without showing it to the model, which then has to guess its meaning."""
    if format is None or format.type == "text" or (constrained and dialect.shows_schema):
        return ""
    if format.type == "json_object":
        return "" if constrained and constrains(dialect) else "Answer with one JSON object, and with nothing else."
    schema = msgspec.json.encode(format.schema).decode()
    return f"Answer with one JSON object that follows this JSON schema, and with nothing else:\n{schema}"


def _logprobs(request: CreateResponse, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> bool:
    if not _wants_logprobs(request):
        return False
    if chat.tools is not UNSET and not dialect.takes_logprobs_with_tools:
        notices.append("logprobs were left out: this engine does not return them together with tools")
        return False
    chat.logprobs = True
    # A number of 0 is left out: to some engines it means that none at all are wanted.
    chat.top_logprobs = request.top_logprobs or UNSET
    return True


def _wants_logprobs(request: CreateResponse) -> bool:
    return bool(request.top_logprobs) or LOGPROBS in (request.include or ())


def _has_images(chat: ChatRequest) -> bool:
    parts = [part for message in chat.messages if isinstance(message.content, list) for part in message.content]
    return any(part.get("type") == "image_url" for part in parts)


def _effort(request: CreateResponse, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> None:
    effort = request.reasoning.effort if request.reasoning else None
    if effort is None:
        return
    if not dialect.thinks:
        # The least that is accepted, where "none" is not. The effort counted for the answer before this one.
        chat.reasoning_effort = dialect.efforts.get(NO_EFFORT) or UNSET
        return
    # Not an error if it is not known: Codex has more of them than the API, and lets its user add others.
    sent = dialect.efforts.get(effort) or dialect.efforts.get("medium")
    if sent is None:
        notices.append(f"reasoning effort {effort} was left out: no effort is accepted for this model")
        return
    if sent != effort:
        notices.append(f"reasoning effort {effort} was sent as {sent}")
    chat.reasoning_effort = sent


def _add_extra(chat: ChatRequest, dialect: Dialect) -> None:
    for name, value in (dialect.extra if dialect.parses_answers else dialect.unparsed_extra).items():
        setattr(chat, name, value)


def _add_free_extra(chat: ChatRequest, sampling: Sampling) -> None:
    if not is_constrained(chat):
        for name, value in sampling.free_extra.items():
            setattr(chat, name, value)
