"""The one room where core meets I/O: a request becomes a turn, and turns run to their end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from antiphon.core.checking import body_to_request
from antiphon.core.request import Conversion, request_to_chat, request_to_items
from antiphon.core.sealing import Sealer
from antiphon.core.sse import FRAMES, Framing
from antiphon.core.truncation import truncated
from antiphon.engines.counting import Count, count_prompt
from antiphon.engines.pool import Pool
from antiphon.engines.upstream import Engine
from antiphon.errors import ContextLengthExceeded, EngineUnavailable, StoreUnavailable
from antiphon.ids import new_id
from antiphon.keeping import Keeper
from antiphon.logs import log
from antiphon.remembering import Memory
from antiphon.settings import Settings
from antiphon.sinks import Batch
from antiphon.store.protocol import Store
from antiphon.turn import Convert, Turn
from antiphon.wire.responses import CreateResponse, OutputMessage, OutputText, Response

Item = dict[str, Any]
SWEPT_EVERY = 600.0


@dataclass(frozen=True, slots=True)
class Channel:
    """The way that requests come and events go: how each is written, and what is remembered between them."""

    read: Callable[[bytes], tuple[CreateResponse, list[str]]] = body_to_request
    framing: Framing = FRAMES
    memory: Memory | None = None


HTTP = Channel()


class Gateway:
    def __init__(self, pool: Pool, settings: Settings, sealer: Sealer, store: Store) -> None:
        self.pool = pool
        self.store = store
        self.settings = settings
        self._sealer = sealer
        self._running: set[Turn] = set()
        self._batch = Batch()
        self._idle = asyncio.Event()
        self._idle.set()

    async def begin(self, body: bytes, owner: str, *, compact: bool = False, channel: Channel = HTTP) -> Turn:
        """Reads a request and prepares its turn; nothing has been asked of an engine yet."""
        request, unknown = channel.read(body)
        if compact:
            request.stream = request.store = False
        engines = await self.pool.choose(request.model, request.prompt_cache_key)
        response_id = new_id("resp")
        keeper = Keeper(self.store, self.settings, owner, request, response_id, channel.memory)
        own = [*request_to_items(request), *([{"type": "compaction_trigger"}] if compact else ())]
        convert = self._converter(request, await keeper.read(own), own)
        notices = [f"field {name} is unknown and was left out" for name in unknown]
        try:
            return Turn(
                request,
                engines,
                convert,
                notices,
                self.settings,
                self._batch,
                self._sealer,
                response_id=response_id,
                keeper=keeper,
                framing=channel.framing,
            )
        except BaseException:
            await keeper.release()
            raise

    async def count_input(self, body: bytes, owner: str) -> Count:
        """How many tokens the prompt of a request has; no response is made of it."""
        request, _ = body_to_request(body)
        engines = await self.pool.choose(request.model, request.prompt_cache_key)
        own = request_to_items(request)
        earlier = await Keeper(self.store, self.settings, owner, request, "").read(own, takes_turn=False)
        return await count_prompt(engines[0], self._converter(request, earlier, own)(engines[0], {}, 0.0).chat)

    def _converter(self, request: CreateResponse, earlier: list[Item], own: list[Item]) -> Convert:
        """Converts the request for an engine, by what is known of it, and without the given share of a history too long."""
        items = [*earlier, *own]

        def convert(engine: Engine, facts: Mapping[str, Any], dropped: float) -> Conversion:
            left = truncated(items, dropped) if dropped else items
            if left is None:
                raise ContextLengthExceeded("The input is too long, and its last turn alone is.", param="input")
            model = request.model or next((known.id for known in engine.models), "default")
            return request_to_chat(
                request,
                left,
                replace(engine.dialect_for(model), **facts),
                model,
                self._sealer,
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
            except StoreUnavailable as gone:
                log("not swept", level=logging.WARNING, reason=gone.message)
            await asyncio.sleep(SWEPT_EVERY)

    async def drain(self) -> None:
        """Lets running turns finish, and breaks off, with a proper end, those that take too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_timeout):
                await self._idle.wait()
        for turn in self._running:
            turn.abandon(EngineUnavailable("The gateway is shutting down.", retry_after=1))


def output_text(response: Response) -> str:
    return "".join(
        part.text
        for item in response.output
        if isinstance(item, OutputMessage)
        for part in item.content
        if isinstance(part, OutputText)
    )
