"""Calls that an earlier attempt at the same response had begun, and that must not be made a second time unnoticed.

A gateway that dies leaves a background response that another one begins again. Calls whose tool has an effect of its own may
have had it already. The model is asked anew, and may word the same call in another way: so each earlier call stands against one
call of its tool, and against every equal one.
"""

from collections.abc import Iterable

from antiphon.arguments import canonical_arguments, object_arguments
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.tools import ToolResult

MAY_HAVE_RUN = (
    "This call was not run. The work on this answer was interrupted before, when a call of the same tool had begun, with the "
    "arguments {arguments}. It may have run already. Find out whether it did, if you can, or say so in your answer."
)
NOTICE = "a call of {name} was not run: before the gateway was restarted such a call had begun, and it may have run already"


class EarlierCalls:
    def __init__(self, begun: Iterable[ToolCall] = ()) -> None:
        # Each once: one may have been noted twice.
        self._begun = list(dict.fromkeys(begun))
        # Those that no call of this attempt has stood for.
        self._unmatched = list(self._begun)

    def refusal_of(self, call: ToolCall) -> ToolResult | None:
        """What the model is told in place of a result; None: the call may be run."""
        tool = _tool(call)
        same = next((each for each in self._begun if _tool(each) == tool and _action(each) == _action(call)), None)
        found = same or next((each for each in self._unmatched if _tool(each) == tool), None)
        if found is None:
            return None
        if found in self._unmatched:
            self._unmatched.remove(found)
        words = MAY_HAVE_RUN.format(arguments=found.arguments)
        return ToolResult(words, failed=True, notice=NOTICE.format(name=call.name))


def _tool(call: ToolCall) -> tuple[str, str | None, str]:
    return call.kind, call.namespace, call.name


def _action(call: ToolCall) -> bytes:
    return canonical_arguments(object_arguments(call.arguments))
