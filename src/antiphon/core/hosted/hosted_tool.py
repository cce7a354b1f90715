"""What there is to know of one tool that the gateway runs, and of the containers in which such tools run code.
`core.hosted.rows` has a row for each tool."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Struct

from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.items.item_state import ItemState
from antiphon.core.items.item_type import ItemType
from antiphon.core.stream.citations import Sources
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.errors import InvalidRequest
from antiphon.wire.containers import NetworkPolicy
from antiphon.wire.hosted_items import CodeInterpreterCall, type_of
from antiphon.wire.input_items import CITABLE, Item, Tool
from antiphon.wire.responses import ShellCall, ToolUsage

Data = TypeVar("Data", bound=Struct)


class HostedDefinition:
    """How the definition of a tool is read, which functions an engine sees of it, and what its calls look like. A runner is a
    subclass that runs them. It is what `core.exchange.environment.GatewayTool` asks for."""

    form: type[FunctionForm]

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        """Adds its functions to the box, or leaves the tool out. `where`: its path in the request. Raises InvalidRequest."""
        raise NotImplementedError

    def to_recorded(self) -> Any:
        """What a recording has of it: plain JSON of which the same definition can be made."""
        return True

    @classmethod
    def from_recorded(cls, recorded: Any) -> Self:
        return cls()


class Record(NamedTuple):
    """The member of a recording's settings that says whether a tool was run, and how."""

    member: str
    # Its value where the tool was not run.
    absent: Any = None


class ContainerFiles(NamedTuple):
    """The files that an answer may link."""

    container_id: str
    files: Sequence[CodeFile]
    # As ISO 8601 has it; "" if it is not known.
    expires_at: str = ""


class HostedTool(Struct, frozen=True):
    # By the types of its definitions, and by the kinds of its calls where these have other names. None: the exchange itself
    # runs it, and the toolbox defines it.
    definitions: Mapping[str, type[HostedDefinition]] = {}
    # The items that it has in a conversation.
    items: tuple[ItemType, ...] = ()
    # Its own member in recordings; or the tool that it is recorded with.
    record: Record | None = None
    recorded_with: str | None = None
    # The result as the model reads it, with numbers to cite by. It gets the sources of the response, and the characters that
    # there is room for.
    number: Callable[[ToolResult, Sources, int], ToolResult] | None = None
    # The files of the container that it ran in.
    files: Callable[[ToolResult], ContainerFiles | None] | None = None
    # The item with the output, where that is not part of the item of the call. It gets what makes ids, and the call's id and
    # arguments.
    follow: Callable[[Callable[[str], str], str, str, ToolResult], ItemState] | None = None
    # Counts a call as OpenAI counts it.
    count: Callable[[ToolUsage, ToolIdentity, ToolResult], None] | None = None
    # `type` of an item, an event or an error → its members that are texts of a person or a model, and that have a name which is
    # harmless elsewhere. Those who may not read a conversation are not shown them.
    content: Mapping[str, frozenset[str]] = {}


def data_of(result: ToolResult | None, kind: type[Data]) -> Data | None:
    """What a runner reports beside the text. None: the call failed before there was anything."""
    data = result.data if result is not None else None
    # Read from a recording, it is plain.
    return data if data is None or isinstance(data, kind) else msgspec.convert(data, kind)


# The smallest first.
MEMORY: dict[str, int] = {size: int(size[:-1]) * 2**30 for size in ("1g", "4g", "16g", "64g")}

NO_NETWORK = 'code has no network here. Leave it out, or send {"type": "disabled"}'
TOO_MUCH_MEMORY = "the most that this gateway gives to a container is {most}"


def check_container(memory: str | None, network: NetworkPolicy | None, most_memory: str, where: str) -> None:
    """What a request asks of a container. `where`: its path, with a dot at its end unless it is empty. Raises
    InvalidRequest."""
    if network is not None and network.type != "disabled":
        raise _invalid(f"{where}network_policy", NO_NETWORK)
    if memory is not None and MEMORY[memory] > MEMORY[most_memory]:
        raise _invalid(f"{where}memory_limit", TOO_MUCH_MEMORY.format(most=most_memory))


def _invalid(param: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid `{param}`: {problem}.", param=param, code="unsupported_value")


def containers_in(items: Sequence[Item]) -> list[str]:
    """The containers that earlier calls ran in, the latest first."""
    found = (_container_of(item) for item in reversed(items))
    return list(dict.fromkeys(id for id in found if isinstance(id, str) and id))


def _container_of(item: Item) -> Any:
    kind, environment = item.get("type"), item.get("environment")
    if kind == type_of(ShellCall) and isinstance(environment, dict):
        return environment.get("container_id")
    return item.get("container_id") if kind == type_of(CodeInterpreterCall) else None


def files_in(items: Sequence[Item]) -> list[str]:
    """The ids of uploaded files that messages bring."""
    contents = (item.get("content") for item in items)
    parts = (part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict))
    found = (part.get("file_id") for part in parts if part.get("type") in ("input_file", "input_image", CITABLE))
    return list(dict.fromkeys(id for id in found if isinstance(id, str) and id))
