"""The fields of a request: what happens to each, what is refused, and what is read from it in more than one place."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from antiphon.errors import InvalidRequest, quoted
from antiphon.wire import hosted_items
from antiphon.wire.responses import CreateResponse, TextFormat

# What happens to each field of the request. A field that is not listed is not part of the API: dropped with a notice.
#   sent     the engine gets it, mapped where necessary
#   used     Antiphon itself acts on it
#   echoed   means nothing to a local engine; the response repeats it
#   ignored  concerns the client only
#   dropped  part of the API, but without effect here: left out, with a notice
#   refused  a 400 if it is set: it cannot be done
FIELDS: dict[str, str] = {
    "model": "sent",
    "input": "sent",
    "instructions": "sent",
    "tools": "sent",
    "tool_choice": "sent",
    "parallel_tool_calls": "sent",
    "text": "sent",
    "reasoning": "sent",
    "max_output_tokens": "sent",
    "temperature": "sent",
    "top_p": "sent",
    "presence_penalty": "sent",
    "frequency_penalty": "sent",
    "top_logprobs": "sent",
    "stop": "sent",
    "seed": "sent",
    "user": "sent",
    "max_tool_calls": "used",
    "include": "used",
    "stream": "used",
    "stream_options": "used",
    "generate": "used",
    "prompt_cache_key": "used",
    "store": "used",
    "truncation": "used",
    "context_management": "used",
    "previous_response_id": "used",
    "conversation": "used",
    "background": "used",
    "metadata": "echoed",
    "service_tier": "echoed",
    "safety_identifier": "echoed",
    "prompt_cache_retention": "echoed",
    "client_metadata": "ignored",
    "prompt_cache_options": "dropped",
    "access_programs": "dropped",
    "image": "dropped",
    # A client that asks for it relies on it.
    "moderation": "refused",
    "prompt": "refused",
}

REFUSED = tuple(name for name, policy in FIELDS.items() if policy == "refused")
DROPPED = tuple(name for name, policy in FIELDS.items() if policy == "dropped")
_refused = attrgetter(*REFUSED)
_dropped = attrgetter(*DROPPED)
NOTHING_DROPPED = (None,) * len(DROPPED)

LOGPROBS = "message.output_text.logprobs"
SEALED_REASONING = "reasoning.encrypted_content"
INCLUDABLE = frozenset(
    {
        LOGPROBS,
        SEALED_REASONING,
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        *hosted_items.INCLUDABLE,
    }
)


def refuse_unsupported(request: CreateResponse) -> None:
    for name, value in zip(REFUSED, _refused(request), strict=True):
        if value:
            raise InvalidRequest(
                f"Unsupported parameter: `{name}` cannot be used here.", param=name, code="unsupported_parameter"
            )
    if request.text is not None:
        _refuse_unnamed(request.text.format)
    if request.include:
        refuse_unknown_includes(request.include)
    if request.context_management:
        _refuse_unknown_management(request)


def refuse_unknown_includes(names: Iterable[str]) -> None:
    for at, name in enumerate(names):
        if name not in INCLUDABLE:
            raise InvalidRequest(
                f"Invalid `include[{at}]`: {quoted(name)} must be one of: {', '.join(sorted(INCLUDABLE))}.",
                param=f"include[{at}]",
                code="invalid_value",
            )


def _refuse_unknown_management(request: CreateResponse) -> None:
    for at, entry in enumerate(request.context_management or ()):
        if entry.type != "compaction":
            where = f"context_management[{at}].type"
            raise InvalidRequest(
                f"Invalid `{where}`: {quoted(entry.type)} must be one of: compaction.", param=where, code="invalid_value"
            )


def _refuse_unnamed(format: TextFormat | None) -> None:
    if format is not None and format.type == "json_schema" and (not format.name or format.schema is None):
        missing = "schema" if format.name else "name"
        raise InvalidRequest(
            f"Missing required parameter: `text.format.{missing}`, because the type is json_schema.",
            param=f"text.format.{missing}",
            code="missing_required_parameter",
        )


def dropped_fields_to_notices(request: CreateResponse) -> list[str]:
    values = _dropped(request)
    if values == NOTHING_DROPPED and request.reasoning is None:
        return []
    dropped = [name for name, value in zip(DROPPED, values, strict=True) if value is not None]
    if (reasoning := request.reasoning) is not None:
        # Here all turns are sent, and each model has one mode.
        if reasoning.context == "current_turn":
            dropped.append("reasoning.context")
        if reasoning.mode not in (None, "standard"):
            dropped.append("reasoning.mode")
    return [f"field {name} has no effect here and was left out" for name in dropped]


# ---- what is read from it ------------------------------------------------------------------------------------------


def conversation_of(request: CreateResponse) -> str | None:
    given = request.conversation
    if given is None or isinstance(given, str):
        return given or None
    id = given.get("id")
    if not isinstance(id, str):
        code = "missing_required_parameter" if id is None else "invalid_type"
        raise InvalidRequest("Invalid `conversation.id`: it must be a string.", param="conversation.id", code=code)
    return id


def request_to_items(request: CreateResponse) -> list[dict[str, Any]]:
    if isinstance(request.input, str):
        return [{"type": "message", "role": "user", "content": request.input}]
    return request.input or []


def wants_summary(request: CreateResponse) -> str | None:
    """`generate_summary` is the older name of `reasoning.summary`."""
    asked = request.reasoning
    return None if asked is None else asked.summary or asked.generate_summary
