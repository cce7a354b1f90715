"""The question after an answer that was rejected: a constraint where the engine supports one."""

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


def rejection_to_conversion(conversion: Conversion, rejection: Rejection) -> Conversion:
    """The same request, with a constraint for what was wrong."""
    chat = structs.replace(conversion.chat)
    dialect = conversion.dialect
    if not constrains(dialect) or (rejection.call is None and _is_enforced(conversion)):
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


def _is_enforced(conversion: Conversion) -> bool:
    """The engine makes sure of the call. If none came, a thought took its place, and there is none now."""
    dialect, choice = conversion.dialect, conversion.chat.tool_choice
    return dialect.enforces_named if isinstance(choice, dict) else dialect.enforces_required and choice == "required"


def _names_to_call(conversion: Conversion, rejection: Rejection) -> Sequence[str]:
    """The tools of which one must be called now; none where the call itself may not have been what was wrong."""
    requirements, call = conversion.requirements, rejection.call
    if call is None:
        return sorted(requirements.only or ()) if requirements.must_call else ()
    check = call.check
    if check is not None and check.binding and call.name in conversion.box.functions:
        return (call.name,)
    return sorted(requirements.only or ()) if requirements.must_call else ()
