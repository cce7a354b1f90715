"""The containers that the tools of a request run code in."""

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.tools.runner import ToolRunner
from antiphon.wire.responses import CreateResponse

Item = dict[str, Any]


async def tool_containers(
    tools: Mapping[str, ToolRunner], request: CreateResponse, history: Sequence[Item], owner: str
) -> dict[str, str]:
    """By the types of the tools. The items of calls name them from their first event on, so they are chosen before the exchange
    begins. Raises InvalidRequest for one that is not there."""
    found: dict[str, str] = {}
    for kind in dict.fromkeys(tool.get("type") for tool in request.tools or ()):
        choose = getattr(tools.get(kind), "container_for", None) if isinstance(kind, str) else None
        other = next(iter(found.values()), None)
        if choose is not None and (id := await choose(request, history, owner, other)) is not None:
            found[str(kind)] = id
    return found
