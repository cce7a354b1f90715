"""What the events of a response look like, by its request."""

from collections.abc import Mapping

from antiphon.compacted_text import KeptItems
from antiphon.core.events.event_style import NO_CONTAINERS, NOTHING_INCLUDED, EventStyle
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.question import Question
from antiphon.core.protocols.responses.fields import SEALED_REASONING, wants_summary
from antiphon.wire.responses import CreateResponse


def request_to_style(
    request: CreateResponse, question: Question, environment: Environment, containers: Mapping[str, str] = NO_CONTAINERS
) -> EventStyle:
    """`containers`: that its tools run code in, by their types."""
    options, conversion = request.stream_options, question.conversion
    padded = options is not None and options.include_obfuscation
    return EventStyle(
        summary=environment.always_summary or (request.reasoning is not None and wants_summary(request) is not None),
        logprobs=conversion.logprobs,
        top_logprobs=request.top_logprobs or 0,
        seal=environment.sealer.seal,
        # What is not stored is lost unless the client sends it back. Many clients do not know to ask for that.
        seals_reasoning=request.store is False or SEALED_REASONING in (request.include or ()),
        compacts=conversion.compacts,
        # Not before the end: how large its items are is known when the files in them have been read.
        kept=(lambda: question.window.to_kept(question.size_of)) if conversion.compacts else KeptItems,
        padding=environment.padding() if padded else None,
        reasoning_events=environment.reasoning_events,
        included=frozenset(request.include) if request.include else NOTHING_INCLUDED,
        containers=containers,
    )
