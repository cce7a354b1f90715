"""What shows others how a gateway does: its metrics and its traces, each if the settings want it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from aiohttp import web

from antiphon import __version__
from antiphon.engines.pool import Pool
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.observers import MakeObserver
from antiphon.server.metrics.instruments import Instruments, measured_checker, measured_store, owner_to_label
from antiphon.server.metrics.responses import MeasuredTokens, measured_responses
from antiphon.server.request_state import Exposed, counting_unrouted
from antiphon.settings.settings import Settings
from antiphon.store.account_records import UsageEntry
from antiphon.store.protocol import Store
from antiphon.transport import ConnectionOptions

if TYPE_CHECKING:
    from antiphon.server.traces.provider import Traces


class Observability:
    def __init__(self, settings: Settings) -> None:
        self._instruments = Instruments() if settings.metrics else None
        self._traces = _make_traces() if settings.otel else None

    def measured(self, store: Store, checker: Checker) -> tuple[Store, Checker]:
        """What is to be used in their place."""
        instruments = self._instruments
        if instruments is None:
            return store, checker
        return measured_store(store, instruments), measured_checker(checker, instruments)

    def observers(self, pool: Pool) -> list[MakeObserver]:
        found: list[MakeObserver] = []
        if self._instruments is not None:
            found.append(measured_responses(self._instruments, asyncio.get_running_loop().time, pool.is_listed))
        if self._traces is not None:
            found.append(self._traces.observer(pool.dialect_of))
        return found

    def usage_watchers(self, pool: Pool) -> list[Callable[[UsageEntry], None]]:
        return [MeasuredTokens(self._instruments, pool.is_listed)] if self._instruments is not None else []

    def when_exceeded(self, owner: str, soft: bool) -> None:
        """A request has come when the budget of its owner was used up."""
        if (instruments := self._instruments) is not None:
            key = instruments.labels.keys.of(owner_to_label(owner))
            instruments.budget_exceeded.labels(key, "soft" if soft else "hard").value += 1

    def counted(self, options: ConnectionOptions) -> ConnectionOptions:
        """The same, and what no route sees is counted too."""
        if self._instruments is None:
            return options
        return options._replace(answer_error=counting_unrouted(self._instruments, options.answer_error))

    def exposed(self, api: Iterable[web.RouteDef]) -> Exposed | None:
        """What /metrics shows. None: nothing is counted. `api`: the routes that are also served under other prefixes."""
        if self._instruments is None:
            return None
        return Exposed(self._instruments, frozenset(route.path for route in api), {})

    async def close(self, app: web.Application) -> AsyncIterator[None]:
        yield
        if self._traces is not None:
            await self._traces.close()


def _make_traces() -> "Traces":
    # Not imported before: it comes with the extra otel.
    from antiphon.server.traces.provider import Traces

    return Traces(__version__)
