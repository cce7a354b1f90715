"""The built-in tools of the API that the gateway runs, as the settings ask for them."""

import importlib.util
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.hosted.code_interpreter import KIND as CODE_INTERPRETER
from antiphon.core.hosted.file_search import KIND as FILE_SEARCH_TYPE
from antiphon.core.hosted.image_generation import KIND as IMAGE_GENERATION
from antiphon.core.hosted.shell import KIND as HOSTED_SHELL
from antiphon.core.hosted.shell import TYPE as SHELL
from antiphon.core.hosted.web_search import TYPES as WEB_SEARCH_TYPES
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
    WebSearchSettings,
)
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.code_interpreter.mcp_runner import McpInterpreterRunner
from antiphon.tools.code_interpreter.runner import CodeInterpreterRunner
from antiphon.tools.code_interpreter.shell import HostedShellRunner, ShellChooser
from antiphon.tools.file_search.backends import McpBackend as McpFileBackend
from antiphon.tools.file_search.backends import SearchesStores, StoreBackend
from antiphon.tools.file_search.runner import FileSearchRunner
from antiphon.tools.image_generation.runner import ImageGenerationRunner, McpImageServer
from antiphon.tools.mcp.runner import McpRunner
from antiphon.tools.mcp.targets import NO_SERVERS, operators_call, operators_context
from antiphon.tools.mcp_search import McpSearch
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.tools.web_search.backends import Backend, HttpBackend, McpBackend
from antiphon.tools.web_search.page_text import NOT_INSTALLED
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


WEB_SEARCH = "tools.web_search"
FILE_SEARCH = "tools.file_search"
INTERPRETER = "tools.code_interpreter"
IMAGES = "tools.image_generation"


