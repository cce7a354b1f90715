"""`antiphon mcp`: the MCP servers of the settings and their tools, a call to try one, and what is wrong with them."""

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import typer
from msgspec import Struct, field

from antiphon.app.mcp_servers import mcp_limits, operator_servers
from antiphon.logs import printable
from antiphon.settings.settings import Settings
from antiphon.tools.mcp.failures import McpFailure, McpNotInstalled
from antiphon.tools.mcp.results import result_to_tool_result, to_tools
from antiphon.tools.mcp.session import TRUSTED, McpSession, is_installed
from antiphon.tools.mcp.targets import HttpServer, OperatorServer, StdioServer
from antiphon.wire.hosted_items import McpTool

NO_SERVERS = """No MCP servers are set up. Add one to antiphon.toml, for example:

  [mcp.servers.time]
  command = "uvx"
  args = ["mcp-server-time"]
  always = true
"""
INDENT = "  "
LONGEST_DESCRIPTION = 100
# What is probably wrong, by the status of the server's HTTP answer.
HINTS: Mapping[int, str] = {
    401: 'It needs credentials: headers = { Authorization = "Bearer $TOKEN" }',
    403: 'It does not accept the credentials: headers = { Authorization = "Bearer $TOKEN" }',
    404: "Is the path right? Many servers answer at /mcp or /sse.",
    405: "Is the path right? Many servers answer at /mcp or /sse.",
}
NOISE = "It writes to standard output what is no MCP message:"
ERRORS = "Its last words:"


class WrongCall(Exception):
    """What was asked for on the command line cannot be done."""


class Found(Struct, frozen=True):
    """What one server lists, or why it does not."""

    server: OperatorServer
    tools: Sequence[McpTool] = ()
    # Sentences about tools that are not offered.
    left_out: Sequence[str] = ()
    failure: McpFailure | None = None
    # The version of MCP that it speaks.
    protocol: str = ""
    noise: Sequence[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        if self.failure is not None:
            error = {"message": self.failure.message, "status": self.failure.status, "output": self.failure.detail}
            return {"name": self.server.name, "error": error}
        tools = [msgspec.to_builtins(tool) for tool in self.tools]
        facts = {"name": self.server.name, "always": self.server.always, "protocol": self.protocol}
        return {**facts, "tools": tools, "left_out": list(self.left_out)}


def run_mcp(settings: Settings, name: str | None, tool: str | None, arguments: str | None, *, as_json: bool) -> int:
    """Returns the exit code: 1 if a server or a call failed."""
    servers = operator_servers(settings)
    if not is_installed():
        raise WrongCall(McpNotInstalled().message)
    if name is None and not servers:
        typer.echo(msgspec.json.encode({"servers": []}).decode() if as_json else NO_SERVERS, nl=as_json)
        return 0
    chosen = [_choose(servers, name)] if name is not None else list(servers.values())
    if tool is not None:
        return asyncio.run(_try_call(settings, chosen[0], tool, _read_arguments(arguments), as_json=as_json))
    found = asyncio.run(_list_all(settings, chosen))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode({"servers": [each.as_json() for each in found]})).decode())
    else:
        typer.echo("\n".join(printable(line) for each in found for line in lines(each)))
    return 1 if any(each.failure is not None for each in found) else 0


def _choose(servers: Mapping[str, OperatorServer], name: str) -> OperatorServer:
    """A URL is a server too, which the settings need not have."""
    if name in servers:
        return servers[name]
    if "://" in name:
        return OperatorServer(name, HttpServer(name, is_trusted=True))
    known = f"There are: {', '.join(servers)}." if servers else "There are none in the settings."
    raise WrongCall(f"there is no MCP server {name}. {known}")


def _read_arguments(text: str | None) -> dict[str, Any]:
    try:
        arguments = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError as broken:
        raise WrongCall(f"the arguments are not JSON: {broken}") from None
    if not isinstance(arguments, dict):
        raise WrongCall("""the arguments must be a JSON object, such as '{"timezone": "Europe/Paris"}'""")
    return arguments


