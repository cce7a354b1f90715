"""Whether a conversation is to keep its tools in words, because it began so."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.engines.affinity import conversation_key
from antiphon.engines.upstream import Engine
from antiphon.wire.responses import CreateResponse


class ToolForm(NamedTuple):
    # The key of the conversation; None: nobody will ask for it.
    conversation: str | None = None
    # The numbers of the engines for which its tools are in words.
    in_words: tuple[int, ...] = ()


# Of nearly every request.
NO_FORM = ToolForm()


def form_of(
    engines: Sequence[Engine], model: str | None, request: CreateResponse, history: Sequence[Mapping[str, Any]], owner: str
) -> ToolForm:
    """`engines`: those that may be asked, for this model, or for the first of each if it is None."""
    for engine in engines:
        if engine.knowledge.has_two_forms:
            break
    else:
        return NO_FORM
    known = [(engine.knowledge, model or engine.knowledge.default_model) for engine in engines]
    conversation = conversation_key(request, history, owner)
    if not _is_continued([*history, *request_to_items(request)]):
        # Another one that began with the same words.
        for knowledge, name in known:
            knowledge.forms.forget(name, conversation)
        return ToolForm(conversation)
    kept = (at for at, (knowledge, name) in enumerate(known) if knowledge.forms.is_in_words(name, conversation))
    return ToolForm(conversation, tuple(kept))


def _is_continued(items: Sequence[Mapping[str, Any]]) -> bool:
    """There is something of the model in it."""
    return any(item.get("role") == "assistant" or item.get("type", "message") != "message" for item in items)
