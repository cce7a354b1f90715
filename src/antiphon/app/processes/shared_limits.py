"""The limits of a gateway, counted by the supervisor over all worker processes.

It has the one `Admission` that a single process would have, and keeps the places of each worker process in it. A process asks
for a place, and says when it leaves it; the places of one that has ended are free again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from antiphon.app.options import admission_limits
from antiphon.app.processes.messages import Answer, Ask, Full, Note, Refusal
from antiphon.app.processes.supervised import Supervised
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineBusy, RateLimited
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.owner_limits import Admission
from antiphon.gateway.limits.places import Place
from antiphon.settings.keys import earlier_owners
from antiphon.settings.settings import Settings

# An engine as a worker process names it: its address, and how many requests it processes at once.
Named: TypeAlias = tuple[str, int | None]
Key: TypeAlias = tuple[Supervised, int]


class EngineName:
    """Stands for an engine in the supervisor, which has no connection to it: what admission reads of an engine."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.slots: int | None = None


class SharedLimits:
    def __init__(self, settings: Settings, broadcast: Callable[[Full], None]) -> None:
        """`broadcast`: sends to all worker processes which keys and engines have no free place."""
        self._admission = Admission(admission_limits(settings))
        self._admission.rename(earlier_owners(settings))
        self._admission.owners.when_freed = self._share
        self._broadcast = broadcast
        self._engines: dict[str, EngineName] = {}
        self._places: dict[Key, Place | EngineSeat] = {}
        # Those that wait for their places.
        self._waiting: dict[Key, asyncio.Task[None]] = {}
        self._full = Full((), ())

    def change(self, settings: Settings) -> None:
        self._admission.change(admission_limits(settings))
        self._admission.rename(earlier_owners(settings))
        self._share()

    def release(self, worker: Supervised) -> None:
        """Its process has ended."""
        for key in [key for key in {**self._places, **self._waiting} if key[0] is worker]:
            self._leave(key)
        self._share()

    # ---- what a worker process sends ---------------------------------------------------------------------------------

    def receive(self, sender: Supervised, message: Ask | Note) -> None:
        """Each question has a method of its name."""
        if isinstance(message, Note):
            id: int = message.arguments[0]
            if message.name == "pause":
                self._pause((sender, id))
            else:
                self._leave((sender, id))
            self._share()
            return
        methods: dict[str, Callable[..., Awaitable[Any]]] = {
            "count": self._count, "enter": self._enter, "wait": self._wait, "take": self._take
        }  # fmt: skip
        answering = asyncio.create_task(self._answer(sender, message, methods[message.name]))
        if message.name != "count":
            key = sender, int(message.arguments[0])
            self._waiting[key] = answering
            answering.add_done_callback(lambda task: self._waiting.pop(key, None) if self._waiting.get(key) is task else None)

    async def _answer(self, sender: Supervised, message: Ask, method: Callable[..., Awaitable[Any]]) -> None:
        try:
            result = await method(sender, *message.arguments)
        except (RateLimited, EngineBusy) as refused:
            result = Refusal(type(refused).__name__, refused.message, refused.retry_after)
        sender.send(Answer(message.number, result))
        self._share()

    async def _count(self, sender: Supervised, owner: str) -> Any:
        self._admission.owners.count(owner)
        return self._admission.owners.rate(owner)

    async def _enter(self, sender: Supervised, id: int, owner: str) -> None:
        place = self._admission.owners.enter(owner)
        assert isinstance(place, Place), "this is where the places are"
        self._places[sender, id] = place

    async def _wait(self, sender: Supervised, id: int, owner: str) -> None:
        place = self._places[sender, id] = self._admission.owners.patient_place(owner)
        await place.take()

    async def _take(
        self, sender: Supervised, id: int, owner: str, patient: bool, engine: Named, others: Sequence[Named]
    ) -> None:
        seat = self._places.get((sender, id))
        if not isinstance(seat, EngineSeat):
            seat = self._places[sender, id] = self._admission.engines.seat(owner, patient=patient)
        await seat.take(self._named(engine), [self._named(each) for each in others])

    def _named(self, named: Named) -> Engine:
        root, slots = named
        engine = self._engines.setdefault(root, EngineName(root))
        engine.slots = slots
        return cast(Engine, engine)

    def _pause(self, key: Key) -> None:
        if isinstance(seat := self._places.get(key), EngineSeat):
            seat.pause()

    def _leave(self, key: Key) -> None:
        if (waiting := self._waiting.pop(key, None)) is not None:
            waiting.cancel()
        if (place := self._places.pop(key, None)) is not None:
            place.leave()

    def _share(self) -> None:
        """What the processes have to know without asking, if it has changed."""
        engines = [root for root, engine in self._engines.items() if self._admission.engines.is_full(cast(Engine, engine))]
        full = Full(tuple(sorted(self._admission.owners.full_owners())), tuple(engines))
        if full != self._full:
            self._full = full
            self._broadcast(full)
