"""A tool that the gateway runs, as small as one can be: dice that always show their highest number."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.mcp.forms import McpForm, error_to_text
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.prompt.draft import ChatDraft
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.chat import ChatFunction
from antiphon.wire.events import CallEvent, Event
from antiphon.wire.responses import Status

DICE = {"type": "dice"}


class DiceCall(Struct, tag="dice_call"):
    """The item that the client sees."""

    id: str
    call_id: str
    status: Status
    result: str | None


class DiceCallCompleted(CallEvent, tag="response.dice_call.completed"):
    pass


class DiceForm(FunctionForm):
    prefix = "dice"
    runs_here = True

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._result: str | None = None

    def fast_path(self, index: int) -> None:
        return None

    def feed(self, arguments: str) -> Iterable[Event]:
        self._arguments.append(arguments)
        return ()

    def finish(self, status: Status) -> Iterable[Event]:
        return ()

    def complete(self, result: ToolResult) -> Iterable[Event]:
        self._result = result.output
        return (DiceCallCompleted(item_id=self._id, output_index=self._index),)

    def item(self, status: Status) -> Any:
        return DiceCall(self._id, self._call_id, status, self._result)


def roll(call: ToolCall) -> ToolResult:
    return ToolResult(str(msgspec.json.decode(call.arguments)["sides"]))


class Dice(ToolRunner):
    form: type[FunctionForm] = DiceForm

    def define(self, box: Toolbox, tool: dict[str, Any], where: str, namespace: str | None = None) -> None:
        parameters = {"type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]}
        box.add(ToolIdentity("dice", "roll"), ChatFunction(name="", description="Rolls a die.", parameters=parameters), where)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        return roll(call)


# ---- the same, with items that clients and stores know ---------------------------------------------------------------

NATIVE = ToolIdentity("dice", "roll")


class KnownDiceForm(McpForm):
    def item(self, status: Status) -> Any:
        return structs.replace(super().item(status), server_label="dice")


class KnownDice(Dice):
    """Dice whose calls are shown as those of an MCP server."""

    form = KnownDiceForm


def known_dice_to_chat(draft: ChatDraft, item: dict[str, Any], where: str) -> None:
    """The converter of these items."""
    draft.call(item["id"], NATIVE, item["arguments"])
    text = item["output"] or error_to_text(item["error"])
    draft.output(item["id"], [{"type": "text", "text": text}], where)
