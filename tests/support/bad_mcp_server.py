"""An MCP server that misbehaves, over stdio (`python bad_mcp_server.py [MODE]`) and over HTTP (`BadMcpServer`).

It is written without the SDK, which would not let it. Its tools say in their names what they do wrong; MODE says what is wrong
with its list, or with its start.
"""

import asyncio
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from aiohttp import web

Message = dict[str, Any]
VERSION = "2025-06-18"
HUGE = 10_000_000
TINY_IMAGE = "iVBORw0KGgo="


def text(value: str) -> Message:
    return {"content": [{"type": "text", "text": value}]}


def _start_grandchild(arguments: Message) -> Message:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
    return text(str(child.pid))


MIXED = [
    {"type": "text", "text": "before"},
    {"type": "image", "data": TINY_IMAGE, "mimeType": "image/png"},
    {"type": "resource_link", "uri": "file:///notes.txt", "name": "notes", "description": "What was noted"},
    {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
    {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": TINY_IMAGE, "mimeType": "application/pdf"}},
    {"type": "text", "text": "after"},
]
# By name: the result of a call. What has no result is in `BadTools.call`.
RESULTS: dict[str, Callable[[Message], Message]] = {
    "echo": lambda arguments: text(json.dumps(arguments, sort_keys=True)),
    "huge": lambda arguments: text("x" * HUGE),
    "tool_error": lambda arguments: {"content": [{"type": "text", "text": "The disk is full."}], "isError": True},
    "leaking_error": lambda arguments: {**text(f"Wrong key {arguments['key']}."), "isError": True},
    "silent_error": lambda arguments: {"content": [], "isError": True},
    "structured": lambda arguments: {"content": [], "structuredContent": {"answer": 42}},
    "wrong_structure": lambda arguments: {**text("as text"), "structuredContent": {"answer": "no number"}},
    "mixed": lambda arguments: {"content": MIXED},
    "not_a_result": lambda arguments: {"content": "this must be a list"},
    "environment": lambda arguments: text(json.dumps(dict(os.environ))),
    "process": lambda arguments: text(json.dumps({"pid": os.getpid(), "folder": os.getcwd()})),
    "grandchild": _start_grandchild,
    "change": lambda arguments: text("There are other tools now."),
}
# They never answer; end the server; send an error; send a line that is no message; say what they were sent.
OTHERS = ("slow", "die", "rpc_error", "noise", "leak", "forget", "status")
OBJECT = {"type": "object"}


def deep(levels: int) -> Message:
    schema: Message = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def tools() -> list[Message]:
    hints = {"echo": {"readOnlyHint": True}}
    named = [{"name": name, "description": f"Does {name}.", "inputSchema": OBJECT} for name in (*RESULTS, *OTHERS)]
    for tool in named:
        if tool["name"] in hints:
            tool["annotations"] = hints[str(tool["name"])]
        if tool["name"] == "wrong_structure":
            tool["outputSchema"] = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    return named


class BadTools:
    """The messages of one server, whatever they come through."""

    def __init__(self, mode: str = "") -> None:
        self.mode = mode
        self.lists = 0
        # The requests that came, by method.
        self.methods: list[str] = []
        # The names of tools that were called, and the requests that were cancelled.
        self.called: list[str] = []
        self.is_called = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def answer(self, message: Message) -> Message | None:
        """None: nothing is to be sent."""
        method = message.get("method", "")
        self.methods.append(method)
        if method == "notifications/cancelled":
            self.cancelled.set()
        if "id" not in message or not method:
            return None
        try:
            return {"jsonrpc": "2.0", "id": message["id"], "result": await self._result(method, message.get("params") or {})}
        except RpcError as error:
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": error.code, "message": str(error)}}

    async def _result(self, method: str, params: Message) -> Message:
        if method == "initialize":
            if self.mode == "old_version":
                return {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "bad", "version": "1"}}
            return {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": {"name": "bad", "version": "1"}}
        if method == "tools/list":
            self.lists += 1
            return await self._list(params.get("cursor"))
        if method == "tools/call":
            self.called.append(params["name"])
            self.is_called.set()
            return await self._call(params["name"], params.get("arguments") or {})
        raise RpcError(-32601, f"There is no {method}.")

    async def _list(self, cursor: str | None) -> Message:
        match self.mode:
            case "list_error":
                raise RpcError(-32050, "The list is lost.")
            case "list_slow":
                await asyncio.Event().wait()
            case "list_wrong":
                return {"tools": "none"}
            case "changing":
                return {"tools": [{"name": f"tool_{self.lists}", "inputSchema": OBJECT}]}
            case "many":
                return {"tools": [{"name": f"tool_{at}", "inputSchema": OBJECT} for at in range(2000)]}
            case "pages":
                at = int(cursor or 0)
                page = {"tools": [{"name": f"tool_{at}", "inputSchema": OBJECT}]}
                return page if at == 2 else {**page, "nextCursor": str(at + 1)}
            case "endless":
                return {"tools": [{"name": f"tool_{self.lists}", "inputSchema": OBJECT}], "nextCursor": str(self.lists)}
            case "large_pages":
                tool = {"name": f"tool_{self.lists}", "inputSchema": OBJECT, "description": "x" * 60_000}
                return {"tools": [tool], **({"nextCursor": str(self.lists)} if self.lists < 10 else {})}
            case "same_cursor":
                return {"tools": [{"name": f"tool_{self.lists}", "inputSchema": OBJECT}], "nextCursor": "again"}
            case "schemas":
                large = {"type": "object", "description": "x" * 300_000}
                named = {"good": OBJECT, "deep": deep(200), "large": large}
                return {"tools": [{"name": name, "inputSchema": schema} for name, schema in named.items()]}
        return {"tools": tools()}

    async def _call(self, name: str, arguments: Message) -> Message:
        if name in RESULTS:
            return RESULTS[name](arguments)
        if name == "rpc_error":
            raise RpcError(-32050, "No such luck.")
        if name == "leak":
            raise RpcError(-32050, f"Wrong key {arguments['key']}.")
        if name == "slow":
            await asyncio.Event().wait()
        raise RpcError(-32602, f"There is no tool {name}.")


class RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


# ---- over stdio ------------------------------------------------------------------------------------------------------


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def serve_stdio(mode: str) -> None:
    bad = BadTools(mode)
    if mode == "exits":
        sys.stderr.write("Cannot open the database.\nGiving up.\n")
        sys.exit(3)
    if mode == "silent":
        await asyncio.Event().wait()
    if mode == "not_mcp":
        write("Welcome! Type help for help.")
        await asyncio.Event().wait()
    if mode == "stubborn":
        # It does not end when its input does, nor when it is asked to.
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pending: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(_answer_line(bad, json.loads(line)))
        pending.add(task)
        task.add_done_callback(pending.discard)
    if mode == "stubborn":
        await asyncio.Event().wait()


async def _answer_line(bad: BadTools, message: Message) -> None:
    name = (message.get("params") or {}).get("name")
    if name == "die":
        sys.stderr.write("Out of luck.\n")
        sys.stderr.flush()
        os._exit(7)
    if name == "change":
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
    if name == "noise":
        write("DEBUG: about to answer")
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("after some noise")}))
        return
    if (answer := await bad.answer(message)) is not None:
        write(json.dumps(answer))


