"""Which container a tool runs in."""

from collections.abc import Awaitable, Sequence

from antiphon.core.hosted.hosted_tool import containers_in
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError, InvalidRequest, quoted
from antiphon.sandbox.containers.container import Container
from antiphon.sandbox.containers.container_files import ContainerExpired
from antiphon.sandbox.containers.containers import Containers
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse

NOT_HERE = "Invalid `{where}`: code cannot be run here. {reason}"
# The first words are OpenAI's. Whether there was such a container, and whose, is not said.
EXPIRED = (
    "Container is expired. `{where}` names {id}, which is not here any more. Create another container, or let the gateway "
    "choose one."
)


async def check_here(containers: Containers, where: str) -> None:
    """Raises InvalidRequest where no code can be run. `where`: the path of the tool."""
    if (reason := await containers.complaint()) is not None:
        raise InvalidRequest(NOT_HERE.format(where=where, reason=reason), param=where, code="unsupported_tool")


def chosen_container(
    containers: Containers, request: CreateResponse, history: Sequence[Item], owner: str, other: str | None
) -> str:
    """For a tool that names none: the latest one of the conversation that is alive; else the one of another tool of the
    request; else a new one, which is made when something is run."""
    known = containers_in([*history, *request_to_items(request)])
    alive = (id for id in known if containers.get(owner, id) is not None)
    return next(alive, None) or other or containers.new_id("cntr")


def named_container(containers: Containers, id: str, owner: str, where: str) -> str:
    if containers.get(owner, id) is None:
        raise InvalidRequest(EXPIRED.format(where=where, id=quoted(id)), param=where, code="container_expired")
    return id


def known_files(containers: Containers, id: str, owner: str) -> list[CodeFile]:
    """Those of a container that is there: an answer may link them before anything is run."""
    there = containers.get(owner, id)
    return [] if there is None else [CodeFile(file.id, file.name) for file in there.files.values()]


async def opened_container(containers: Containers, id: str, owner: str, memory: str | None) -> Container:
    """The container, which is made if it is not there."""
    there = containers.get(owner, id)
    if there is not None:
        return there
    return await containers.create(owner, "auto", id=id, memory_limit=memory or "1g", is_auto=True)


async def or_refusal(result: Awaitable[ToolResult]) -> ToolResult:
    """A limit that is reached, or a container that is gone, is for the model to read, and no fault of the gateway."""
    try:
        return await result
    except (ApiError, ContainerExpired) as refused:
        return ToolResult(str(refused), failed=True)
