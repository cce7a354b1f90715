"""The one room where core meets I/O: a request becomes a turn, and turns run to their end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from antiphon.core.request import Conversion, request_to_chat, request_to_items, request_to_response
from antiphon.core.sealing import Sealer
from antiphon.core.sse import FRAMES, Framing
from antiphon.core.truncation import truncated
from antiphon.core.validation import body_to_request
from antiphon.dialects import PLAIN
from antiphon.engines.pool import Pool
from antiphon.engines.token_counts import Count, count_prompt
from antiphon.engines.upstream import Engine
from antiphon.errors import ContextLengthExceeded, EngineUnavailable, InvalidRequest, StoreUnavailable
from antiphon.gateway.asking import Asking, Convert
from antiphon.gateway.ids import new_id
from antiphon.gateway.recent_histories import Memory
from antiphon.gateway.recorder import Keeper
from antiphon.gateway.run import Turn
from antiphon.gateway.sinks import Batch
from antiphon.logs import log
from antiphon.settings import Settings
from antiphon.store.protocol import Store
from antiphon.store.records import Record
from antiphon.wire.responses import CreateResponse, OutputMessage, OutputText, Response

Item = dict[str, Any]
SWEPT_EVERY = 600.0
SHUTTING_DOWN = "The gateway is shutting down."


@dataclass(frozen=True, slots=True)
class Channel:
    """The way that requests come and events go: how each is written, and what is remembered between them."""

    read: Callable[[bytes], tuple[CreateResponse, list[str]]] = body_to_request
    framing: Framing = FRAMES
    memory: Memory | None = None


HTTP = Channel()


class Asked(NamedTuple):
    """A request as it was read, and the names of the fields that are no part of the API."""

    request: CreateResponse
    unknown: Sequence[str]

    @property
    def notices(self) -> list[str]:
        return [f"field {name} is unknown and was left out" for name in self.unknown]


class Enqueued(NamedTuple):
    """A background response that waits to be made."""

    record: Record
    streams: bool
    notices: list[str]


class Gateway:
    def __init__(self, pool: Pool, settings: Settings, sealer: Sealer, store: Store) -> None:
        self.pool = pool
        self.store = store
        self.settings = settings
        self.sealer = sealer
        self._running: set[Turn] = set()
        self._batch = Batch()
        self._idle = asyncio.Event()
        self._idle.set()

    async def begin(self, body: bytes, owner: str, *, compact: bool = False, channel: Channel = HTTP) -> Turn:
        """Reads a request and prepares its turn; nothing has been asked of an engine yet."""
        request, unknown = channel.read(body)
        if compact:
            request.stream = request.store = False
        # Whoever has a turn at hand waits for it.
        request.background = None
        keeper = self._keeper(request, owner, channel.memory)
        return await self.prepare(Asked(request, unknown), keeper, compact=compact, channel=channel)

    async def begin_or_enqueue(self, body: bytes, owner: str) -> Turn | Enqueued:
        """As `begin`; but what is to be made in the background is put into the queue."""
        request, unknown = body_to_request(body)
        keeper = self._keeper(request, owner)
        if request.background:
            return await self._enqueue(body, Asked(request, unknown), keeper)
        return await self.prepare(Asked(request, unknown), keeper)

    def _keeper(self, request: CreateResponse, owner: str, memory: Memory | None = None) -> Keeper:
        return Keeper(self.store, self.settings, owner, request, new_id("resp"), memory)

    async def prepare(self, asked: Asked, keeper: Keeper, *, compact: bool = False, channel: Channel = HTTP) -> Turn:
        request = asked.request
        engines = await self.pool.choose(request.model, request.prompt_cache_key)
        own = [*request_to_items(request), *([{"type": "compaction_trigger"}] if compact else ())]
        convert = self._converter(request, await keeper.read(own), own)
        try:
            return Turn(
                request,
                Asking(engines, convert, truncates=request.truncation == "auto"),
                asked.notices,
                self.settings,
                self._batch,
                self.sealer,
                keeper=keeper,
                framing=channel.framing,
            )
        except BaseException:
            await keeper.release()
            raise

    async def _enqueue(self, body: bytes, asked: Asked, keeper: Keeper) -> Enqueued:
        """Checks all that can be checked now. What was said before is read again when it is made."""
        request = asked.request
        if request.store is False:
            raise InvalidRequest("A background response has to be stored: `store` cannot be false.", param="store")
        own = request_to_items(request)
        earlier = await keeper.read(own, takes_turn=False)
        # An engine that is away is no reason to refuse what is made later.
        engine = next((engine for engine in self.pool.engines if engine.ready), None)
        conversion = self._converter(request, earlier, own)(engine, {}, 0.0)
        response = request_to_response(
            request,
            conversion.box.echo,
            response_id=keeper.response_id,
            model=conversion.chat.model,
            now=keeper.created_at,
        )
        record = keeper.record(response)
        await self.store.enqueue(record, body)
        return Enqueued(record, bool(request.stream), [*asked.notices, *conversion.notices])

    async def count_input(self, body: bytes, owner: str) -> Count:
        """How many tokens the prompt of a request has; no response is made of it."""
        request, _ = body_to_request(body)
        engines = await self.pool.choose(request.model, request.prompt_cache_key)
        own = request_to_items(request)
        earlier = await self._keeper(request, owner).read(own, takes_turn=False)
        return await count_prompt(engines[0], self._converter(request, earlier, own)(engines[0], {}, 0.0).chat)

    def _converter(self, request: CreateResponse, earlier: list[Item], own: list[Item]) -> Convert:
        """Converts the request for an engine, by what is known of it, and without the given share of a history too long."""
        items = [*earlier, *own]

        def convert(engine: Engine | None, facts: Mapping[str, Any], dropped: float) -> Conversion:
            left = truncated(items, dropped) if dropped else items
            if left is None:
                raise ContextLengthExceeded("The input is too long, and its last turn alone is.", param="input")
            known = engine.models if engine is not None else ()
            model = request.model or next((each.id for each in known), "default")
            dialect = engine.dialect_for(model) if engine is not None else PLAIN
            return request_to_chat(
                request,
                left,
                replace(dialect, **facts),
                model,
                self.sealer,
                earlier=max(0, len(earlier) - (len(items) - len(left))),
                check_grammars=self.settings.check_grammars,
            )

        return convert

    @asynccontextmanager
    async def running(self, turn: Turn) -> AsyncIterator[None]:
        """Holds the shutdown up while the turn runs, and leaves nothing of it behind."""
        self._running.add(turn)
        self._idle.clear()
        try:
            async with turn.keeper.holding():
                yield
        finally:
            await turn.close()
            self._running.discard(turn)
            if not self._running:
                self._idle.set()

    def is_busy(self, engine: Engine) -> bool:
        return any(turn.engine is engine for turn in self._running)

    async def sweep(self) -> None:
        """Removes what has expired, for ever and ever."""
        while True:
            try:
                if swept := await self.store.sweep():
                    log("swept", count=swept)
                if removed := await self.store.shrink(self.settings.store_max_bytes):
                    log("store_too_large", level=logging.WARNING, removed=removed, most_bytes=self.settings.store_max_bytes)
            except StoreUnavailable as gone:
                log("not swept", level=logging.WARNING, reason=gone.message)
            await asyncio.sleep(SWEPT_EVERY)

    async def drain(self) -> None:
        """Lets running turns finish, and breaks off, with a proper end, those that take too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_timeout):
                await self._idle.wait()
        for turn in self._running:
            # Another gateway may take a background response over.
            if not turn.in_background:
                turn.abandon(EngineUnavailable(SHUTTING_DOWN, retry_after=1))


def output_text(response: Response) -> str:
    return "".join(
        part.text
        for item in response.output
        if isinstance(item, OutputMessage)
        for part in item.content
        if isinstance(part, OutputText)
    )
