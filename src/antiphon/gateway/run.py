"""One response in the making, from the request to its terminal event.

Streaming or not, a turn is the same: bytes from the engine → deltas → events. Whoever runs it gives a sink; the engine's bytes
are pushed through to it in one go, without a task that wakes for each of them.
"""

import asyncio
import logging
import secrets
import time

from msgspec import UNSET

from antiphon.core.demands import NO_DEMANDS
from antiphon.core.engine_stream import EngineStream
from antiphon.core.event_style import PADDED_TO, REASONING, REASONING_TEXT, Style
from antiphon.core.faults import Refusal
from antiphon.core.request import SEALED_REASONING, request_to_response, wants_summary
from antiphon.core.sealing import Sealer
from antiphon.core.sse import Framing
from antiphon.core.think_tags import Start
from antiphon.core.translator import SCHEMA_NOT_KEPT, Translator
from antiphon.engines.estimates import ESTIMATED, estimate_usage
from antiphon.engines.upstream import Engine, Reply
from antiphon.errors import ApiError, EngineError, EngineStalled
from antiphon.gateway.asking import Asking
from antiphon.gateway.ids import new_id
from antiphon.gateway.recorder import Keeper
from antiphon.gateway.sinks import Batch, Nobody, Sink
from antiphon.logs import log
from antiphon.settings import Settings
from antiphon.wire.responses import CreateResponse, Response, Usage

TRUNCATED = "truncation auto: the oldest turns of the input were left out"
LEFT_OUT = "tool calls of the model were left out: {count} beyond the {most} that may be made"
REASONING_EVENTS = {"reasoning_text": REASONING_TEXT, "reasoning": REASONING}


