"""The state of a tool call, the forms that a call can take, one for each kind of tool, and what is remembered of calls.

The engine calls functions, whatever the tool is. The name of the function says which tool is meant, and so which item and
which events the client gets.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.items.call_forms import (
    ApplyPatchForm,
    CustomForm,
    FunctionForm,
    LocalShellForm,
    ServerSearchForm,
    ShellForm,
    ToolSearchForm,
)
from antiphon.core.toolbox.requirements import Check, CheckedTools
from antiphon.core.toolbox.tools import LONGEST_NAME, ToolIdentity, ToolResult
from antiphon.partial_json import ObjectEnd, canonical_arguments, missing_end, object_arguments
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import OutputItem, Status

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

    def __init__(
        self, call_id: str, *, new_id: Callable[[str], str], tools: CheckedTools, style: EventOptions, forms: Forms
    ) -> None:
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
        return kind(self.identity, self._new_id(kind.prefix), self.call_id, output_index, self._style)

    def _to_feed(self) -> str:
        """What its form gets first: what has come, as it was checked, and as the client's tool takes it."""
        outcome = self.outcome
        arguments = self.arguments if outcome is None or outcome.unfinished else outcome.text
        translated = self._tools.box.tool_arguments(self.name, arguments)
        self._is_translated = translated is not None
        return arguments if translated is None else translated

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
        return self.name if self._form is None else self._tools.box.name_in_history(self.name, self.arguments)

    @property
    def identity(self) -> ToolIdentity:
        return self._tools.box.identity_of(self.name)

    @property
    def _kind(self) -> type[FunctionForm]:
        return self._forms[self._tools.box.form_of(self.identity)]

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


REPEATED = "it was made in the two answers before, with the same arguments"
NOTHING_NEW = "it was made before, with the same arguments, and so was every call of the two answers before"
# The same call in so many rounds in a row is a loop, and so are these many rounds without a new call: it is not run any more.
LOOP_AT = 3

# Shared: an empty set takes 216 bytes.
NOTHING_RAN: frozenset[Hashable] = frozenset()


class RunHistory(Struct):
    """The calls that the gateway runs, or has run."""

    count: int = 0
    # In this round, and in the latest ones before it.
    _in_round: dict[Hashable, None] = {}
    _before: tuple[AbstractSet[Hashable], ...] = ()
    # In all rounds before this one.
    _ran: frozenset[Hashable] = NOTHING_RAN
    # How many rounds in a row had nothing that was new.
    _without_new: int = 0
    # The model makes the same call in every round.
    is_loop: bool = False

    def begin_round(self) -> None:
        ran = self._in_round.keys()
        self._without_new = self._without_new + 1 if ran and ran <= self._ran else 0
        self._ran = self._ran.union(ran)
        self._before = (*self._before, ran)[1 - LOOP_AT :]
        self._in_round = {}

    def start(self, call: CallState) -> None:
        """The gateway runs the call. What one does that opens early is known when its arguments are whole: see `add()`."""
        self.count += 1
        if not call.opens_early:
            self.add(call)

    def add(self, call: CallState) -> None:
        self._in_round[_action(call)] = None

    def repetition(self, call: CallState) -> str | None:
        """Why the call is one of a loop. Calls that are made together are none: the model had not seen what came of them."""
        action = _action(call)
        if len(self._before) == LOOP_AT - 1 and all(action in round for round in self._before):
            return REPEATED
        return NOTHING_NEW if self._without_new >= LOOP_AT - 1 and action in self._ran else None


def _action(call: CallState) -> Hashable:
    return call.identity, canonical_arguments(object_arguments(call.arguments_to_run))


class LeftOutCalls(Struct):
    """The calls that were left out, not run or not checked: what there is to report of them."""

    # Beyond those that the response may have, and why the last of them was dropped.
    _dropped: list[CallState] = []
    limit: str = ""
    # The calls that were not run, and why not: by the names of their tools.
    not_run: dict[tuple[str, str], None] = {}
    # The tools that the model called once more, although they are withheld because of a loop.
    looping: Sequence[str] = ()
    # The tools of which a call was made twice in one answer.
    twice: Sequence[str] = ()
    # The tools of which a call was emitted although its check did not come to an end.
    unchecked: Sequence[str] = ()
    # How many calls followed one that was rejected.
    after_rejected: int = 0
    # Whether there is anything to report.
    any: bool = False

    @property
    def dropped(self) -> int:
        """How many calls the model made beyond those that the response may have. An empty placeholder is not a call."""
        return sum(1 for call in self._dropped if call.written)

    def add_dropped(self, call: CallState, limit: str) -> None:
        """Its pieces are still collected, so that they do not end up in another call."""
        self.any = True
        self._dropped.append(call)
        self.limit = limit

    def add_not_run(self, call: CallState, why: str) -> None:
        self.any = True
        self.not_run[call.name[:LONGEST_NAME], why] = None

    def add_after_rejected(self) -> None:
        self.any = True
        self.after_rejected += 1

    def add_looping(self, call: CallState) -> None:
        self.any = True
        self.looping = _with(self.looping, call.name)

    def add_twice(self, call: CallState) -> None:
        self.any = True
        self.twice = _with(self.twice, call.name)

    def add_unchecked(self, call: CallState) -> None:
        self.any = True
        self.unchecked = _with(self.unchecked, call.name)


def _with(known: Sequence[str], one: str) -> Sequence[str]:
    """Each is there once. They are names of tools, few and mostly none."""
    return known if one in known else (*known, one)
