"""The engine's side of a run: its place at an engine, what it asks there, the answer, and the watch over it."""

from collections.abc import Coroutine, Sequence
from typing import Any

from antiphon.core.exchange.steps import Ask
from antiphon.engines.affinity import routing_headers
from antiphon.engines.replies import Reply
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.runs.body_reader import AnswerChecks, BodyReader
from antiphon.gateway.runs.observers import RunObservers
from antiphon.gateway.runs.timers import EngineWatch


class EngineSide:
    __slots__ = ("body", "checks", "conversation", "engines", "is_part", "seat", "sent_key", "watch")

    def __init__(
        self,
        engines: Sequence[Engine],
        seat: EngineSeat,
        body: BodyReader,
        checks: AnswerChecks,
        watch: EngineWatch,
        *,
        sent_key: str | None,
        conversation: str | None,
        is_part: bool,
    ) -> None:
        """`sent_key`: by which a router in front of several engines knows the conversation. `conversation`: by which it is
        known whether its tools stay in words; None: they cannot come to be. `is_part`: the seat
        is that of another run, and stays with it."""
        self.engines = engines
        self.seat = seat
        self.body = body
        self.checks = checks
        self.watch = watch
        self.sent_key = sent_key
        self.conversation = conversation
        self.is_part = is_part

    async def ask(self, step: Ask, observers: RunObservers) -> Reply:
        """Raises what the engine refuses."""
        if (leaving := self.body.leave()) is not None:
            await leaving
        engine = self.engines[step.engine]
        await self.seat.take(engine, self.engines[step.engine + 1 :])
        observers.ask(step.reason, step.chat, engine.root)
        if step.reason == "next_engine":
            self.watch.restart()
        try:
            return await engine.open_chat(step.chat, routing_headers(self.sent_key))
        except ApiError as error:
            observers.answered(error)
            raise

    def read(self, reply: Reply) -> Coroutine[Any, Any, ApiError | None]:
        """What it returns is to be awaited: until no more of the answer is wanted. Its result is the error that ended it."""
        self.watch.begin_answer(self.body.reads)
        return self.body.read(reply)

    async def leave(self) -> None:
        """Until it is asked again: others may ask it while tools run."""
        if (leaving := self.body.leave()) is not None:
            await leaving
        if not self.is_part:
            self.seat.pause()
