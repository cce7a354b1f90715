"""The question after an answer that will not do: what was wrong, and where the engine can be held to it, a constraint."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from antiphon.core.call_schema import functions_to_response_format
from antiphon.core.draft import AssistantTurn, Call
from antiphon.core.faults import Refusal
from antiphon.core.request import Conversion
from antiphon.core.text_calls import ConstrainedCall
from antiphon.core.tool_words import must_call
from antiphon.wire.chat import ChatMessage

BAD_CALL = "This call was not carried out: {complaint}. Mend it, and call the tool again."
BAD_ANSWER = "This answer cannot be used: {complaint}. Answer again, with nothing but JSON that follows the schema."


def refusal_to_conversion(conversion: Conversion, refusal: Refusal) -> Conversion:
    """The same request with one more exchange at its end."""
    chat = structs.replace(conversion.chat, messages=[*conversion.chat.messages, *_exchange(conversion, refusal)])
    names = _names_to_call(conversion, refusal)
    if not names or not conversion.dialect.constrains_json:
        return replace(conversion, chat=chat)
    functions = [conversion.box.functions[name].function for name in names]
    constraint = functions_to_response_format(functions)
    chat = structs.replace(chat, response_format=constraint, **conversion.dialect.constrained_extra)
    if not isinstance(chat.tool_choice, str):
        chat.tool_choice = "auto"
    return replace(conversion, chat=chat, finder=lambda: ConstrainedCall(names))


def _exchange(conversion: Conversion, refusal: Refusal) -> list[ChatMessage]:
    call, dialect = refusal.call, conversion.dialect
    if call is not None:
        complaint = BAD_CALL.format(complaint=refusal.complaint)
        made = Call(call.call_id, call.name, call.arguments, texts=[complaint], answered=True)
        return list(AssistantTurn(calls=[made]).messages(dialect))
    said = [ChatMessage(role="assistant", content=refusal.words)] if refusal.words else []
    if conversion.demands.must_call:
        words = must_call(sorted(conversion.demands.only or ()))
    else:
        words = BAD_ANSWER.format(complaint=refusal.complaint)
    return [*said, ChatMessage(role="user", content=words)]


def _names_to_call(conversion: Conversion, refusal: Refusal) -> Sequence[str]:
    """The tools of which one has to be called now; none where a call is not what was wrong, or not for certain."""
    demands, call = conversion.demands, refusal.call
    if call is None:
        return sorted(demands.only or ()) if demands.must_call else ()
    check = call.check
    if check is not None and check.binding and call.name in conversion.box.functions:
        return (call.name,)
    return sorted(demands.only or ()) if demands.must_call else ()