# ---- with the servers ------------------------------------------------------------------------------------------------


async def _list_all(settings: Settings, servers: Sequence[OperatorServer]) -> list[Found]:
    return await asyncio.gather(*(_list_one(settings, server) for server in servers))


async def _list_one(settings: Settings, server: OperatorServer) -> Found:
    limits, left_out = mcp_limits(settings), list[str]()
    session = McpSession(server.target, TRUSTED, limits)
    try:
        await session.open()
        protocol = session.protocol_version
        tools = list(to_tools((await session.list_tools()).tools, limits, left_out))
    except McpFailure as failure:
        return Found(server, failure=failure, noise=session.noise)
    finally:
        await session.close()
    if server.allowed_tools is not None:
        left_out += [
            f"The tool {tool.name} is not in allowed_tools." for tool in tools if tool.name not in server.allowed_tools
        ]
        left_out += [
            f"There is no tool {name}, as in allowed_tools." for name in server.allowed_tools - {t.name for t in tools}
        ]
        tools = [tool for tool in tools if tool.name in server.allowed_tools]
    return Found(server, tools, left_out, protocol=protocol)


async def _try_call(settings: Settings, server: OperatorServer, tool: str, arguments: dict[str, Any], *, as_json: bool) -> int:
    session = McpSession(server.target, TRUSTED, mcp_limits(settings))
    try:
        await session.open()
        answer = await session.call(tool, arguments, server.timeout)
    except McpFailure as failure:
        typer.echo("\n".join(printable(line) for line in lines(Found(server, failure=failure, noise=session.noise))), err=True)
        return 1
    finally:
        await session.close()
    result = result_to_tool_result(answer)
    shown = "\n".join(map(printable, result.output.splitlines()))
    typer.echo(msgspec.json.format(msgspec.json.encode(answer)).decode() if as_json else shown)
    return 1 if result.failed else 0


# ---- as text ---------------------------------------------------------------------------------------------------------


def lines(found: Found) -> Iterator[str]:
    server = found.server
    if found.failure is not None:
        yield f"{server.name}: {found.failure.message}"
        yield from (INDENT + line for line in _help(found, found.failure))
        return
    facts = [_place(server), *_uses(server)]
    yield f"{server.name}: {', '.join(facts)}"
    width = max((len(tool.name) for tool in found.tools), default=0)
    for tool in found.tools:
        yield f"{INDENT}{tool.name.ljust(width)}  {_short(tool.description or None)}".rstrip()
    if not found.tools:
        yield f"{INDENT}It has no tools."
    yield from (INDENT + sentence for sentence in found.left_out)


def _help(found: Found, failure: McpFailure) -> Iterator[str]:
    if failure.status is not None and failure.status in HINTS:
        yield HINTS[failure.status]
    if found.noise:
        yield NOISE
        yield from (INDENT + line for line in found.noise)
    if errors := [line for line in failure.detail if line not in found.noise]:
        yield ERRORS
        yield from (INDENT + line for line in errors)


def _place(server: OperatorServer) -> str:
    """Arguments and queries may be secrets."""
    if isinstance(server.target, StdioServer):
        return f"the program {shlex.quote(server.target.command)}"
    return server.target.url.partition("?")[0]


def _uses(server: OperatorServer) -> Iterator[str]:
    if server.always:
        models = f" for {', '.join(sorted(server.models))}" if server.models else ""
        yield f"in every request{models}"
    if server.keys:
        yield f"only for {', '.join(sorted(server.keys))}"


def _short(description: str | None) -> str:
    line = next(iter((description or "").strip().splitlines()), "")
    return line if len(line) <= LONGEST_DESCRIPTION else f"{line[:LONGEST_DESCRIPTION]}…"
