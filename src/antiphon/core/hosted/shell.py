"""The tool `shell`, which the client runs, or the gateway in a container: its definition, its calls, the items with their
outputs, and its row."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.hosted.code_interpreter import KIND as CODE_INTERPRETER
from antiphon.core.hosted.hosted_tool import ContainerFiles, HostedDefinition, HostedTool, check_container, data_of
from antiphon.core.items.call_forms import FunctionForm, ShellForm
from antiphon.core.items.item_type import ItemType, call_as_function, complete, output_as_result
from antiphon.core.protocols.responses.read import convert
from antiphon.core.stream.file_links import LINK, CodeFile
from antiphon.core.toolbox import built_in
from antiphon.core.toolbox.built_in import ordered_outputs, shell_action
from antiphon.core.toolbox.definitions import leave_out, shell_tool
from antiphon.core.toolbox.requirements import Check
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import CLIENT_SHELL, HOSTED_SHELL, TOOLS, ToolResult
from antiphon.errors import InvalidRequest
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.containers import MemoryLimit, NetworkPolicy
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import ShellCallOutput, type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import ShellCall, Status

Output = dict[str, Any]

# The type of the tool, and the kind of its function where the gateway runs it.
TYPE = CLIENT_SHELL.kind
KIND = HOSTED_SHELL.kind

ONLY_IN_TOOLS = f"in a container it counts only in `{TOOLS}`, not in an input item"
NO_SKILLS = "there are no skills here. Upload their files to the container"
WORDS = (
    f"{built_in.SHELL} They run in a sandbox without internet, in the folder /mnt/data. To give the user a file, save it "
    f"there and link it in your answer as [NAME]({LINK}NAME)."
)


class AutoEnvironment(Struct, frozen=True, tag="container_auto"):
    file_ids: Annotated[list[str], Meta(max_length=50)] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None
    skills: list[Any] | None = None


class NamedEnvironment(Struct, frozen=True, tag="container_reference"):
    container_id: str


Environment = AutoEnvironment | NamedEnvironment
IN_CONTAINERS: tuple[str, ...] = ("container_auto", "container_reference")


def hosted_environment(tool: Tool, where: str) -> Environment | None:
    """None: the client runs it, or there is no such environment."""
    given = tool.get("environment") if tool.get("type") == TYPE else None
    if not isinstance(given, dict) or given.get("type") not in IN_CONTAINERS:
        return None
    made: Environment = convert(given, Environment, f"{where}.environment")  # type: ignore[arg-type]
    return made


def offered_environment(tools: Iterable[Tool]) -> tuple[int, Environment] | None:
    """The definition that counts in a request, which is its first one, and its number among the tools."""
    found = ((at, hosted_environment(tool, f"{TOOLS}[{at}]")) for at, tool in enumerate(tools))
    return next(((at, environment) for at, environment in found if environment is not None), None)


class ShellDefinition(HostedDefinition):
    """What the type `shell` means in a request: the client's shell, or the gateway's."""

    form: type[FunctionForm] = ShellForm

    def __init__(self, *, most_memory: str = "1g") -> None:
        self.most_memory = most_memory

    @classmethod
    def from_recorded(cls, recorded: Any) -> Self:
        return cls(most_memory=msgspec.convert(recorded, str))

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        environment = hosted_environment(tool, where)
        if environment is None:
            shell_tool(box, tool, where, namespace)
            return
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if isinstance(environment, AutoEnvironment):
            place = f"{where}.environment"
            check_container(environment.memory_limit, environment.network_policy, self.most_memory, f"{place}.")
            if environment.skills:
                param = f"{place}.skills"
                raise InvalidRequest(f"Invalid `{param}`: {NO_SKILLS}.", param=param, code="unsupported_parameter")
        # Commands may do anything: running them twice is not running them once.
        if box.add(HOSTED_SHELL, ChatFunction("", WORDS, built_in.SHELL_PARAMETERS), where):
            box.not_idempotent.add(HOSTED_SHELL)


# ---- calls -----------------------------------------------------------------------------------------------------------


class ShellData(Struct, frozen=True):
    """What came of the commands of one call. `files`: all of the container, which may be linked."""

    container_id: str
    outputs: list[Output] = []
    files: list[CodeFile] = []


def data_to_result(data: ShellData) -> ToolResult:
    """As the item will be read when it comes back."""
    return ToolResult(msgspec.json.encode(data.outputs).decode(), data=data)


def outputs_of(result: ToolResult) -> list[Output]:
    """A call that was not run has one, too: the error."""
    if (data := data_of(result, ShellData)) is not None:
        return data.outputs
    return [{"stdout": "", "stderr": result.output, "outcome": {"type": "exit", "exit_code": 1}}]


class HostedShellForm(ShellForm):
    """What the commands printed follows as an item of its own."""

    runs_here = True

    def finish(self, status: Status) -> Iterable[Event]:
        yield from super().finish(status)
        # As the history will have them.
        given = {name: value for name, value in shell_action(self.members).items() if value is not None}
        self._arguments[:] = [msgspec.json.encode(given).decode()]

    def item(self, status: Status) -> ShellCall:
        environment = {"type": "container_reference", "container_id": self._style.containers.get(TYPE, "")}
        return ShellCall(
            id=self._id, call_id=self._call_id, action=shell_action(self.members), status=status, environment=environment
        )

    @property
    def chat_id(self) -> str:
        return self._call_id


class HostedShell(HostedDefinition):
    """The kind of its calls. No definition has it as its type."""

    form: type[FunctionForm] = HostedShellForm

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        leave_out(box, tool, where, namespace)


class ShellOutputState:
    """The item with what the commands of a call printed. It is whole when it is opened."""

    prefix = "sho"
    check: Check | None = None
    fast_path: FastPath | None = None
    # The model has written nothing of it.
    written = ""
    checked_text = ""

    def __init__(self, item_id: str, call_id: str, outputs: Sequence[Output], most: int | None) -> None:
        self.outcome: CheckOutcome | None = None
        self._id = item_id
        self._call_id = call_id
        self._outputs = outputs
        self._most = most
        self._status: Status = "in_progress"
        self._index: int | None = None

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self._item([]))

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        for at, output in enumerate(self._outputs):
            place = {"item_id": self._id, "output_index": self._index, "command_index": at}
            printed = {name: output[name] for name in ("stdout", "stderr") if output[name]}
            if printed:
                yield events.ShellCallOutputContentDelta(**place, delta=printed)  # type: ignore[arg-type]
            yield events.ShellCallOutputContentDone(**place, output=[output])  # type: ignore[arg-type]
        self._status = status
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def waive(self) -> None: ...

    def _item(self, outputs: Sequence[Output]) -> ShellCallOutput:
        return ShellCallOutput(
            id=self._id, call_id=self._call_id, output=list(outputs), status=self._status, max_output_length=self._most
        )

    @property
    def item(self) -> ShellCallOutput:
        return self._item(self._outputs)


def result_to_state(new_id: Callable[[str], str], call_id: str, arguments: str, result: ToolResult) -> ShellOutputState:
    most = shell_action(msgspec.json.decode(arguments)).get("max_output_length")
    return ShellOutputState(new_id(ShellOutputState.prefix), call_id, outputs_of(result), most)


def files_of(result: ToolResult) -> ContainerFiles | None:
    data = data_of(result, ShellData)
    return None if data is None else ContainerFiles(data.container_id, data.files)


# ---- its items in a conversation -------------------------------------------------------------------------------------

# The members of an action that the API shows of every stored item, and clients may leave out.
ACTION = {"timeout_ms": None, "max_output_length": None}


def keep_shell_call(item: Item) -> None:
    # Without a call_id it is a note for the engine, which shows all members.
    if isinstance(item.get("action"), dict) and isinstance(item.get("call_id"), str):
        item["action"] = action = {**item["action"]}
        complete(action, ACTION)


SHELL = HostedTool(
    definitions={TYPE: ShellDefinition, KIND: HostedShell},
    items=(
        ItemType(
            type_of(ShellCall),
            call_as_function(CLIENT_SHELL, "action"),
            prefix=ShellForm.prefix,
            members={"status": "completed", "environment": None},
            keep=keep_shell_call,
        ),
        ItemType(
            type_of(ShellCallOutput),
            output_as_result("output", order=ordered_outputs),
            prefix=ShellOutputState.prefix,
            members={"status": "completed", "max_output_length": None},
        ),
    ),
    # Both run in the containers of the gateway.
    recorded_with=CODE_INTERPRETER,
    files=files_of,
    follow=result_to_state,
)
