"""New settings for a gateway that is running. Some take effect at once; the others are reported, and need a restart."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from aiohttp import web
from msgspec import structs

from antiphon import logs
from antiphon.app.lifetime import BESIDE
from antiphon.app.mcp_servers import address_policy, mcp_limits, operator_servers
from antiphon.app.options import (
    admission_limits,
    budgets,
    engine_options,
    file_limits,
    placement_options,
    request_limits,
)
from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.gateway.usage.prices import configured_prices
from antiphon.server.parts import APP
from antiphon.settings.errors import SettingsError
from antiphon.settings.keys import earlier_owners, key_owners, metrics_readers
from antiphon.settings.settings import Settings


class Part(NamedTuple):
    """Settings that take effect together, at once: by their old and new values."""

    names: frozenset[str]
    apply: Callable[[web.Application, Settings, Settings], Awaitable[None]]


async def _use_keys(app: web.Application, old: Settings, new: Settings) -> None:
    # The names first: a request that comes with a new name then waits for what it owns.
    app[APP].gateway.owners.replace(earlier_owners(new))
    app[APP].gateway.admission.rename(earlier_owners(new))
    app[APP].gateway.ledger.rename()
    app[APP].access.keyring.replace(key_owners(new))
    app[APP].access.metrics_keys.replace(metrics_readers(new))


async def _use_usage(app: web.Application, old: Settings, new: Settings) -> None:
    app[APP].gateway.budgets.prices = configured_prices(new.usage.currency, new.usage.prices)
    app[APP].gateway.budgets.use(budgets(new))
    if new.usage.enabled != old.usage.enabled or new.usage.keep_days != old.usage.keep_days:
        logs.log("restart needed", level=logging.WARNING, settings=["usage.enabled", "usage.keep_days"])


async def _use_engines(app: web.Application, old: Settings, new: Settings) -> None:
    """One that goes finishes what it answers. Without any in the file, those that were found at the start stay."""
    present = [engine.root for engine in app[APP].gateway.pool.engines if not engine.is_embedded]
    same_options = all(getattr(old, name) == getattr(new, name) for name in ENGINE_OPTIONS)
    await app[BESIDE].discovery.use(new.upstream or present, engine_options(new), same_options=same_options)


async def _use_placement(app: web.Application, old: Settings, new: Settings) -> None:
    pool = app[APP].gateway.pool
    pool.placement, pool.health.interval = placement_options(new), new.health_interval


async def _use_limits(app: web.Application, old: Settings, new: Settings) -> None:
    """For the requests from now on."""
    gateway = app[APP].gateway
    gateway.admission.change(admission_limits(new))
    gateway.environment = gateway.environment.changed(limits=request_limits(new))
    # They are for the tools of MCP servers, too.
    _change_mcp(app, new)


async def _use_tools(app: web.Application, old: Settings, new: Settings) -> None:
    gateway = app[APP].gateway
    gateway.equipment = replace(gateway.equipment, tool_timeout=new.tool_timeout)
    _change_mcp(app, new)


def _change_mcp(app: web.Application, new: Settings) -> None:
    own = app[BESIDE].own_addresses
    app[BESIDE].mcp.change(operator_servers(new), address_policy(new, own), mcp_limits(new))


async def _use_files(app: web.Application, old: Settings, new: Settings) -> None:
    app[APP].resources.files.limits = file_limits(new)


async def _use_log_settings(app: web.Application, old: Settings, new: Settings) -> None:
    logs.configure(new.log_level, new.log_format)


# By which an engine is made, apart from its URL.
ENGINE_OPTIONS = frozenset({"upstream_key", "dialect", "chat_template", "connect_timeout", "retries"})
ADMISSION_LIMITS = frozenset({"key_responses", "key_requests_per_minute", "engine_requests", "engine_queue", "queue_timeout"})
REQUEST_LIMITS = frozenset(f"max_{name}" for name in RequestLimits.__struct_fields__)
PARTS = (
    Part(frozenset({"api_key", "keys", "admin_key", "metrics_key"}), _use_keys),
    Part(ENGINE_OPTIONS | {"upstream"}, _use_engines),
    Part(frozenset({"affinity", "engine_load_bound", "routing_headers", "health_interval"}), _use_placement),
    Part(ADMISSION_LIMITS | REQUEST_LIMITS, _use_limits),
    Part(frozenset({"mcp", "tool_timeout"}), _use_tools),
    Part(frozenset({"files"}), _use_files),
    Part(frozenset({"usage"}), _use_usage),
    Part(frozenset({"log_level", "log_format"}), _use_log_settings),
)


class Reloader:
    def __init__(
        self, app: web.Application, current: Settings, check: Callable[[Settings], object] = lambda settings: None
    ) -> None:
        """`current`: as they were read, before engines were searched for. `check` raises SettingsError for settings that must
        not be in effect together."""
        self._app = app
        # Those in effect: what needs a restart stays in it as it was at the start.
        self._current = current
        self._check = check

    async def reload(self, load: Callable[[], Settings]) -> None:
        """Settings that cannot be used change nothing."""
        try:
            new = load()
            changed = {name for name in Settings.__struct_fields__ if getattr(new, name) != getattr(self._current, name)}
            # Engines are searched for only at the start.
            changed_parts = self._changed_parts(changed if new.upstream else changed - {"upstream"})
            applied = {name for names in changed_parts.values() for name in names}
            self._check(_with(self._current, new, applied))
        except SettingsError as invalid:
            logs.log("settings not reloaded", level=logging.ERROR, reason=str(invalid))
            return
        for part, names in changed_parts.items():
            target = _with(self._current, new, names)
            await part.apply(self._app, self._current, target)
            # Not before: a part that fails is tried again at the next reload.
            self._current = target
        logs.log("settings reloaded", changed=sorted(applied))
        if waiting := sorted(changed - applied):
            logs.log("restart needed", level=logging.WARNING, settings=waiting)

    @staticmethod
    def _changed_parts(changed: set[str]) -> dict[Part, frozenset[str]]:
        """Names of settings only: their values may be secrets."""
        return {part: names for part in PARTS if (names := part.names & changed)}


def _with(settings: Settings, new: Settings, names: Iterable[str]) -> Settings:
    """The settings, with these taken from the new ones."""
    return structs.replace(settings, **{name: getattr(new, name) for name in names})
