"""New settings for a gateway that is running. Some take effect at once; the others are reported, and need a restart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from msgspec import structs

from antiphon import logs, settings
from antiphon.app import EXAMINER, admission_limits, engine_options, request_limits
from antiphon.client_keys import earlier_owners, key_owners
from antiphon.core.limits import RequestLimits
from antiphon.dialects import BY_NAME
from antiphon.engines.upstream import Engine
from antiphon.http.keys import GATEWAY, KEYRING
from antiphon.settings import Settings, SettingsError


def load_settings(flags: Mapping[str, Any], file: Path | None) -> Settings:
    """The settings, with what they name checked too. Raises SettingsError."""
    chosen = settings.load(flags, file=file)
    settings.read_chat_template(chosen)
    key_owners(chosen)
    if chosen.dialect is not None and chosen.dialect not in BY_NAME:
        raise SettingsError(f"unknown dialect {chosen.dialect!r}. It must be one of: {', '.join(BY_NAME)}")
    return chosen


class Running(NamedTuple):
    """What new settings are applied to."""

    app: web.Application
    session: aiohttp.ClientSession
    # The engine that was started here. It stays.
    embedded: Engine | None


class Part(NamedTuple):
    """Settings that take effect together, at once: by their old and new values."""

    names: frozenset[str]
    apply: Callable[[Running, Settings, Settings], Awaitable[None]]


async def _use_keys(running: Running, old: Settings, new: Settings) -> None:
    # The names first: a request that comes with a new name then waits for what it owns.
    running.app[GATEWAY].owners.replace(earlier_owners(new))
    running.app[GATEWAY].admission.rename(earlier_owners(new))
    running.app[KEYRING].replace(key_owners(new))


async def _use_engines(running: Running, old: Settings, new: Settings) -> None:
    """An engine that stays keeps what is known of it. One that goes finishes what it answers."""
    app, pool = running.app, running.app[GATEWAY].pool
    present = [engine for engine in pool.engines if engine is not running.embedded]
    options = engine_options(new)
    same_options = all(getattr(old, name) == getattr(new, name) for name in ENGINE_OPTIONS)
    kept = {engine.root: engine for engine in present} if same_options else {}
    # Without any in the file, those that were found at the start stay.
    made = [Engine(url, running.session, options) for url in new.upstream or [engine.root for engine in present]]
    engines = [kept.get(engine.root, engine) for engine in made]
    for engine in engines:
        engine.when_found, engine.when_asked_for = app[EXAMINER].found, app[EXAMINER].asked_for
    # Before a request can need them: until then, their models are unknown.
    await asyncio.gather(*(engine.identify() for engine in engines))
    for gone in pool.replace([*engines, *([running.embedded] if running.embedded is not None else [])]):
        await gone.close()


async def _use_limits(running: Running, old: Settings, new: Settings) -> None:
    """For the requests from now on."""
    gateway = running.app[GATEWAY]
    gateway.admission.change(admission_limits(new))
    gateway.environment = replace(gateway.environment, limits=request_limits(new))


async def _use_log_level(running: Running, old: Settings, new: Settings) -> None:
    logs.configure(new.log_level)


# By which an engine is made, apart from its URL.
ENGINE_OPTIONS = frozenset({"upstream_key", "dialect", "chat_template", "connect_timeout", "retries"})
ADMISSION_LIMITS = frozenset({"key_responses", "key_requests_per_minute", "engine_requests", "engine_queue", "queue_timeout"})
REQUEST_LIMITS = frozenset(f"max_{name}" for name in RequestLimits.__struct_fields__)
PARTS = (
    Part(frozenset({"api_key", "keys", "admin_key"}), _use_keys),
    Part(ENGINE_OPTIONS | {"upstream"}, _use_engines),
    Part(ADMISSION_LIMITS | REQUEST_LIMITS, _use_limits),
    Part(frozenset({"log_level"}), _use_log_level),
)


class Reloader:
    def __init__(self, running: Running, current: Settings) -> None:
        """`current`: as they were read, before engines were searched for."""
        self._running = running
        self._current = current

    async def reload(self, load: Callable[[], Settings]) -> None:
        """Settings that cannot be used change nothing."""
        try:
            new = load()
        except SettingsError as invalid:
            logs.log("settings not reloaded", level=logging.ERROR, reason=str(invalid))
            return
        changed = {name for name in Settings.__struct_fields__ if getattr(new, name) != getattr(self._current, name)}
        # Engines are searched for only at the start.
        applied = await self._apply(changed if new.upstream else changed - {"upstream"}, new)
        logs.log("settings reloaded", changed=sorted(applied))
        if waiting := sorted(changed - applied):
            logs.log("restart needed", level=logging.WARNING, settings=waiting)

    async def _apply(self, changed: set[str], new: Settings) -> set[str]:
        """Names of settings only: their values may be secrets."""
        parts = [part for part in PARTS if part.names & changed]
        applied = {name for part in parts for name in part.names & changed}
        old, self._current = self._current, structs.replace(self._current, **{name: getattr(new, name) for name in applied})
        for part in parts:
            await part.apply(self._running, old, self._current)
        return applied
