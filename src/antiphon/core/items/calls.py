"""The state of a tool call, and the forms that a call can take: one for each kind of tool.

The engine calls functions, whatever the tool is. The name of the function says which tool is meant, and so which item and
which events the client gets.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET

from antiphon.arguments import arguments_to_text
from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.deltas import CallDelta
from antiphon.core.events.event_style import EventStyle
from antiphon.core.events.plain_deltas import DeltaTemplate, FastPath
from antiphon.core.toolbox.call_members import local_shell_action, patch_operation, shell_action
from antiphon.core.toolbox.requirements import Check, Tools
from antiphon.core.toolbox.tools import Native, ToolResult
from antiphon.json_ending import missing_brackets
from antiphon.object_end import ObjectEnd, is_json_object
from antiphon.string_member import StringMember, whole_input
from antiphon.wire import UNREADABLE, events
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

    def __init__(self, native: Native, item_id: str, call_id: str, output_index: int, style: EventStyle) -> None:
        self._native = native
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
            item_id=self._id, output_index=self._index, name=self._native.name, arguments=self.arguments
        )

    def complete(self, result: ToolResult) -> Iterable[Event]:
        """What follows the result of a tool that the gateway ran."""
        return ()

    def item(self, status: Status) -> OutputItem:
        return FunctionCall(
            id=self._id,
            call_id=self._call_id,
            name=self._native.name,
            arguments=self.arguments,
            status=status,
            namespace=self._native.namespace or UNSET,
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
            name=self._native.name,
            input="".join(self._input),
            status=status,
            namespace=self._native.namespace or UNSET,
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


Forms = Mapping[str, type[FunctionForm]]
# Kind of tool → the form of its calls.
FORMS: Forms = {
    "function": FunctionForm,
    "custom": CustomForm,
    "tool_search": ToolSearchForm,
    "server_tool_search": ServerSearchForm,
    "local_shell": LocalShellForm,
    "shell": ShellForm,
    "apply_patch": ApplyPatchForm,
}


class CallState:
    """A call. Its name may come late, and decides its form; its arguments are whole once they are a JSON object.

    A call that must pass a check before it is shown is buffered until it is whole, and repaired if possible.
    """

    def __init__(self, call_id: str, *, new_id: Callable[[str], str], tools: Tools, style: EventStyle, forms: Forms) -> None:
        self.call_id = call_id
        self._new_id = new_id
        self._tools = tools
        self._style = style
        self._forms = forms
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._waiting: list[str] = []
        self._form: FunctionForm | None = None
        # Of the pieces that wait, or of those that its form has.
        self._end = ObjectEnd()
        self._waived = False
        self._finished = False
        # Its form has other arguments than the model wrote.
        self._is_translated = False
        self.outcome: CheckOutcome | None = None
        # Of a tool that the gateway runs, or of a call that it does not run.
        self.result: ToolResult | None = None
        # It was judged before its turn, and is going to be shown.
        self.admitted = False
        self.fast_path: FastPath | None = None
        # How the engine names it; each may be missing.
        self.engine_id: str | None = None
        self.engine_index: int | None = None
        self.name = ""

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        kind = self._kind
        form = self._make_form(output_index)
        waiting = self._to_feed()
        self._form = form
        self._end = ObjectEnd()
        if self.outcome is None and self.engine_index is not None and not self._is_buffered:
            self.fast_path = form.fast_path(self.engine_index)
        empty = self.item
        fed = tuple(form.feed(waiting)) if waiting else ()
        yield events.OutputItemAdded(output_index=output_index, item=self.item if kind.opens_whole else empty)
        yield from form.begin()
        yield from fed

    def _make_form(self, output_index: int) -> FunctionForm:
        kind = self._kind
        return kind(self.native, self._new_id(kind.prefix), self.call_id, output_index, self._style)

    def _to_feed(self) -> str:
        """What its form gets first: what has come, as it was checked, and as the client's tool takes it."""
        outcome = self.outcome
        arguments = self.arguments if outcome is None or outcome.unfinished else outcome.text
        native = self._tools.native_arguments(self.name, arguments)
        self._is_translated = native is not None
        return arguments if native is None else native

    def feed(self, arguments: str) -> Iterable[Event]:
        if self._form is None:
            self._waiting.append(arguments)
            return ()
        # What was buffered until it was whole has been emitted: only white space can follow.
        return () if self._is_buffered else self._form.feed(arguments)

    def finish(self, status: Status) -> Iterable[Event]:
        """No more arguments follow."""
        assert self._form is not None
        self._finished = True
        self.fast_path = None
        return self._form.finish(status)

    def close(self, status: Status) -> Iterable[Event]:
        assert self._form is not None
        assert self._index is not None
        if not self._finished:
            yield from self.finish(status)
        if self.result is not None:
            yield from self._form.complete(self.result)
        self._status = status
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    @property
    def runs_here(self) -> bool:
        return bool(self.name) and self._kind.runs_here

    @property
    def opens_early(self) -> bool:
        return self._kind.opens_early

    @property
    def needs_shell(self) -> bool:
        return self._kind.needs_shell

    @property
    def must_run(self) -> bool:
        """Its result is still to come."""
        return self.runs_here and self.result is None

    @property
    def arguments_to_run(self) -> str:
        """As its tool gets them: whole, and as they were checked."""
        arguments = self._to_feed() if self._form is None else self._form.arguments
        return arguments + missing_end(arguments)

    @property
    def chat_id(self) -> str:
        return self.call_id if self._form is None else self._form.chat_id

    @property
    def chat_name(self) -> str:
        """The name that the call has in the conversation, now and when its item comes back."""
        return self.name if self._form is None else self._tools.shown_name(self.name, self.arguments)

    @property
    def native(self) -> Native:
        return self._tools.native_of(self.name)

    @property
    def _kind(self) -> type[FunctionForm]:
        return self._forms[self._tools.form_of(self.native)]

    @property
    def finished(self) -> bool:
        return self._finished

    def finishable(self) -> bool:
        return self._end.is_reached(self._waiting if self._form is None else self._form.pieces)

    def ready(self) -> bool:
        return bool(self.name) and (not (self._is_buffered or self._kind.opens_whole) or self.finishable())

    @property
    def check(self) -> Check | None:
        return None if self._waived else self._tools.check_of(self.name)

    def waive(self) -> None:
        self._waived = True
        self.outcome = None

    @property
    def _is_buffered(self) -> bool:
        # Only the arguments of a call that the gateway runs show whether it is going to run it.
        if (self.runs_here and not self.opens_early) or self.name in self._tools.judged_whole:
            return True
        return (check := self.check) is not None and check.buffered

    @property
    def closed(self) -> bool:
        return self._status != "in_progress"

    @property
    def arguments(self) -> str:
        """As the engine knows them."""
        return "".join(self._waiting) if self._form is None or self._is_translated else self._form.arguments

    @property
    def written(self) -> str:
        return self.name + self.arguments

    @property
    def checked_text(self) -> str:
        return self.arguments

    @property
    def item(self) -> OutputItem:
        assert self._form is not None
        return self._form.item(self._status)


def missing_end(arguments: str) -> str:
    """What makes an object of arguments that are at their end and are none yet. Clients parse them as JSON, also if there are
    none at all. What was emitted before stays as it is."""
    if not arguments.strip():
        return "{}"
    end = missing_brackets(arguments)
    return end if end and is_json_object(arguments + end) else ""
