"""How the tokens of an answer are chosen where the request does not say: data of a model, not of an engine."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, structs

from antiphon.wire.responses import CreateResponse


class Sampling(Struct, frozen=True):
    """The values of one model. None: the engine's own counts."""

    temperature: float | None = None
    top_p: float | None = None
    # The longest answer of a request that does not ask for a length, in tokens. It does not count where tools are offered: an
    # answer that is cut off ends an agent's turn.
    most_tokens: int | None = None
    # Fields of the engine that are sent where neither tools nor a schema are.
    free_extra: Mapping[str, Any] = field(default_factory=dict)


NO_EXTRA: Mapping[str, Any] = {}
# What the engine does by itself.
ENGINE_DEFAULT = Sampling()


def sampling_of_answer(sampling: Sampling, request: CreateResponse, *, has_tools: bool, compacts: bool) -> Sampling:
    """The part of a model's sampling that counts for an answer. `has_tools`: the answer may be a call, now or in another round.
    `compacts`: the answer is a summary, whose length is that of what it replaces."""
    format = request.text.format if request.text else None
    is_text = not has_tools and (format is None or format.type == "text")
    most_tokens = None if has_tools or compacts else sampling.most_tokens
    free_extra = sampling.free_extra if is_text else NO_EXTRA
    if most_tokens == sampling.most_tokens and free_extra == sampling.free_extra:
        return sampling
    return structs.replace(sampling, most_tokens=most_tokens, free_extra=free_extra)


def is_capped(request: CreateResponse, sampling: Sampling) -> bool:
    """The length of the answer is limited by the model's sampling, not by the request."""
    return request.max_output_tokens is None and sampling.most_tokens is not None


def with_sampling(request: CreateResponse, sampling: Sampling) -> CreateResponse:
    """The request with the model's values where it has none of its own."""
    if sampling.temperature is None and sampling.top_p is None and sampling.most_tokens is None:
        return request

    def own(value: Any, otherwise: Any) -> Any:
        return otherwise if value is None else value

    return structs.replace(
        request,
        temperature=own(request.temperature, sampling.temperature),
        top_p=own(request.top_p, sampling.top_p),
        max_output_tokens=own(request.max_output_tokens, sampling.most_tokens),
    )