class HostedTools:
    """The runners by the types of their tools, and what they use. `close()` it at the end."""

    def __init__(
        self,
        settings: Settings,
        checker: Checker,
        given: Mapping[str, ToolRunner],
        own: Collection[tuple[str, int]],
        stores: SearchesStores | None = None,
        containers: Containers | None = None,
    ) -> None:
        """`given`: the tools that there are already. They count first, and one of them may serve another. `own`: where the
        gateway listens. `stores`: the vector stores. `containers`: where code is run; None if it is not."""
        self._settings = settings
        self._checker = checker
        self._given = given
        self._own = own
        self._stores = stores
        self._session: aiohttp.ClientSession | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self.runners: Mapping[str, ToolRunner] = {
            **self._web_search(),
            **self._file_search(),
            **code_tools(containers),
            **self._interpreter(),
            **self._image_generation(),
            **given,
        }

    def _web_search(self) -> Mapping[str, ToolRunner]:
        chosen = self._settings.tools.web_search
        if chosen is None:
            return {}
        check_web_search(chosen)
        runner = WebSearchRunner(self._backend(chosen), self._pages(chosen))
        self._closing.append(runner.close)
        return dict.fromkeys(WEB_SEARCH_TYPES, runner)

    def _interpreter(self) -> Mapping[str, ToolRunner]:
        """A server that runs code takes the place of the sandbox."""
        chosen = self._settings.tools.code_interpreter
        if chosen is None or chosen.mcp is None or chosen.tool is None:
            return {}
        runner = McpInterpreterRunner(self._call_mcp_tool, chosen.mcp, chosen.tool, chosen.argument, new_id)
        return {CODE_INTERPRETER: runner}

    def _image_generation(self) -> Mapping[str, ToolRunner]:
        chosen = self._settings.tools.image_generation
        if chosen is None:
            return {}
        check_image_generation(chosen)
        assert chosen.mcp is not None
        assert chosen.tool is not None
        mcp = self._given.get("mcp")
        server = McpImageServer(mcp if isinstance(mcp, McpRunner) else None, chosen.mcp, chosen.tool, chosen.argument)
        return {IMAGE_GENERATION: ImageGenerationRunner(server)}

    def _backend(self, chosen: WebSearchSettings) -> Backend:
        if (service := SERVICES.get(chosen.backend or "")) is not None:
            url = chosen.url or service.url or ""
            return HttpBackend(service, url, _key(chosen), self._opened, timeout=chosen.timeout)
        assert chosen.mcp is not None
        assert chosen.tool is not None
        return McpBackend(McpSearch(self._call_mcp_tool, chosen.mcp, chosen.tool, chosen.argument))

    def _file_search(self) -> Mapping[str, ToolRunner]:
        chosen = self._settings.tools.file_search or FileSearchSettings()
        check_file_search(chosen)
        if chosen.mcp is not None and chosen.tool is not None:
            searched = McpSearch(self._call_mcp_tool, chosen.mcp, chosen.tool, chosen.argument)
            return {FILE_SEARCH_TYPE: FileSearchRunner(McpFileBackend(searched, chosen.stores_argument))}
        return {FILE_SEARCH_TYPE: FileSearchRunner(StoreBackend(self._stores))} if self._stores is not None else {}

    def _pages(self, chosen: WebSearchSettings) -> PageReader | None:
        if not chosen.pages:
            return None
        if not can_read_pages():
            log("pages_not_opened", level=logging.WARNING, reason=NOT_INSTALLED)
            return None
        policy = AddressPolicy("public", chosen.page_hosts, own=self._own)
        return PageReader(self._run_check, policy, timeout=chosen.timeout, most_bytes=chosen.page_bytes, robots=chosen.robots)

    async def _run_check(self, work: CheckWork, owner: str) -> CheckOutcome:
        return await self._checker.run(work, owner, patient=True)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def _call_mcp_tool(self, server: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if "mcp" not in self._given:
            return ToolResult(NO_SERVERS, failed=True)
        return await self._given["mcp"].run(operators_call(server, tool, arguments), operators_context(context))

    async def close(self) -> None:
        for close in self._closing:
            await close()
        if self._session is not None:
            await self._session.close()


def code_tools(containers: Containers | None) -> Mapping[str, ToolRunner]:
    if containers is None:
        return {}
    shell: dict[str, ToolRunner] = {SHELL: ShellChooser(containers), HOSTED_SHELL: HostedShellRunner(containers)}
    return {CODE_INTERPRETER: CodeInterpreterRunner(containers), **shell}


def check_tools(settings: Settings) -> None:
    """Raises SettingsError for tools that cannot be run."""
    web, files, code = settings.tools.web_search, settings.tools.file_search, settings.tools.code_interpreter
    images = settings.tools.image_generation
    if web is not None:
        check_web_search(web)
        _check_server(WEB_SEARCH, web.mcp, settings)
    if files is not None:
        check_file_search(files)
        _check_server(FILE_SEARCH, files.mcp, settings)
    if code is not None:
        check_server_tool(INTERPRETER, code)
        _check_server(INTERPRETER, code.mcp, settings)
    if images is not None:
        check_image_generation(images)
        _check_server(IMAGES, images.mcp, settings)


def _check_server(table: str, name: str | None, settings: Settings) -> None:
    servers = settings.mcp.servers
    if name is not None and name not in servers:
        raise SettingsError(f"{table}.mcp: there is no [mcp.servers.{name}].{did_you_mean(name, servers)}")


def check_file_search(chosen: FileSearchSettings) -> None:
    check_server_tool(FILE_SEARCH, chosen)


def check_server_tool(table: str, chosen: FileSearchSettings | CodeInterpreterSettings) -> None:
    """What one setting alone does not show. Raises SettingsError."""
    missing = "tool" if chosen.mcp else "mcp"
    if bool(chosen.mcp) != bool(chosen.tool):
        raise SettingsError(f"{table}.{missing} is missing: it takes the name of an MCP server and of its tool")


def check_image_generation(chosen: ImageGenerationSettings) -> None:
    """What one setting alone does not show. Raises SettingsError."""
    missing = "tool" if chosen.mcp else "mcp"
    if not chosen.mcp or not chosen.tool:
        raise SettingsError(f"{IMAGES}.{missing} is missing: it takes the name of an MCP server and of its tool")


def check_web_search(chosen: WebSearchSettings) -> None:
    """What one setting alone does not show. Raises SettingsError."""
    check_hosts(f"{WEB_SEARCH}.page_hosts", chosen.page_hosts)
    backend = chosen.backend or ("mcp" if chosen.mcp else None)
    if backend is None:
        raise SettingsError(f"{WEB_SEARCH}.backend is missing. It must be one of: {', '.join(SERVICES)}, mcp")
    if backend == "mcp":
        for name in ("mcp", "tool"):
            if not getattr(chosen, name):
                raise SettingsError(
                    f"{WEB_SEARCH}.{name} is missing: the backend mcp needs the name of a server and of its tool"
                )
        return
    service = SERVICES[backend]
    if not chosen.url and service.url is None:
        raise SettingsError(f"{WEB_SEARCH}.url is missing: the backend {backend} needs the address of the service")
    if chosen.url and wrong_address(chosen.url) is not None:
        raise SettingsError(f"{WEB_SEARCH}.url must be http://HOST:PORT or https://HOST, with a path or without one")
    if not _key(chosen) and service.needs_key:
        raise SettingsError(f"{WEB_SEARCH}.key is missing: the backend {backend} needs one")


def _key(chosen: WebSearchSettings) -> str:
    return fill_variables(f"{WEB_SEARCH}.key", chosen.key or "")


def can_read_pages() -> bool:
    return importlib.util.find_spec("trafilatura") is not None
