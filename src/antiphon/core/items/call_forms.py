"""How a call of each kind looks in the output: its item, and the events that its arguments become."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypedDict

import msgspec
from msgspec import UNSET

from antiphon.core.events.deltas import CallDelta
from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.events.plain_deltas import DeltaTemplate, FastPath
from antiphon.core.toolbox.built_in import local_shell_action, patch_operation, shell_action
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.errors import UNREADABLE
from antiphon.partial_json import StringMember, arguments_to_text, missing_end, whole_input
from antiphon.wire import events
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.responses import (
    ApplyPatchCall,
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    OutputItem,
    PatchStatus,
    ShellCall,
    Status,
    ToolSearchCall,
)


class CommandPlace(TypedDict):
    output_index: int
    command_index: int


class FunctionForm:
    """A function call: its arguments are emitted as they come."""

    prefix = "fc"
    # The gateway runs the tool itself, and the item stays open until its result is there.
    runs_here = False
    # It takes input or output to run it. Otherwise the exchange itself has the result.
    needs_shell = True
    # Its item has nothing true to say before the arguments are whole, and is not added before that.
    opens_whole = False
    # The gateway runs the tool, and the arguments are emitted as they come all the same.
    opens_early = False
    # The gateway runs the tool: what the arguments must follow, if models may write them in more ways than the function says;
    # and whether they are checked at all.
    accepts: ClassVar[Mapping[str, Any] | None] = None
    is_checked: ClassVar[bool] = True

    def __init__(self, identity: ToolIdentity, item_id: str, call_id: str, output_index: int, style: EventOptions) -> None:
        self._tool = identity
        self._id = item_id
        self._call_id = call_id
        self._index = output_index
        self._style = style
        self._arguments: list[str] = []

    def begin(self) -> Iterable[Event]:
        """What follows the event that adds the item."""
        return ()

    def fast_path(self, index: int) -> FastPath | None:
        if self._style.padding is not None:
            return None
        return FastPath(CallDelta, self._arguments, DeltaTemplate(self._delta("")), index=index)

    def feed(self, arguments: str) -> Iterable[Event]:
        self._arguments.append(arguments)
        return (self._delta(arguments),)

    def finish(self, status: Status) -> Iterable[Event]:
        if status == "completed" and (end := missing_end(self.arguments)):
            yield from self.feed(end)
        # From now on there is one copy of them, however often they are asked for.
        self._arguments[:] = [self.arguments]
        yield events.FunctionCallArgumentsDone(
            item_id=self._id, output_index=self._index, name=self._tool.name, arguments=self.arguments
        )

    def complete(self, result: ToolResult) -> Iterable[Event]:
        """What follows the result of a tool that the gateway ran."""
        return ()

    def item(self, status: Status) -> OutputItem:
        return FunctionCall(
            id=self._id,
            call_id=self._call_id,
            name=self._tool.name,
            arguments=self.arguments,
            status=status,
            namespace=self._tool.namespace or UNSET,
        )

    @property
    def arguments(self) -> str:
        return "".join(self._arguments)

    @property
    def chat_id(self) -> str:
        """The id that the call has in the conversation, now and when its item comes back. The item of a tool that the gateway
        runs has no other id than its own."""
        return self._id if self.runs_here else self._call_id

    @property
    def pieces(self) -> Sequence[str]:
        """The arguments as they came."""
        return self._arguments

    def _delta(self, arguments: str) -> DeltaEvent:
        padding = self._style.obfuscation(arguments)
        return events.FunctionCallArgumentsDelta(
            item_id=self._id, output_index=self._index, delta=arguments, obfuscation=padding
        )


class CustomForm(FunctionForm):
    """A call with free text: the one string of its arguments is decoded as it comes, and emitted as the tool's input."""

    prefix = "ctc"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._member = StringMember()
        self._input: list[str] = []

    def fast_path(self, index: int) -> FastPath | None:
        return None

    def feed(self, arguments: str) -> Iterable[Event]:
        self._arguments.append(arguments)
        return self._decoded(self._member.receive(arguments))

    def finish(self, status: Status) -> Iterable[Event]:
        yield from self._decoded(self._member.close() if self._member.opened else whole_input(self.arguments))
        yield events.CustomToolCallInputDone(item_id=self._id, output_index=self._index, input="".join(self._input))

    def item(self, status: Status) -> OutputItem:
        return CustomToolCall(
            id=self._id,
            call_id=self._call_id,
            name=self._tool.name,
            input="".join(self._input),
            status=status,
            namespace=self._tool.namespace or UNSET,
        )

    def _decoded(self, text: str) -> Iterable[Event]:
        if not text:
            return ()
        self._input.append(text)
        padding = self._style.obfuscation(text)
        return (events.CustomToolCallInputDelta(item_id=self._id, output_index=self._index, delta=text, obfuscation=padding),)


