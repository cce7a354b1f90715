"""MCP as the settings have it: the operator's servers, which URLs requests may name, and limits."""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from antiphon.ids import ADMIN
from antiphon.installation import missing_extra
from antiphon.settings.errors import SettingsError, did_you_mean
from antiphon.settings.groups import check_hosts, fill_variables
from antiphon.settings.keys import is_loopback
from antiphon.settings.settings import Settings
from antiphon.settings.tables import McpServerSettings
from antiphon.tools.addresses import AddressPolicy, url_complaint
from antiphon.tools.mcp.session import TRUSTED, is_installed
from antiphon.tools.mcp.targets import HttpServer, McpLimits, OperatorServer, Pairs, StdioServer, Target

# It is the label in requests, and begins the names of functions.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_mcp(settings: Settings, environment: Mapping[str, str] = os.environ) -> None:
    """Raises SettingsError for servers that cannot be used."""
    check_hosts("mcp.hosts", settings.mcp.hosts)
    for name, server in operator_servers(settings, environment).items():
        for key in sorted(server.keys - settings.keys.keys() - {ADMIN}):
            raise SettingsError(f"mcp.servers.{name}.keys: there is no key {key} in keys.{did_you_mean(key, settings.keys)}")
    if settings.mcp.servers and not is_installed():
        raise SettingsError(missing_extra("mcp.servers", "mcp"))


def operator_servers(settings: Settings, environment: Mapping[str, str] = os.environ) -> dict[str, OperatorServer]:
    return {name: _to_server(name, server, environment) for name, server in settings.mcp.servers.items()}


def address_policy(settings: Settings, own: Collection[tuple[str, int]]) -> AddressPolicy:
    given, is_local = settings.mcp, is_loopback(settings.host)
    allow = given.urls or ("public" if is_local else "off")
    # Only where nothing is set, and only this machine can ask: others could reach what is meant for this machine alone.
    loopback = is_local and given.urls is None
    return AddressPolicy(allow, given.hosts, loopback=loopback, own=own, https=allow == "public")


def mcp_limits(settings: Settings) -> McpLimits:
    given = settings.mcp
    return McpLimits(
        connect=given.connect_timeout,
        call=settings.tool_timeout,
        idle=given.idle_timeout,
        answer_bytes=given.max_answer_bytes,
        parts=given.max_parts,
        tools=given.max_tools,
        schema_bytes=settings.max_schema_bytes,
        schema_depth=settings.max_nesting,
    )


def _to_server(name: str, given: McpServerSettings, environment: Mapping[str, str]) -> OperatorServer:
    place = f"mcp.servers.{name}"
    if not _NAME.fullmatch(name):
        raise SettingsError(f"mcp.servers: {name!r} is not a name. Use 1 to 64 letters, digits, - and _")
    return OperatorServer(
        name,
        _to_target(place, given, environment),
        shared=given.shared,
        timeout=given.timeout,
        allowed_tools=frozenset(given.allowed_tools) if given.allowed_tools is not None else None,
        keys=frozenset(given.keys),
        always=given.always,
        models=frozenset(given.models),
        require_approval=given.require_approval,
    )


def _to_target(place: str, given: McpServerSettings, environment: Mapping[str, str]) -> Target:
    if (given.command is None) == (given.url is None):
        raise SettingsError(f"{place} must have either command or url")
    misplaced = ("headers",) if given.url is None else ("args", "env", "cwd")
    for name in misplaced:
        if getattr(given, name):
            raise SettingsError(f"{place}.{name} has no effect with {'command' if given.url is None else 'url'}")
    if given.url is None:
        assert given.command is not None
        env = _filled(f"{place}.env", given.env, environment)
        cwd = str(Path(given.cwd).expanduser()) if given.cwd is not None else None
        return StdioServer(
            str(Path(given.command).expanduser()) if "/" in given.command else given.command, given.args, env, cwd
        )
    if (complaint := url_complaint(TRUSTED, given.url)) is not None:
        raise SettingsError(f"{place}.url cannot be used: {complaint}")
    return HttpServer(given.url, _filled(f"{place}.headers", given.headers, environment), is_trusted=True)


def _filled(place: str, values: Mapping[str, str], environment: Mapping[str, str]) -> Pairs:
    return tuple(sorted((name, fill_variables(f"{place}.{name}", value, environment)) for name, value in values.items()))
