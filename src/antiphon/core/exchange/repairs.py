"""The question after an answer that was rejected: a constraint where the engine supports one."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, structs

from antiphon.core.checks.constraints import (
    constrain,
    constrains,
    functions_to_response_format,
    say_function,
    schema_to_response_format,
)
from antiphon.core.items.calls import CallState
from antiphon.core.items.enforcement import Rejection
from antiphon.core.prompt.convert import Conversion
from antiphon.core.stream.repeated_prompts import WithoutRepeatedPrompts
from antiphon.core.stream.text_calls import AnswersByCall, CallFinder, ConstrainedCall
from antiphon.core.toolbox.requirements import Requirements, SchemaCheck
from antiphon.wire.chat import ChatFunction, ChatRequest


def rejection_to_conversion(conversion: Conversion, rejection: Rejection, *, helped: bool = False) -> Conversion:
    """The same request, with a constraint for what was wrong. `helped`: for a small model, a rejected call must be
    followed by a call, and an answer that only repeats our own words is not shown."""
    repaired = _constrained(conversion, rejection, helped=helped)
    if not helped:
        return repaired
    return structs.replace(repaired, finder=lambda: WithoutRepeatedPrompts(repaired.finder(), rejection.complaint))


def _constrained(conversion: Conversion, rejection: Rejection, *, helped: bool) -> Conversion:
    chat = structs.replace(conversion.chat)
    dialect = conversion.dialect
    if not constrains(dialect) or (rejection.call is None and _is_enforced(conversion)):
        _leave_out_withheld(chat, conversion.requirements)
        return structs.replace(conversion, chat=chat)
    names, say = _names_to_call(conversion, rejection, helped=helped), _say(conversion, rejection)
    # Of one tool that may not be called now, only words are left.
    if names or (say is not None and rejection.call is not None and _is_made(conversion, rejection.call)):
        functions = [conversion.box.offered.functions[name].function for name in names]
        constrain(chat, functions_to_response_format(functions, say), dialect)
        if say is not None and chat.tools is not UNSET:
            # An engine that reads calls would pass on those of our own function.
            chat.tool_choice = "none"
        return structs.replace(conversion, chat=chat, finder=lambda: _finder(functions, say))
    check = conversion.requirements.answer
    if rejection.call is None and isinstance(check, SchemaCheck):
        # It was an answer, and no call: it is an answer now. The engine may not constrain one beside tools.
        if not dialect.constrains_json_with_tools and dialect.constraint_member == "response_format":
            chat.tools = chat.tool_choice = chat.parallel_tool_calls = UNSET
        constrain(chat, schema_to_response_format(msgspec.json.decode(check.definition)), dialect)
    return structs.replace(conversion, chat=chat)


def _finder(functions: Sequence[ChatFunction], say: ChatFunction | None) -> CallFinder:
    offered = {function.name: function.parameters for function in functions}
    if say is None:
        return ConstrainedCall(offered)
    return ConstrainedCall(offered, say=say.name, otherwise=AnswersByCall(offered, say.name))


def _say(conversion: Conversion, rejection: Rejection) -> ChatFunction | None:
    """A model that made a call which it may not make may also answer in words."""
    required, call = conversion.requirements, rejection.call
    if required.must_call or call is None:
        return None
    if required.offered_as(call.name, call.arguments) and not _is_made(conversion, call):
        return None
    return conversion.offer.say or say_function(conversion.box.offered.functions)


def _is_made(conversion: Conversion, call: CallState) -> bool:
    """It has succeeded, and is not made again now."""
    return conversion.requirements.is_made(call.name, call.arguments)


def _is_enforced(conversion: Conversion) -> bool:
    """The engine makes sure of the call. If none came, a thought took its place, and there is none now."""
    dialect, choice = conversion.dialect, conversion.chat.tool_choice
    return dialect.enforces_named if isinstance(choice, dict) else dialect.enforces_required and choice == "required"


def _leave_out_withheld(chat: ChatRequest, requirements: Requirements) -> None:
    """A model that calls a tool once more although it may not does not see it any longer."""
    if requirements.withheld and chat.tools is not UNSET:
        chat.tools = [tool for tool in chat.tools if tool.function.name not in requirements.withheld]


def _names_to_call(conversion: Conversion, rejection: Rejection, *, helped: bool) -> Sequence[str]:
    """The tools of which one must be called now; none where the call itself may not have been what was wrong."""
    requirements, call = conversion.requirements, rejection.call
    allowed = sorted(requirements.only or ())
    if call is not None and _is_made(conversion, call):
        return [name for name in conversion.offer.names if name != call.name]
    if call is None:
        return allowed if requirements.must_call else ()
    is_wanted = helped or (call.check is not None and call.check.binding)
    offered = [name for name in requirements.offered_as(call.name, call.arguments) if name in conversion.box.offered.functions]
    if is_wanted and offered:
        return offered
    return allowed if requirements.must_call or helped else ()
