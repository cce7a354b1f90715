"""The question after an answer that was rejected: a constraint where the engine supports one."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from antiphon.core.call_schema import functions_to_response_format
from antiphon.core.enforcement import Rejection
from antiphon.core.request import Conversion
from antiphon.core.text_calls import ConstrainedCall


def rejection_to_conversion(conversion: Conversion, rejection: Rejection) -> Conversion:
    """The same request, with a constraint for what was wrong."""
    names = _names_to_call(conversion, rejection)
    if not names or not conversion.dialect.constrains_json:
        return conversion
    functions = [conversion.box.functions[name].function for name in names]
    constraint = functions_to_response_format(functions)
    chat = structs.replace(conversion.chat, response_format=constraint, **conversion.dialect.constrained_extra)
    if not isinstance(chat.tool_choice, str):
        chat.tool_choice = "auto"
    return replace(conversion, chat=chat, finder=lambda: ConstrainedCall(names))


def _names_to_call(conversion: Conversion, rejection: Rejection) -> Sequence[str]:
    """The tools of which one must be called now; none where the call itself may not have been what was wrong."""
    requirements, call = conversion.requirements, rejection.call
    if call is None:
        return sorted(requirements.only or ()) if requirements.must_call else ()
    check = call.check
    if check is not None and check.binding and call.name in conversion.box.functions:
        return (call.name,)
    return sorted(requirements.only or ()) if requirements.must_call else ()