class Turn:
    """One response in the making: `connect()`, then `run()`, and `close()` however it went."""

    def __init__(
        self,
        request: CreateResponse,
        asking: Asking,
        notices: list[str],
        settings: Settings,
        batch: Batch,
        sealer: Sealer,
        *,
        keeper: Keeper,
        framing: Framing,
    ) -> None:
        self._request = request
        self._asking = asking
        self._notices = notices
        self._settings = settings
        self._batch = batch
        self._sealer = sealer
        self.keeper = keeper
        self._framing = framing
        self._opening: asyncio.Task[Reply] | None = None
        self._reply: Reply | None = None
        self._abandoned: ApiError | None = None
        self._loop = asyncio.get_running_loop()
        # How often the engine has spoken; the watch reads it, so that no delta has to look at the clock.
        self._reads = 0
        self._sink: Sink = Nobody()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._resuming: asyncio.Task[None] | None = None
        self._stream = EngineStream()
        self._translator = Translator(
            request_to_response(
                request,
                asking.conversion.box.echo,
                response_id=keeper.response_id,
                model=asking.conversion.chat.model,
                now=keeper.created_at,
            ),
            new_id=new_id,
            encode=framing.encode,
            style=self._style(),
            demands=asking.conversion.demands,
            asks_again=True,
        )

    # ---- what is known of it -----------------------------------------------------------------------------------------

    @property
    def streams(self) -> bool:
        return bool(self._request.stream)

    @property
    def _generates(self) -> bool:
        return self._request.generate is not False

    @property
    def in_background(self) -> bool:
        return self.response.background

    @property
    def response(self) -> Response:
        return self._translator.response

    @property
    def error(self) -> ApiError | None:
        return self._translator.error

    @property
    def engine(self) -> Engine:
        return self._asking.engine

    @property
    def notices(self) -> list[str]:
        notices = [*self._notices, *self._asking.conversion.notices]
        if self._asking.dropped:
            notices.append(TRUNCATED)
        if left_out := self._translator.left_out:
            notices.append(LEFT_OUT.format(count=left_out, most=self._translator.demands.most_calls))
        if not self.engine.reports_usage:
            notices.append(ESTIMATED)
        return notices

    # ---- its life ----------------------------------------------------------------------------------------------------

    async def connect(self, patience: float | None = None) -> None:
        """Asks the engine, and waits for its word at most so long; what it refuses is raised.

        After that the turn can be run: an engine that is still silent may be reading a long prompt.
        """
        if not self._generates:
            return
        self._opening = asyncio.create_task(self._asking.open())
        done, _ = await asyncio.wait({self._opening}, timeout=patience)
        if self._abandoned is not None:
            raise self._abandoned
        error = self._opening.exception() if done else None
        if error is not None and not (self.streams and isinstance(error, ApiError) and error.streams):
            raise error

    async def run(self, sink: Sink) -> None:
        """Writes every event, to the terminal one. Never raises for what the engine does."""
        translator, self._sink = self._translator, sink
        translator.start()
        self.flush()
        if self._generates:
            await self._generate()
        else:
            translator.demands = NO_DEMANDS
            translator.close(now=int(time.time()))
        try:
            await self.keeper.keep(self.response, translator.out)
        except ApiError as error:
            # The client has not been told of the end yet, and must not be told that it was kept.
            translator.retract(error)
        translator.out += self._framing.end
        self.flush()
        await sink.drain()

    async def _generate(self) -> None:
        """All that comes of asking the engine, to the terminal event."""
        translator = self._translator
        watching = asyncio.create_task(self._watch())
        try:
            await self._translate()
            await self._learn_from_failure()
            if (refusal := translator.refusal(ended=self._stream.ended)) is not None:
                await self._ask_again(refusal)
        except ApiError as error:
            translator.fail(self._abandoned or error)
        except Exception as bug:
            # The client has been promised a terminal event, and gets it.
            log("bug", level=logging.ERROR, exc_info=bug, response_id=self.response.id)
            translator.fail(EngineError("The gateway failed. This is a bug; the log has its trace.", code="internal_error"))
        finally:
            watching.cancel()
        estimate = None
        if translator.usage is None and translator.error is None:
            estimate = await estimate_usage(self.engine, self._asking.conversion.chat, translator.written())
        self._end(estimate)

    def abandon(self, error: ApiError) -> None:
        """Gives the engine up; the run then ends with this error as it would with one of the engine's."""
        self._abandoned = error
        if self._reply is not None:
            self._reply.close()
        elif self._opening is not None:
            self._opening.cancel()

    async def close(self) -> None:
        """Leaves nothing of the turn at the engine."""
        self._done.cancel()
        if self._resuming is not None:
            self._resuming.cancel()
        await self._leave()

    async def _leave(self) -> None:
        """Ends what is under way at the engine; a connection whose answer is at its end is kept."""
        opening = self._opening
        if opening is not None and not opening.cancel() and not opening.cancelled() and opening.exception() is None:
            self._reply = opening.result()
        reply, self._reply = self._reply, None
        if reply is not None and self._stream.ended:
            await reply.finish()
        elif reply is not None:
            reply.close()

    # ---- its steps ---------------------------------------------------------------------------------------------------

    async def _translate(self) -> None:
        """Lets the engine's bytes through until it has said all that it will say."""
        assert self._opening is not None
        try:
            self._reply = await self._opening
        except asyncio.CancelledError:
            if self._abandoned is None:
                raise
            raise self._abandoned from None
        if self._abandoned is not None:
            raise self._abandoned
        conversion = self._asking.conversion
        self._stream = EngineStream(self._start(), conversion.finder())
        self._translator.demands = conversion.demands
        try:
            self._reply.push(self)
            await self._done
        finally:
            for delta in self._stream.close():
                self._translator.receive(delta)

    async def _ask_again(self, refusal: Refusal) -> None:
        """Shows the model what is wrong with its answer, and goes on with what it writes then."""
        self._translator.go_on()
        self._asking.show(refusal)
        await self._translate_anew()

    async def _learn_from_failure(self) -> None:
        """What an engine fails at in the middle of its answer may teach something, as its refusals do."""
        error = self._translator.error
        if error is not None and self._translator.can_start_over and self._asking.learn_from(error):
            self._translator.start_over()
            await self._translate_anew()

    async def _translate_anew(self) -> None:
        await self._leave()
        self._done = self._loop.create_future()
        self._opening = asyncio.create_task(self._asking.ask())
        await self._translate()

    def receive(self, data: bytes) -> None:
        """One piece of the engine's body, straight from the socket."""
        if self._done.done():
            return
        self._reads += 1
        try:
            self._stream.pass_on(data, self._translator)
        except Exception as error:
            # Nothing may be raised into the parser; the turn itself says what went wrong.
            self._done.set_exception(error)
            return
        if self._stream.ended or self._translator.error is not None:
            self._done.set_result(None)
        else:
            self._batch.add(self)

    def ended(self, error: BaseException | None) -> None:
        if not self._done.done():
            if error is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(self._reply_now().error(error))

    async def _resume(self, reply: Reply) -> None:
        await self._sink.drain()
        self._resuming = None
        reply.resume()

    def _reply_now(self) -> Reply:
        assert self._reply is not None
        return self._reply

    def flush(self) -> None:
        """Writes what has been translated, and pauses the engine if its client does not keep up."""
        out = self._translator.out
        if not out:
            return
        full = self._sink.write(out)
        out.clear()
        if full and self._resuming is None and self._reply is not None:
            self._reply.pause()
            self._resuming = asyncio.create_task(self._resume(self._reply))

    def _end(self, estimate: Usage | None) -> None:
        if self._stream.template_opens_thought:
            self.engine.opens_thought.add(self.response.model)
        error = self._translator.error
        if error is not None and error.code == SCHEMA_NOT_KEPT and not self._request.stop:
            self.engine.learn(self.response.model, {"constrains_json": False})
        if error is None:
            self.engine.reports_usage = self._translator.usage is not None
        self._translator.close(now=int(time.time()), ended=self._stream.ended, estimate=estimate)

    async def _watch(self) -> None:
        """Tells a waiting client that it is not forgotten, and gives up an engine that says nothing at all."""
        settings = self._settings
        reads, silent = self._reads, 0.0
        while True:
            limit = settings.idle_timeout if reads else settings.first_byte_timeout
            pause = min(settings.heartbeat, limit - silent)
            await asyncio.sleep(pause)
            # An engine that is paused for a slow client cannot speak.
            silent = silent + pause if reads == self._reads and self._resuming is None else 0.0
            reads = self._reads
            if silent >= limit:
                self.abandon(EngineStalled("The engine said nothing for too long.", retry_after=1))
                return
            # A journal keeps what it is told for ever; who follows it is told by other means that it is not forgotten.
            if silent and self.streams and not self.in_background:
                self._translator.heartbeat()
                self.flush()

    # ---- how it is told ----------------------------------------------------------------------------------------------

    def _start(self) -> Start:
        chat = self._asking.conversion.chat
        # A constrained answer, or one without thinking, does not begin inside a thought.
        constrained = chat.response_format is not UNSET or chat.reasoning_effort == "none"
        if chat.model in self.engine.opens_thought and not constrained:
            return Start.INSIDE
        # What is made in the background may be followed at any time.
        return Start.UNKNOWN if self.streams or self.in_background else Start.PATIENT

    def _style(self) -> Style:
        options = self._request.stream_options
        compacts = self._asking.conversion.compacts
        seals = compacts or SEALED_REASONING in (self._request.include or ())
        padded = options is not None and options.include_obfuscation
        return Style(
            summary=wants_summary(self._request) is not None,
            logprobs=self._asking.conversion.logprobs,
            seal=self._sealer.seal if seals else None,
            compacts=compacts,
            padding=secrets.token_urlsafe(PADDED_TO) if padded else None,
            reasoning_events=REASONING_EVENTS[self._settings.reasoning_events],
        )
