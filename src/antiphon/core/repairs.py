"""The question after an answer that was rejected: what was wrong, and a constraint where the engine supports one."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from msgspec import UNSET, structs

from antiphon.core.call_schema import functions_to_response_format
from antiphon.core.checks import SchemaCheck
from antiphon.core.constraints import constrain, constrains, schema_to_response_format
from antiphon.core.enforcement import Rejection
from antiphon.core.request import Conversion
from antiphon.core.text_calls import ConstrainedCall
from antiphon.core.tool_words import must_call
from antiphon.core.turns import AssistantTurn, Call
from antiphon.wire.chat import ChatMessage

BAD_CALL = "This call was not carried out: {complaint}. Correct it, and call the tool again."
BAD_ANSWER = "This answer cannot be used: {complaint}. Answer again, with nothing but JSON that follows the schema."


def rejection_to_conversion(conversion: Conversion, rejection: Rejection) -> Conversion:
    """The same request with the rejected answer and the complaint at its end."""
    chat = structs.replace(conversion.chat, messages=[*conversion.chat.messages, *_messages(conversion, rejection)])
    dialect = conversion.dialect
    if not constrains(dialect):
        return replace(conversion, chat=chat)
    if names := _names_to_call(conversion, rejection):
        functions = [conversion.box.functions[name].function for name in names]
        constrain(chat, functions_to_response_format(functions), dialect)
        return replace(conversion, chat=chat, finder=lambda: ConstrainedCall(names))
    check = conversion.requirements.answer
    if rejection.call is None and isinstance(check, SchemaCheck):
        # It was an answer, and no call: it is an answer now. The engine may not constrain one beside tools.
        if not dialect.constrains_json_with_tools and dialect.constraint_member == "response_format":
            chat.tools = chat.tool_choice = chat.parallel_tool_calls = UNSET
        constrain(chat, schema_to_response_format(msgspec.json.decode(check.definition)), dialect)
    return replace(conversion, chat=chat)


def _messages(conversion: Conversion, rejection: Rejection) -> list[ChatMessage]:
    call, dialect = rejection.call, conversion.dialect
    if call is not None:
        complaint = BAD_CALL.format(complaint=rejection.complaint)
        made = Call(call.call_id, call.name, call.arguments, texts=[complaint], answered=True)
        return list(AssistantTurn(calls=[made]).messages(dialect))
    said = [ChatMessage(role="assistant", content=rejection.words)] if rejection.words else []
    if conversion.requirements.must_call:
        words = must_call(sorted(conversion.requirements.only or ()))
    else:
        words = BAD_ANSWER.format(complaint=rejection.complaint)
    return [*said, ChatMessage(role="user", content=words)]


def _names_to_call(conversion: Conversion, rejection: Rejection) -> Sequence[str]:
    """The tools of which one must be called now; none where the call itself may not have been what was wrong."""
    requirements, call = conversion.requirements, rejection.call
    if call is None:
        return sorted(requirements.only or ()) if requirements.must_call else ()
    check = call.check
    if check is not None and check.binding and call.name in conversion.box.functions:
        return (call.name,)
    return sorted(requirements.only or ()) if requirements.must_call else ()
