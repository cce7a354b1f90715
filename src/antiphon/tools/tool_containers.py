"""The containers that the tools of a request run code in."""

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.hosted.code_results import CodeFile
from antiphon.tools.runner import ToolRunner
from antiphon.wire.responses import CreateResponse

Item = dict[str, Any]


async def tool_containers(
    tools: Mapping[str, ToolRunner], request: CreateResponse, history: Sequence[Item], owner: str
) -> dict[str, str]:
    """By the types of the tools. The items of calls name them from their first event on, so they are chosen before the exchange
    begins. Raises InvalidRequest for one that is not there."""
    found: dict[str, str] = {}
    # Nobody has checked the tools yet.
    kinds = [kind for tool in request.tools or () if isinstance(kind := tool.get("type"), str)]
    for kind in dict.fromkeys(kinds):
        choose = getattr(tools.get(kind), "container_for", None)
        other = next(iter(found.values()), None)
        if choose is not None and (id := await choose(request, history, owner, other)) is not None:
            found[kind] = id
    return found


def container_files(
    tools: Mapping[str, ToolRunner], containers: Mapping[str, str], owner: str
) -> dict[str, Sequence[CodeFile]]:
    """The files that these containers have already, by their ids."""
    known = ((id, getattr(tools.get(kind), "files_of", None)) for kind, id in containers.items())
    found = {id: files_of(id, owner) for id, files_of in known if files_of is not None}
    return {id: files for id, files in found.items() if files}
