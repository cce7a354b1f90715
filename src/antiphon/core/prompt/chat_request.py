"""The chat request itself: its messages, and every field that the request, the tools and the dialect ask for."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from antiphon.core.checks.constraints import (
    begin_answer,
    constrain,
    constrains,
    functions_to_response_format,
    is_constrained,
    stop_thinking,
)
from antiphon.core.knowledge.dialect import NO_EFFORT, Dialect
from antiphon.core.knowledge.help import Sampling
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.protocols.responses.fields import LOGPROBS
from antiphon.core.toolbox.choice import Offer
from antiphon.core.toolbox.prompt_texts import must_call, tools_to_text
from antiphon.core.toolbox.requirements import Requirements, takes_format
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.wire.chat import ChatRequest, StreamOptions
from antiphon.wire.responses import Beyond, CreateResponse, ReasoningOptions, TextFormat, TextOptions

VERBOSITY = {
    "low": "Keep your answers short: only what was asked for.",
    "medium": "",
    "high": "Answer at length, with explanations and details.",
}

# The fields that an engine gets as they are, if they are given.
SENT_AS_GIVEN = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "stop", "seed", "user")
_sent_as_given = attrgetter(*SENT_AS_GIVEN)
# Of most requests.
NOTHING_SENT = (None,) * len(SENT_AS_GIVEN)
# The same in every request. Nothing changes them.
NO_OPTIONS = TextOptions()
WITH_USAGE = StreamOptions()

NO_TOP_K = "field top_k was left out: this engine does not take it"
UNSEEN_IMAGES = "images were sent, but the model may not see them: its engine says so, or has accepted one and ignored it"


class MadeChat(NamedTuple):
    chat: ChatRequest
    # The probabilities of its tokens are asked for.
    logprobs: bool
    notices: list[str]


def make_chat(
    request: CreateResponse,
    model: str,
    draft: ChatDraft,
    offer: Offer,
    box: Toolbox,
    requirements: Requirements,
    dialect: Dialect,
    sampling: Sampling,
) -> MadeChat:
    chat = _chat(request, model, draft, offer, requirements, dialect)
    notices: list[str] = []
    wants = bool(request.top_logprobs or request.include) and wants_logprobs(request)
    logprobs = wants and _logprobs(request, chat, dialect, notices)
    if not dialect.shows_images and _has_images(chat):
        notices.append(UNSEEN_IMAGES)
    if request.reasoning is not None:
        _effort(request.reasoning, chat, dialect, notices)
    for name, value in (dialect.extra if dialect.parses_answers else dialect.unparsed_extra).items():
        setattr(chat, name, value)
    if not dialect.thinks or dialect.spells_prefix or offer.constrained or request.text is not None:
        _constrain(request, chat, offer, box, dialect)
    if sampling.free_extra:
        _add_free_extra(chat, sampling)
    if request.reasoning is not None:
        _note_lost_effort(request.reasoning, chat, dialect, notices)
    if request.beyond is not None:
        _beyond(request.beyond, chat, dialect, notices)
    return MadeChat(chat, logprobs, notices)


def _chat(
    request: CreateResponse,
    model: str,
    draft: ChatDraft,
    offer: Offer,
    requirements: Requirements,
    dialect: Dialect,
) -> ChatRequest:
    tail = _own_words(request.text or NO_OPTIONS, offer, dialect) if request.text is not None or offer.tools else []
    chat = ChatRequest(
        model=model,
        messages=draft.messages(dialect, head=request.instructions or "", tail=tail),
        stream_options=WITH_USAGE if dialect.takes_stream_options else UNSET,
    )
    if (given := _sent_as_given(request)) != NOTHING_SENT:
        for name, value in zip(SENT_AS_GIVEN, given, strict=True):
            if value is not None:
                setattr(chat, name, value)
    if offer.tools and not offer.in_words:
        chat.tools = offer.shown
        chat.tool_choice = offer.choice
        chat.parallel_tool_calls = requirements.parallel
    if request.beyond is not None and request.beyond.engine_fields:
        _add_engine_fields(chat, request.beyond.engine_fields)
    if dialect.cache_key_member is not None and request.prompt_cache_key:
        setattr(chat, dialect.cache_key_member, request.prompt_cache_key)
    if request.max_output_tokens is not None:
        setattr(chat, dialect.max_tokens_member, request.max_output_tokens)
    return chat


# The fields of a chat request that a client may set beside those of the hub format. What the dialect needs replaces them.
ENGINES_OWN = frozenset({*ChatRequest.__struct_fields__} - {"extras"})
TEMPLATE_ARGUMENTS = "chat_template_kwargs"


def _add_engine_fields(chat: ChatRequest, fields: Mapping[str, Any]) -> None:
    extras = {name: value for name, value in fields.items() if name not in ENGINES_OWN}
    for name in fields.keys() - extras.keys():
        if getattr(chat, name) is UNSET:
            setattr(chat, name, fields[name])
    if extras:
        chat.extras = extras


def _beyond(beyond: Beyond, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> None:
    if beyond.engine_fields:
        _join_template_arguments(chat, beyond.engine_fields)
    if beyond.top_k and dialect.takes_top_k:
        chat.top_k = beyond.top_k
    elif beyond.top_k:
        notices.append(NO_TOP_K)


def _join_template_arguments(chat: ChatRequest, fields: Mapping[str, Any]) -> None:
    """Those of the client, beside what the gateway has set since."""
    given, made = fields.get(TEMPLATE_ARGUMENTS), chat.chat_template_kwargs
    if isinstance(given, dict) and isinstance(made, dict):
        chat.chat_template_kwargs = {**given, **made}


def _own_words(text: TextOptions, offer: Offer, dialect: Dialect) -> list[str]:
    """What Antiphon adds to the instructions."""
    return [
        VERBOSITY[text.verbosity or "medium"],
        tools_to_text(offer.shown) if offer.in_words else "",
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


# ---- fields that not every request has -------------------------------------------------------------------------------


def _logprobs(request: CreateResponse, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> bool:
    """Whether they are asked for."""
    if chat.tools is not UNSET and not dialect.takes_logprobs_with_tools:
        notices.append("logprobs were left out: this engine does not return them together with tools")
        return False
    chat.logprobs = True
    # A number of 0 is left out: to some engines it means that none at all are wanted.
    chat.top_logprobs = request.top_logprobs or UNSET
    return True


def wants_logprobs(request: CreateResponse) -> bool:
    return bool(request.top_logprobs) or LOGPROBS in (request.include or ())


def _has_images(chat: ChatRequest) -> bool:
    parts = [part for message in chat.messages if isinstance(message.content, list) for part in message.content]
    return any(part.get("type") == "image_url" for part in parts)


def _effort(reasoning: ReasoningOptions, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> None:
    effort = reasoning.effort
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


def _add_free_extra(chat: ChatRequest, sampling: Sampling) -> None:
    if not is_constrained(chat):
        for name, value in sampling.free_extra.items():
            setattr(chat, name, value)


# ---- a constrained answer --------------------------------------------------------------------------------------------


def _constrain(request: CreateResponse, chat: ChatRequest, offer: Offer, box: Toolbox, dialect: Dialect) -> None:
    """Last, because it may replace what the request says."""
    if not dialect.thinks:
        stop_thinking(chat, dialect)
    has_format = offer.constrained or request.text is not None
    if has_format and (format := _response_format(request, offer, box, dialect)) is not None:
        constrain(chat, format, dialect)
    if dialect.spells_prefix:
        begin_answer(chat, dialect)


def _response_format(request: CreateResponse, offer: Offer, box: Toolbox, dialect: Dialect) -> dict[str, Any] | None:
    if offer.constrained:
        functions = [box.offered.functions[name].function for name in offer.names]
        return functions_to_response_format(functions, offer.say, most=offer.most_calls)
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


def _note_lost_effort(reasoning: ReasoningOptions, chat: ChatRequest, dialect: Dialect, notices: list[str]) -> None:
    """A constraint may leave no room for a thought."""
    effort = reasoning.effort
    stopped = dialect.no_thinking.get("reasoning_effort", NO_EFFORT)
    if effort not in (None, NO_EFFORT) and chat.grammar is not UNSET and chat.reasoning_effort == stopped:
        notices.append(f"reasoning effort {effort} was left out: this engine constrains an answer without a thought")
