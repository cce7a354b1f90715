"""The containers that tools run code in: what a request may ask of one, and which ones a conversation has."""

from collections.abc import Sequence
from typing import Any

from antiphon.errors import InvalidRequest
from antiphon.wire.containers import NetworkPolicy
from antiphon.wire.hosted_items import CodeInterpreterCall, type_of
from antiphon.wire.input_items import Item
from antiphon.wire.responses import ShellCall

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
    found = (part.get("file_id") for part in parts if part.get("type") in ("input_file", "input_image"))
    return list(dict.fromkeys(id for id in found if isinstance(id, str) and id))
