"""The built-in tools of the API that the gateway runs, as the settings ask for them: a row each."""

import importlib.util
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.hosted.code_interpreter import KIND as CODE_INTERPRETER
from antiphon.core.hosted.file_search import KIND as FILE_SEARCH
from antiphon.core.hosted.image_generation import KIND as IMAGE_GENERATION
from antiphon.core.hosted.shell import KIND as HOSTED_SHELL
from antiphon.core.hosted.shell import TYPE as SHELL
from antiphon.core.hosted.web_search import KIND as WEB_SEARCH
from antiphon.core.hosted.web_search import TYPES as WEB_SEARCH_TYPES
from antiphon.core.toolbox.mcp_servers import MCP
from antiphon.core.toolbox.tools import ToolResult
from antiphon.gateway.runs.checker import Checker
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.sandbox.containers.container import ids_in_slot
from antiphon.sandbox.containers.container_files import ContainerLimits, Uploads
from antiphon.sandbox.containers.containers import Containers
from antiphon.sandbox.containers.kernels import Kernels, SandboxKernels
from antiphon.sandbox.runs import SandboxLimits
from antiphon.settings.errors import SettingsError, did_you_mean, wrong_address
from antiphon.settings.groups import check_hosts, fill_variables
from antiphon.settings.settings import Settings, cache_directory, data_directory
from antiphon.settings.tables import (
    CodeInterpreterSettings,
    FileSearchSettings,
    ImageGenerationSettings,
    ToolSettings,
    WebSearchSettings,
)
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.code_interpreter.runner import CodeInterpreterRunner, McpInterpreterRunner
from antiphon.tools.code_interpreter.shell import HostedShellRunner, ShellChooser
from antiphon.tools.file_search.runner import FileSearchRunner, SearchesStores, StoreBackend
from antiphon.tools.file_search.runner import McpBackend as McpFileBackend
from antiphon.tools.image_generation.runner import ImageGenerationRunner, McpImageServer
from antiphon.tools.mcp.runner import McpRunner
from antiphon.tools.mcp.targets import NO_SERVERS, operators_call, operators_context
from antiphon.tools.mcp_search import McpSearch
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.tools.web_search.backends import Backend, HttpBackend, McpBackend
from antiphon.tools.web_search.page_text import not_installed
from antiphon.tools.web_search.pages import PageReader
from antiphon.tools.web_search.runner import WebSearchRunner
from antiphon.tools.web_search.services import SERVICES

# ---- The containers of a gateway, as the settings ask for them -------------------------------------------------------


def make_containers(
    settings: Settings, uploads: Uploads, kernels: Kernels | None = None, slot: int | None = None
) -> Containers | None:
    """None: the settings switch them off. `kernels`: what runs code, in place of the sandbox. `slot`: of this worker process,
    if there are several."""
    chosen = settings.containers
    if not chosen.enabled:
        return None
    limits = ContainerLimits(
        chosen.most, chosen.most_per_key, memory=chosen.memory_limit, seconds=chosen.seconds, disk=chosen.disk_bytes
    )
    folder = Path(chosen.folder) if chosen.folder else cache_directory(settings) / "containers"
    bounds = SandboxLimits(disk=limits.disk, seconds=limits.seconds)
    packages = Path(chosen.packages) if chosen.packages else None
    private = [data_directory(settings), cache_directory(settings), folder]
    sandbox = kernels or SandboxKernels(bounds, packages=packages, private=private)
    ids = new_id if slot is None else ids_in_slot(slot, new_id)
    return Containers(sandbox, limits, folder, ids, uploads)