# ---- over HTTP -------------------------------------------------------------------------------------------------------


class BadMcpServer:
    """`/mcp` speaks streamable HTTP, `/sse` the older transport; the other paths do what they are called."""

    def __init__(self, mode: str = "", *, answers_as: str = "json") -> None:
        """`answers_as`: "json" or "sse"."""
        self.tools = BadTools(mode)
        self._answers_as = answers_as
        # The headers of every request.
        self.headers: list[dict[str, str]] = []
        self.sessions: set[str] = set()
        self.ended: list[str] = []
        self._ends: asyncio.Queue[str] = asyncio.Queue()
        # To sessions that it does not know. It should say 404.
        self.says_400 = False
        # Every session, at once.
        self.forgets = False
        # Of every request that is none of MCP.
        self.paths: list[str] = []
        self._old: dict[str, asyncio.Queue[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        app = web.Application(client_max_size=2**24)
        app.add_routes(
            [
                web.route("*", "/mcp", self._mcp),
                web.get("/sse", self._sse),
                web.post("/messages", self._messages),
                web.route("*", "/redirect", self._redirect),
                web.route("*", "/status/{status}", self._status),
                web.route("*", "/html", self._html),
                web.route("*", "/silent", self._silent),
                web.route("*", "/endless", self._endless),
                web.route("*", "/bomb", self._bomb),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> "BadMcpServer":
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._runner.cleanup()

    async def next_end(self) -> str:
        """The next session that its client ends."""
        return await self._ends.get()

    async def _mcp(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        session = request.headers.get("mcp-session-id")
        if request.method == "DELETE":
            self.ended.append(session or "")
            self._ends.put_nowait(session or "")
            return web.Response(status=204)
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        headers: dict[str, str] = {}
        if message.get("method") == "initialize":
            headers["mcp-session-id"] = f"session-{len(self.sessions) + len(self.ended) + 1}"
            self.sessions |= set() if self.forgets else {headers["mcp-session-id"]}
        elif session is not None and session not in self.sessions:
            error = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "Who are you?"}, "id": None}
            return web.json_response(error, status=400) if self.says_400 else web.Response(status=404)
        return await self._answer(request, message, headers)

    async def _answer(self, request: web.Request, message: Message, headers: dict[str, str]) -> web.StreamResponse:
        name = (message.get("params") or {}).get("name")
        if name == "die":
            assert request.transport is not None
            request.transport.abort()
        if name == "status":
            return web.Response(status=503, text="Later.")
        if name == "forget":
            self.sessions.clear()
        answer = await self.tools.answer(message)
        if answer is None:
            return web.Response(status=202)
        if self._answers_as == "json":
            return web.json_response(answer, headers=headers)
        stream = web.StreamResponse(headers={**headers, "content-type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(f"event: message\ndata: {json.dumps(answer)}\n\n".encode())
        return stream

    # ---- the older transport -----------------------------------------------------------------------------------------

    async def _sse(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        key = str(len(self._old))
        queue = self._old[key] = asyncio.Queue()
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        place = request.query.get("endpoint") or f"/messages?session={key}"
        await stream.write(f"event: endpoint\ndata: {place}\n\n".encode())
        while True:
            await stream.write(f"event: message\ndata: {json.dumps(await queue.get())}\n\n".encode())

    async def _messages(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        message = await request.json()
        if (message.get("params") or {}).get("name") == "die":
            assert request.transport is not None
            request.transport.abort()
        task = asyncio.create_task(self._answer_later(message, self._old[request.query["session"]]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response(status=202)

    async def _answer_later(self, message: Message, queue: "asyncio.Queue[Message]") -> None:
        if (answer := await self.tools.answer(message)) is not None:
            queue.put_nowait(answer)

    # ---- what is no MCP server ---------------------------------------------------------------------------------------

    async def _redirect(self, request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"location": request.query["to"]})

    async def _status(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        return web.Response(status=int(request.match_info["status"]), text="Nothing for you.")

    async def _html(self, request: web.Request) -> web.Response:
        return web.Response(text="<h1>Hello</h1>", content_type="text/html")

    async def _silent(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        await asyncio.Event().wait()
        raise AssertionError

    async def _bomb(self, request: web.Request) -> web.Response:
        """A hundred megabytes, in few bytes."""
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return web.Response(body=gzip.compress(b" " * 100_000_000, 1), headers=headers)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        """An answer without end."""
        stream = web.StreamResponse(headers={"content-type": request.query.get("type", "application/json")})
        await stream.prepare(request)
        while True:
            await stream.write(b"x" * 65536)


if __name__ == "__main__":
    asyncio.run(serve_stdio(sys.argv[1] if len(sys.argv) > 1 else ""))
