"""Which engines there are: those that the settings name, and those behind names that stand for several addresses.

`dns+http://name:8000` is one engine for each address of the name. It is resolved again every few seconds: a new address is
identified before it is used, and one that is gone finishes what it answers. Requests still name the host (Host, TLS).
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from urllib.parse import SplitResult, urlsplit

import aiohttp

from antiphon import logs
from antiphon.engines.pool import Pool
from antiphon.engines.requests import EngineOptions
from antiphon.engines.upstream import Engine

# What the URL of a name begins with that stands for several engines.
DNS = "dns+"
# Seconds between two resolutions of a name, and seconds that one may take.
RESOLVE_INTERVAL = 5.0
RESOLVE_TIMEOUT = 5.0
PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


def is_name(url: str) -> bool:
    """It stands for all addresses of a name."""
    return url.startswith(DNS)


async def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a name, those of one family only: a host with two would be two engines. Raises OSError."""
    async with asyncio.timeout(RESOLVE_TIMEOUT):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families = {family for family, *_ in found}
    chosen = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    return sorted({str(address[0]) for family, _, _, _, address in found if family == chosen})


class Discovery:
    def __init__(
        self,
        pool: Pool,
        session: aiohttp.ClientSession,
        urls: Iterable[str],
        options: EngineOptions,
        resolve: Resolve = addresses_of,
    ) -> None:
        """`urls`: as in the settings. Their names are resolved by `look()`."""
        self._pool = pool
        self._session = session
        self._options = options
        self._resolve = resolve
        # The engines of each name.
        self._found: dict[str, list[Engine]] = {url: [] for url in urls if is_name(url)}
        self._unknown: set[str] = set()
        # One change at a time.
        self._lock = asyncio.Lock()
        # Called with each engine that is made, before it is asked for anything.
        self.when_made: Callable[[Engine], None] = lambda engine: None

    async def use(self, urls: Sequence[str], options: EngineOptions, *, same_options: bool) -> None:
        """From now on these are the engines. One that stays keeps what is known of it, if it is asked as before."""
        async with self._lock:
            self._options = options
            stays = _by_identity(self._pool.engines) if same_options else {}
            fixed = [self._made(stays, Engine(url, self._session, options)) for url in urls if not is_name(url)]
            embedded = [engine for engine in self._pool.engines if engine.is_embedded]
            found = {url: self._found.get(url, []) if same_options else [] for url in urls if is_name(url)}
            await self._change([*fixed, *embedded], found)

    async def look(self) -> None:
        """Resolves the names again."""
        if self._found:
            async with self._lock:
                await self._change([engine for engine in self._pool.engines if engine.host is None], self._found)

    async def watch(self, interval: float = RESOLVE_INTERVAL) -> None:
        while True:
            await self.look()
            await asyncio.sleep(interval)

    async def _change(self, others: Sequence[Engine], names: dict[str, list[Engine]]) -> None:
        resolved = await asyncio.gather(*(self._engines_of(url, known) for url, known in names.items()))
        self._found = dict(zip(names, resolved, strict=True))
        engines = [*others, *(engine for found in resolved for engine in found)]
        # Before a request can need them: until then, their models are unknown.
        await asyncio.gather(*(engine.identify() for engine in engines if engine not in self._pool.engines))
        for gone in self._pool.replace(engines):
            await gone.close()

    async def _engines_of(self, url: str, known: list[Engine]) -> list[Engine]:
        """What is not known for the moment stays as it was."""
        parts = urlsplit(url.removeprefix(DNS))
        try:
            addresses = await self._resolve(parts.hostname or "", parts.port or PORTS[parts.scheme])
        except OSError as reason:
            if url not in self._unknown:
                self._unknown.add(url)
                logs.log(
                    "name not resolved", level=logging.WARNING, name=parts.hostname, reason=str(reason) or "no answer in time"
                )
            return known
        self._unknown.discard(url)
        stays = _by_identity(known)
        engines = [self._made(stays, self._engine_at(parts, address)) for address in addresses]
        came, went = [each.root for each in engines if each not in known], [each.root for each in known if each not in engines]
        if came or went:
            logs.log("engines of a name", name=parts.hostname, new=came, gone=went)
        return engines

    def _engine_at(self, parts: SplitResult, address: str) -> Engine:
        credentials, at, host = parts.netloc.rpartition("@")
        shown = f"[{address}]" if ":" in address else address
        place = f"{credentials}{at}{shown}:{parts.port or PORTS[parts.scheme]}"
        return Engine(f"{parts.scheme}://{place}{parts.path}", self._session, self._options, host=host)

    def _made(self, stays: dict[tuple[str | None, ...], Engine], engine: Engine) -> Engine:
        """The engine, or the same one that is there already."""
        present = stays.get(_identity(engine))
        if present is None:
            self.when_made(engine)
        return present or engine


def _identity(engine: Engine) -> tuple[str | None, ...]:
    """An address with other credentials is another engine: they are for one account there."""
    return engine.root, engine.authorization, engine.host


def _by_identity(engines: Iterable[Engine]) -> dict[tuple[str | None, ...], Engine]:
    return {_identity(engine): engine for engine in engines}
