"""No answer of a tool blocks the event loop: the longest callback, in CPU time of the loop's thread.

A tool may answer with as much as its limit allows, in any shape. Each of these is what takes longest for its kind of tool.
"""

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from support import bad_mcp_server
from support.bad_mcp_server import BadMcpServer
from support.engine import MockEngine, answer, call, text
from support.image_mcp_server import png
from support.kernels import ScriptedKernels
from support.loop_probe import ATTEMPTS, BUDGET, MeasuredGateway, measured_gateway
from support.search_services import SearchServices
from support.web_site import WebSite, article

from antiphon.sandbox.runs import KernelRun
from antiphon.settings.tables import (
    ContainerSettings,
    FileSearchSettings,
    ImageGenerationSettings,
    McpServerSettings,
    McpSettings,
    ToolSettings,
    WebSearchSettings,
)

Body = dict[str, Any]

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

# A little less than the largest answer of a server, and of a search service.
MOST = 4_000_000


def parts(part: Body, size: int = MOST) -> list[Body]:
    return [part] * (size // (len(json.dumps(part)) + 2))


def schema(members: int) -> Body:
    return {"type": "object", "properties": {f"member_{at}": {"type": "string", "minLength": 1} for at in range(members)}}


TEXT, LINK = {"type": "text", "text": "a"}, {"type": "resource_link", "uri": "file:///a", "name": "a"}
ROWS = [{"url": f"https://example.org/{at}", "title": "a", "text": "b"} for at in range(40_000)]
# By name: what a server's tool answers.
RESULTS: dict[str, Callable[[], Body]] = {
    "many texts": lambda: {"content": parts(TEXT)},
    "many links": lambda: {"content": parts(LINK)},
    "many errors": lambda: {"content": parts(TEXT), "isError": True},
    "a long text": lambda: {"content": [{"type": "text", "text": "x" * MOST}]},
    "many structures": lambda: {"content": [], "structuredContent": {"a": [[]] * (MOST // 4)}},
    "many numbers": lambda: {"content": [], "structuredContent": {"a": [1] * (MOST // 3)}},
    "an image": lambda: {"content": [{"type": "image", "data": "A" * MOST, "mimeType": "image/png"}]},
    "something else": lambda: {"content": parts({"type": "unknown"})},
}
MADE = base64.b64encode(png() + b"\0" * (MOST // 2)).decode()
# By name: lists of tools, and how many are offered. None, if the list fails.
LISTED = {"many tools": [480], "a large tool": [0], "too many tools": []}
LISTS: dict[str, Callable[[], list[Body]]] = {
    "many tools": lambda: [{"name": f"tool_{at}", "inputSchema": schema(120)} for at in range(480)],
    "a large tool": lambda: [{"name": "tool", "inputSchema": schema(60_000)}],
    "too many tools": lambda: [{"name": f"tool_{at}", "inputSchema": {"type": "object"}} for at in range(60_000)],
}


class Served(NamedTuple):
    gateway: MeasuredGateway
    client: aiohttp.ClientSession
    engine: MockEngine
    servers: dict[str, BadMcpServer]
    services: SearchServices
    site: WebSite

    async def respond(self, tools: list[Body], *calls: bytes) -> list[Body]:
        """The output of a response whose model makes these calls. Nothing, if a server does not list its tools."""
        self.engine.answers.clear()
        self.engine.will(*(answer(each, finish="tool_calls") for each in calls), text("Done."))
        body = msgspec.json.encode({"model": "mock", "input": "Hi", "tools": tools})
        async with self.client.post(f"{self.gateway.url}/v1/responses", data=body) as answered:
            assert answered.status in (200, 424), await answered.text()
            output: list[Body] = msgspec.json.decode(await answered.read()).get("output", [])
            return output

    async def within_budget(self, tools: list[Body], *calls: bytes) -> list[Body]:
        """The same, if no callback takes long."""
        taken: list[float] = []
        output: list[Body] = []
        while len(taken) < ATTEMPTS and (not taken or min(taken) > BUDGET):
            self.gateway.loop.longest = 0.0
            output = await self.respond(tools, *calls)
            taken.append(self.gateway.loop.longest)
        assert min(taken) <= BUDGET, f"{min(taken) * 1000:.0f} ms"
        return output


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    engine = MockEngine()
    engine.objects_to = lambda body: None
    await engine.start()
    folder = str(tmp_path_factory.mktemp("containers"))
    async with (
        BadMcpServer() as plain,
        BadMcpServer(answers_as="sse") as streaming,
        SearchServices() as services,
        WebSite() as site,
        aiohttp.ClientSession() as client,
    ):
        settings: Body = {
            "mcp": McpSettings(urls="any", servers={"own": McpServerSettings(url=f"{plain.url}/mcp")}),
            "tools": ToolSettings(
                web_search=WebSearchSettings(backend="searxng", url=services.url, page_hosts=("127.0.0.1",)),
                file_search=FileSearchSettings(mcp="own", tool="rows"),
                image_generation=ImageGenerationSettings(mcp="own", tool="picture"),
            ),
            "containers": ContainerSettings(folder=folder),
        }
        kernels = ScriptedKernels(CODE)
        with measured_gateway(engine.url, kernels=kernels, check_timeout=30.0, **settings) as gateway:
            made = Served(gateway, client, engine, {"json": plain, "sse": streaming}, services, site)
            await made.respond([mcp(plain)], call("bad__echo", "{}"))
            yield made
    await engine.stop()


# ---- MCP servers -----------------------------------------------------------------------------------------------------


def mcp(server: BadMcpServer, path: str = "/mcp") -> Body:
    return {"type": "mcp", "server_label": "bad", "server_url": server.url + path, "require_approval": "never"}


def answers(name: str, result: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a tool, on every server."""
    monkeypatch.setitem(bad_mcp_server.RESULTS, name, lambda arguments: result)


@pytest.mark.parametrize("form", ["json", "sse", "old sse"])
@pytest.mark.parametrize("name", RESULTS)
async def test_no_result_of_an_mcp_server_blocks_the_event_loop(
    name: str, form: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = served.servers[form.removeprefix("old ")]
    answers("large", RESULTS[name](), monkeypatch)
    tool = mcp(server, "/sse" if form == "old sse" else "/mcp")
    *_, called, said = await served.within_budget([tool], call("bad__large", "{}"))
    assert (called["type"], called["name"], said["type"]) == ("mcp_call", "large", "message")


@pytest.mark.parametrize("form", ["json", "sse"])
@pytest.mark.parametrize("name", LISTS)
async def test_no_list_of_an_mcp_server_blocks_the_event_loop(
    name: str, form: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, tools = served.servers[form], LISTS[name]()

    async def listed(cursor: str | None) -> Body:
        return {"tools": tools}

    monkeypatch.setattr(server.tools, "_list", listed)
    output = await served.within_budget([mcp(server)])
    assert [len(item["tools"]) for item in output if item["type"] == "mcp_list_tools"] == LISTED[name]


# ---- built-in tools --------------------------------------------------------------------------------------------------


SEARCHES: dict[str, Callable[[], web.Response]] = {
    "many rows": lambda: web.json_response({"results": ROWS}),
    "many arrays": lambda: web.json_response({"results": [], "others": [[]] * (MOST // 4)}),
    "long texts": lambda: web.json_response({"results": [{**ROWS[0], "content": "<a>&amp;" * 5_000}] * 90}),
    "no JSON at its end": lambda: web.Response(body=b'{"results": [' + b"[]," * (MOST // 3)),
}


@pytest.mark.parametrize("name", SEARCHES)
async def test_no_answer_of_a_search_service_blocks_the_event_loop(name: str, served: Served) -> None:
    served.services.instead = [SEARCHES[name]() for _ in range(ATTEMPTS)]
    searched, *_ = await served.within_budget([{"type": "web_search"}], call("web_search", '{"query": "a"}'))
    assert searched["type"] == "web_search_call"
    served.services.instead.clear()


async def test_no_page_blocks_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    long = article(*(f"Line {at} of a long text about the city." for at in range(40_000)))

    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text=long, content_type="text/html")

    monkeypatch.setattr(served.site, "_page", page)
    url = json.dumps({"url": f"{served.site.url}/any", "pattern": "zzz"})
    opened, *_ = await served.within_budget([{"type": "web_search"}], call("open_page", url), call("find_in_page", url, id="b"))
    assert opened["action"]["type"] == "open_page"


@pytest.mark.parametrize(
    "said",
    ["x" * MOST, json.dumps([{"file_id": f"f{at}", "text": "a"} for at in range(90_000)]), "[" + "[]," * 1_200_000 + "0]"],
)
async def test_no_passages_block_the_event_loop(said: str, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    answers("rows", bad_mcp_server.text(said), monkeypatch)
    tool = {"type": "file_search", "vector_store_ids": ["vs_1"]}
    searched, *_ = await served.within_budget([tool], call("file_search", '{"queries": ["a"]}'))
    assert searched["type"] == "file_search_call"


async def test_no_image_blocks_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    image = {"content": [{"type": "image", "data": MADE, "mimeType": "image/png"}]}
    answers("picture", image, monkeypatch)
    made, *_ = await served.within_budget([{"type": "image_generation"}], call("image_generation", '{"prompt": "A cat"}'))
    assert (made["type"], made["status"], len(made["result"])) == ("image_generation_call", "completed", len(MADE))


def writes_files(folder: Path) -> KernelRun:
    for at in range(900):
        (folder / f"file_{at}.txt").write_text("a")
    return KernelRun("done")


# By the code: what a run does.
CODE: dict[str, Callable[[Path], KernelRun]] = {
    "print()": lambda folder: KernelRun("line\n" * (MOST // 5)),
    "plot()": lambda folder: KernelRun("", [png() + b"\0" * 1_000_000] * 4),
    "write()": writes_files,
}


@pytest.mark.parametrize("code", CODE)
async def test_no_output_of_code_blocks_the_event_loop(code: str, served: Served) -> None:
    tool = {"type": "code_interpreter", "container": {"type": "auto"}}
    run, *_ = await served.within_budget([tool], call("python", json.dumps({"code": code})))
    assert (run["type"], run["status"]) == ("code_interpreter_call", "completed")