class Parts(NamedTuple):
    """What runners are made with."""

    # The servers that a tool of the settings may be on; None: there are none.
    mcp: ToolRunner | None
    checker: Checker
    # Where the gateway listens.
    own: Collection[tuple[str, int]]
    # The vector stores, and where code is run; None: there is no such thing.
    stores: SearchesStores | None
    containers: Containers | None
    # Opens the session when it is first used.
    session: Callable[[], aiohttp.ClientSession]
    # What is done at the end.
    closing: list[Callable[[], Awaitable[None]]]

    async def call_mcp_tool(self, server: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if self.mcp is None:
            return ToolResult(NO_SERVERS, failed=True)
        return await self.mcp.run(operators_call(server, tool, arguments), operators_context(context))

    async def run_check(self, work: CheckWork, owner: str) -> CheckOutcome:
        return await self.checker.run(work, owner, patient=True)


Runners = Mapping[str, ToolRunner]


# ---- web_search ------------------------------------------------------------------------------------------------------


def make_web_search(chosen: WebSearchSettings | None, parts: Parts) -> Runners:
    if chosen is None:
        return {}
    runner = WebSearchRunner(_search_backend(chosen, parts), _pages(chosen, parts))
    parts.closing.append(runner.close)
    return dict.fromkeys(WEB_SEARCH_TYPES, runner)


def _search_backend(chosen: WebSearchSettings, parts: Parts) -> Backend:
    if (service := SERVICES.get(chosen.backend or "")) is not None:
        url = chosen.url or service.url or ""
        return HttpBackend(service, url, _key(chosen), parts.session, timeout=chosen.timeout)
    assert chosen.mcp is not None
    assert chosen.tool is not None
    return McpBackend(McpSearch(parts.call_mcp_tool, chosen.mcp, chosen.tool, chosen.argument))


def _pages(chosen: WebSearchSettings, parts: Parts) -> PageReader | None:
    if not chosen.pages:
        return None
    if not can_read_pages():
        log("pages_not_opened", level=logging.WARNING, reason=not_installed())
        return None
    policy = AddressPolicy("public", chosen.page_hosts, own=parts.own)
    return PageReader(parts.run_check, policy, timeout=chosen.timeout, most_bytes=chosen.page_bytes, robots=chosen.robots)


def can_read_pages() -> bool:
    return importlib.util.find_spec("trafilatura") is not None


def check_web_search(chosen: WebSearchSettings) -> None:
    """What one setting alone does not show. Raises SettingsError."""
    table = f"tools.{WEB_SEARCH}"
    check_hosts(f"{table}.page_hosts", chosen.page_hosts)
    backend = chosen.backend or (MCP if chosen.mcp else None)
    if backend is None:
        raise SettingsError(f"{table}.backend is missing. It must be one of: {', '.join(SERVICES)}, {MCP}")
    if backend == MCP:
        if not chosen.mcp or not chosen.tool:
            missing = "tool" if chosen.mcp else "mcp"
            raise SettingsError(f"{table}.{missing} is missing: the backend mcp needs the name of a server and of its tool")
        return
    service = SERVICES[backend]
    if not chosen.url and service.url is None:
        raise SettingsError(f"{table}.url is missing: the backend {backend} needs the address of the service")
    if chosen.url and wrong_address(chosen.url) is not None:
        raise SettingsError(f"{table}.url must be http://HOST:PORT or https://HOST, with a path or without one")
    if not _key(chosen) and service.needs_key:
        raise SettingsError(f"{table}.key is missing: the backend {backend} needs one")


def _key(chosen: WebSearchSettings) -> str:
    return fill_variables(f"tools.{WEB_SEARCH}.key", chosen.key or "")


# ---- the others ------------------------------------------------------------------------------------------------------


def make_file_search(chosen: FileSearchSettings | None, parts: Parts) -> Runners:
    """Without settings, the vector stores of the gateway are searched."""
    if chosen is not None and chosen.mcp is not None and chosen.tool is not None:
        searched = McpSearch(parts.call_mcp_tool, chosen.mcp, chosen.tool, chosen.argument)
        return {FILE_SEARCH: FileSearchRunner(McpFileBackend(searched, chosen.stores_argument))}
    return {FILE_SEARCH: FileSearchRunner(StoreBackend(parts.stores))} if parts.stores is not None else {}


def make_code_interpreter(chosen: CodeInterpreterSettings | None, parts: Parts) -> Runners:
    """A server that runs code takes the place of the sandbox."""
    if chosen is not None and chosen.mcp is not None and chosen.tool is not None:
        runner = McpInterpreterRunner(parts.call_mcp_tool, chosen.mcp, chosen.tool, chosen.argument, new_id)
        return {CODE_INTERPRETER: runner}
    return {} if parts.containers is None else {CODE_INTERPRETER: CodeInterpreterRunner(parts.containers)}


def make_shell(chosen: None, parts: Parts) -> Runners:
    if parts.containers is None:
        return {}
    return {SHELL: ShellChooser(parts.containers), HOSTED_SHELL: HostedShellRunner(parts.containers)}


def make_image_generation(chosen: ImageGenerationSettings | None, parts: Parts) -> Runners:
    if chosen is None:
        return {}
    assert chosen.mcp is not None
    assert chosen.tool is not None
    mcp = parts.mcp if isinstance(parts.mcp, McpRunner) else None
    return {IMAGE_GENERATION: ImageGenerationRunner(McpImageServer(mcp, chosen.mcp, chosen.tool, chosen.argument))}


def check_file_search(chosen: FileSearchSettings) -> None:
    _check_server_tool(FILE_SEARCH, chosen.mcp, chosen.tool)


def check_code_interpreter(chosen: CodeInterpreterSettings) -> None:
    _check_server_tool(CODE_INTERPRETER, chosen.mcp, chosen.tool)


def check_image_generation(chosen: ImageGenerationSettings) -> None:
    _check_server_tool(IMAGE_GENERATION, chosen.mcp, chosen.tool, required=True)


def _check_server_tool(table: str, server: str | None, tool: str | None, *, required: bool = False) -> None:
    """What one setting alone does not show. Raises SettingsError."""
    if bool(server) != bool(tool) or (required and not tool):
        missing = "tool" if server else "mcp"
        raise SettingsError(f"tools.{table}.{missing} is missing: it takes the name of an MCP server and of its tool")


# ---- the rows --------------------------------------------------------------------------------------------------------


class ToolSetup(NamedTuple):
    """`table`: the name of its table in `[tools]`. `settings`: that table, if there is one. `make`: the runners, by the types
    of the tool and the kinds of its calls. `check`: raises SettingsError for what one setting alone does not show. `server`:
    the MCP server that the settings name."""

    table: str
    settings: Callable[[ToolSettings], Any]
    make: Callable[[Any, Parts], Runners]
    check: Callable[[Any], None] = lambda chosen: None
    server: Callable[[Any], str | None] = lambda chosen: None


SERVER: Callable[[Any], str | None] = attrgetter("mcp")
TOOLS = (
    ToolSetup(WEB_SEARCH, lambda tools: tools.web_search, make_web_search, check_web_search, SERVER),
    ToolSetup(FILE_SEARCH, lambda tools: tools.file_search, make_file_search, check_file_search, SERVER),
    ToolSetup(CODE_INTERPRETER, lambda tools: tools.code_interpreter, make_code_interpreter, check_code_interpreter, SERVER),
    ToolSetup(SHELL, lambda tools: None, make_shell),
    ToolSetup(IMAGE_GENERATION, lambda tools: tools.image_generation, make_image_generation, check_image_generation, SERVER),
)


def check_tools(settings: Settings) -> None:
    """Raises SettingsError for tools that cannot be run."""
    servers = settings.mcp.servers
    for tool in TOOLS:
        if (chosen := tool.settings(settings.tools)) is None:
            continue
        tool.check(chosen)
        if (name := tool.server(chosen)) is not None and name not in servers:
            raise SettingsError(f"tools.{tool.table}.mcp: there is no [mcp.servers.{name}].{did_you_mean(name, servers)}")


class HostedTools:
    """The runners by the types of their tools, and what they use. `close()` it at the end."""

    def __init__(
        self,
        settings: Settings,
        checker: Checker,
        given: Runners,
        own: Collection[tuple[str, int]],
        stores: SearchesStores | None = None,
        containers: Containers | None = None,
    ) -> None:
        """`given`: the tools that there are already. They count first, and one of them may serve another. `own`: where the
        gateway listens. `stores`: the vector stores. `containers`: where code is run; None if it is not."""
        self._session: aiohttp.ClientSession | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []
        parts = Parts(given.get(MCP), checker, own, stores, containers, self._opened, self._closing)
        runners: dict[str, ToolRunner] = {}
        for tool in TOOLS:
            if (chosen := tool.settings(settings.tools)) is not None:
                tool.check(chosen)
            runners |= tool.make(chosen, parts)
        self.runners: Runners = {**runners, **given}

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def close(self) -> None:
        for close in self._closing:
            await close()
        if self._session is not None:
            await self._session.close()
