"""The response object at the start of a response."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from antiphon.core.request_fields import conversation_of, or_unset, wants_summary
from antiphon.core.sampling import ENGINE_DEFAULT, Sampling, with_sampling
from antiphon.core.tool_choice import choice_to_echo
from antiphon.wire.responses import CreateResponse, Response, TextFormat, TextOptions


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
    return Response(
        id=response_id,
        created_at=now,
        status="queued" if request.background else "in_progress",
        background=bool(request.background),
        model=model,
        instructions=request.instructions,
        max_tool_calls=request.max_tool_calls,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        frequency_penalty=_default(request.frequency_penalty, 0.0),
        presence_penalty=_default(request.presence_penalty, 0.0),
        top_logprobs=_default(request.top_logprobs, 0),
        truncation=_default(request.truncation, "disabled"),
        previous_response_id=request.previous_response_id,
        conversation=UNSET if (conversation := conversation_of(request)) is None else {"id": conversation},
        store=request.store is not False,
        service_tier="default" if request.service_tier in (None, "auto") else request.service_tier,
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_retention=or_unset(request.prompt_cache_retention and request.prompt_cache_retention.replace("-", "_")),
        user=or_unset(request.user),
        safety_identifier=request.safety_identifier,
        metadata=_default(request.metadata, {}),
        reasoning=_reasoning_to_echo(request),
        text=_text_to_echo(request.text or TextOptions()),
        tools=list(tools),
        tool_choice=choice_to_echo(request.tool_choice),
        **sampling_to_echo(request, sampling),
    )


def sampling_to_echo(request: CreateResponse, sampling: Sampling) -> dict[str, Any]:
    """The fields of the response that depend on which model answers: what is really used."""
    used = with_sampling(request, sampling)
    return {
        "max_output_tokens": used.max_output_tokens,
        "temperature": _default(used.temperature, 1.0),
        "top_p": _default(used.top_p, 1.0),
    }


def _default(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _reasoning_to_echo(request: CreateResponse) -> dict[str, str | None] | None:
    asked = request.reasoning
    return None if asked is None else {"effort": asked.effort, "summary": wants_summary(request)}


def _text_to_echo(text: TextOptions) -> dict[str, Any]:
    format = text.format or TextFormat()
    echo: dict[str, Any] = {"format": {"type": format.type}}
    if format.type == "json_schema":
        described = {} if format.description is None else {"description": format.description}
        echo["format"] |= {"name": format.name, **described, "schema": format.schema, "strict": bool(format.strict)}
    if text.verbosity is not None:
        echo["verbosity"] = text.verbosity
    return echo
