"""The tool `code_interpreter`: its definition, the function that an engine sees of it, and the container that it means."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.core.hosted.code_interpreter_calls import KIND, PYTHON, CodeInterpreterForm
from antiphon.core.hosted.code_results import LINK
from antiphon.core.protocols.responses.validation import convert
from antiphon.core.toolbox.built_in_tools import TEXT, parameters
from antiphon.core.toolbox.tools import (
    TOOLS,
    Native,
    Toolbox,
    leave_out,
)
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction
from antiphon.wire.containers import MemoryLimit, NetworkPolicy

Tool = dict[str, Any]
Item = dict[str, Any]
# The smallest first.
MEMORY: dict[str, int] = {size: int(size[:-1]) * 2**30 for size in ("1g", "4g", "16g", "64g")}

ONLY_IN_TOOLS = f"it counts only in `{TOOLS}`, not in an input item"
ONLY_PROGRAMS = "only programs may call it, and they do not run here"
NO_NETWORK = 'code has no network here. Leave it out, or send {"type": "disabled"}'
TOO_MUCH_MEMORY = "the most that this gateway gives to a container is {most}"

WORDS = (
    "Runs Python code, and returns what it prints and the value of its last line. Variables and imports are kept for the next "
    f"call. Files are in /mnt/data. There is no internet. To give the user a file, save it in /mnt/data and link it in your "
    f"answer as [NAME]({LINK}NAME)."
)
PARAMETERS = parameters({"code": {**TEXT, "description": "The Python code to run."}}, "code")


class AutoContainer(Struct, frozen=True):
    type: Literal["auto"]
    file_ids: Annotated[list[str], Meta(max_length=50)] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None


class CodeInterpreterTool(Struct, frozen=True):
    container: str | AutoContainer
    allowed_callers: list[str] | None = None

    @property
    def only_programs(self) -> bool:
        return self.allowed_callers is not None and "direct" not in self.allowed_callers


def check_container(memory: str | None, network: NetworkPolicy | None, most_memory: str, where: str) -> None:
    """What a request asks of a container. `where`: its path, with a dot at its end unless it is empty. Raises
    InvalidRequest."""
    if network is not None and network.type != "disabled":
        raise _invalid(f"{where}network_policy", NO_NETWORK)
    if memory is not None and MEMORY[memory] > MEMORY[most_memory]:
        raise _invalid(f"{where}memory_limit", TOO_MUCH_MEMORY.format(most=most_memory))


def _invalid(param: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid `{param}`: {problem}.", param=param, code="unsupported_value")


def offered_tool(tools: Iterable[Tool]) -> tuple[int, CodeInterpreterTool] | None:
    """The definition that counts in a request, which is its first one, and its number among the tools."""
    defined = ((at, convert(tool, CodeInterpreterTool, f"{TOOLS}[{at}]")) for at, tool in enumerate(tools) if _is_meant(tool))
    return next(((at, tool) for at, tool in defined if not tool.only_programs), None)


def _is_meant(tool: Tool) -> bool:
    return tool.get("type") == KIND


def containers_in(items: Sequence[Item]) -> list[str]:
    """The containers that earlier calls ran in, the latest first."""
    found = (_container_of(item) for item in reversed(items))
    return list(dict.fromkeys(id for id in found if isinstance(id, str) and id))


def _container_of(item: Item) -> Any:
    kind, environment = item.get("type"), item.get("environment")
    if kind == "shell_call" and isinstance(environment, dict):
        return environment.get("container_id")
    return item.get("container_id") if kind == "code_interpreter_call" else None


def files_in(items: Sequence[Item]) -> list[str]:
    """The ids of uploaded files that messages bring."""
    contents = (item.get("content") for item in items)
    parts = (part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict))
    found = (part.get("file_id") for part in parts if part.get("type") in ("input_file", "input_image"))
    return list(dict.fromkeys(id for id in found if isinstance(id, str) and id))


class CodeInterpreter:
    """A type of tool that the gateway runs (`core.environment.GatewayTool`). `most_memory`: of one container."""

    form = CodeInterpreterForm

    def __init__(self, *, most_memory: str = "1g") -> None:
        self.most_memory = most_memory

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        defined = convert(tool, CodeInterpreterTool, where)
        if defined.only_programs or not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_PROGRAMS if defined.only_programs else ONLY_IN_TOOLS)
            return
        container = defined.container
        if isinstance(container, AutoContainer):
            check_container(container.memory_limit, container.network_policy, self.most_memory, f"{where}.container.")
        native = Native(KIND, PYTHON)
        # Code may do anything: running it twice is not running it once.
        if box.add(native, ChatFunction("", WORDS, PARAMETERS), where):
            box.not_idempotent.add(native)
