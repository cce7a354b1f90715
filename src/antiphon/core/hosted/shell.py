"""The tool `shell` in a container of the gateway: its definition, its calls, and the items with their outputs."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.hosted.code_interpreter import check_container
from antiphon.core.items.call_forms import FunctionForm, ShellForm
from antiphon.core.protocols.responses.read import convert
from antiphon.core.stream.file_links import LINK, CodeFile
from antiphon.core.toolbox import built_in as built_in_tools
from antiphon.core.toolbox.built_in import shell_action
from antiphon.core.toolbox.definitions import leave_out, shell_tool
from antiphon.core.toolbox.requirements import Check
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import HOSTED_SHELL, TOOLS, Tool, ToolResult
from antiphon.errors import InvalidRequest
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.containers import MemoryLimit, NetworkPolicy
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import ShellCallOutput
from antiphon.wire.responses import ShellCall, Status

Item = dict[str, Any]
Output = dict[str, Any]

# The type of the tool, and the kind of its function where the gateway runs it.
TYPE = "shell"
KIND = HOSTED_SHELL.kind

ONLY_IN_TOOLS = f"in a container it counts only in `{TOOLS}`, not in an input item"
NO_SKILLS = "there are no skills here. Upload their files to the container"
WORDS = (
    f"{built_in_tools.SHELL} They run in a sandbox without internet, in the folder /mnt/data. To give the user a file, save it "
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
HOSTED: tuple[str, ...] = ("container_auto", "container_reference")


def hosted_environment(tool: Tool, where: str) -> Environment | None:
    """None: the client runs it, or there is no such environment."""
    given = tool.get("environment") if tool.get("type") == TYPE else None
    if not isinstance(given, dict) or given.get("type") not in HOSTED:
        return None
    made: Environment = convert(given, Environment, f"{where}.environment")  # type: ignore[arg-type]
    return made


def offered_environment(tools: Iterable[Tool]) -> tuple[int, Environment] | None:
    """The definition that counts in a request, which is its first one, and its number among the tools."""
    found = ((at, hosted_environment(tool, f"{TOOLS}[{at}]")) for at, tool in enumerate(tools))
    return next(((at, environment) for at, environment in found if environment is not None), None)


class ShellDefinition:
    """What the type `shell` means in a request: the client's shell, or the gateway's (`core.environment.GatewayTool`)."""

    form: type[FunctionForm] = ShellForm

    def __init__(self, *, most_memory: str = "1g") -> None:
        self.most_memory = most_memory

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
        if box.add(HOSTED_SHELL, ChatFunction("", WORDS, built_in_tools.SHELL_PARAMETERS), where):
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


def data_of(result: ToolResult) -> ShellData | None:
    data = result.data
    return data if data is None or isinstance(data, ShellData) else msgspec.convert(data, ShellData)


def outputs_of(result: ToolResult) -> list[Output]:
    """A call that was not run has one, too: the error."""
    if (data := data_of(result)) is not None:
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


class HostedShell:
    """The kind of its calls (`core.environment.GatewayTool`). No definition has it as its type."""

    form: type[FunctionForm] = HostedShellForm

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        leave_out(box, tool, where, namespace)


class ShellOutputState:
    """The item with what the commands of a call printed. It is whole when it is opened."""

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


def result_to_state(item_id: str, call_id: str, arguments: str, result: ToolResult) -> ShellOutputState:
    most = shell_action(msgspec.json.decode(arguments)).get("max_output_length")
    return ShellOutputState(item_id, call_id, outputs_of(result), most)