class SilentForm(FunctionForm):
    """A call whose item has its arguments as an object: nothing is emitted before they are whole."""

    def fast_path(self, index: int) -> FastPath | None:
        return None

    def feed(self, arguments: str) -> Iterable[Event]:
        self._arguments.append(arguments)
        return ()

    def finish(self, status: Status) -> Iterable[Event]:
        if status == "completed":
            self._arguments.append(missing_end(self.arguments))
        return ()

    @property
    def members(self) -> dict[str, Any]:
        """The arguments. Nothing is made of what cannot be read: it may be half of a command."""
        try:
            value = msgspec.json.decode(self.arguments or "{}")
        except UNREADABLE:
            return {}
        return value if isinstance(value, dict) else {"input": value}


class ToolSearchForm(SilentForm):
    prefix = "tsc"

    def item(self, status: Status) -> OutputItem:
        return ToolSearchCall(id=self._id, call_id=self._call_id, arguments=self.members, status=status)


class ServerSearchForm(SilentForm):
    """A search that the gateway runs. What it found follows as an item of its own."""

    prefix = "tsc"
    runs_here = True
    needs_shell = False

    def finish(self, status: Status) -> Iterable[Event]:
        yield from super().finish(status)
        # As the history will have them.
        self._arguments[:] = [arguments_to_text(self.members)]

    def item(self, status: Status) -> ToolSearchCall:
        return ToolSearchCall(id=self._id, call_id=None, arguments=self.members, status=status, execution="server")

    @property
    def chat_id(self) -> str:
        """None: its item has no call_id. Searches are numbered where the conversation is written."""
        return ""


class LocalShellForm(SilentForm):
    prefix = "lsh"

    def item(self, status: Status) -> OutputItem:
        return LocalShellCall(id=self._id, call_id=self._call_id, action=local_shell_action(self.members), status=status)


class ShellForm(SilentForm):
    prefix = "sh"

    def finish(self, status: Status) -> Iterable[Event]:
        yield from super().finish(status)
        for at, command in enumerate(shell_action(self.members)["commands"]):
            place: CommandPlace = {"output_index": self._index, "command_index": at}
            yield events.ShellCallCommandAdded(**place, command="")
            if command:
                yield events.ShellCallCommandDelta(**place, delta=command, obfuscation=self._style.obfuscation(command))
            yield events.ShellCallCommandDone(**place, command=command)

    def item(self, status: Status) -> OutputItem:
        return ShellCall(id=self._id, call_id=self._call_id, action=shell_action(self.members), status=status)


class ApplyPatchForm(SilentForm):
    prefix = "apc"
    opens_whole = True

    def item(self, status: Status) -> OutputItem:
        # The API has no word for a patch that was cut off. It must not be applied, so it stays unfinished.
        known: PatchStatus = "completed" if status == "completed" else "in_progress"
        return ApplyPatchCall(id=self._id, call_id=self._call_id, operation=patch_operation(self.members), status=known)
